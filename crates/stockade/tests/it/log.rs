use std::{
    io,
    sync::{Arc, LazyLock, Mutex},
};

use tracing::{
    Dispatch,
    subscriber::{DefaultGuard, set_default},
};

/// A second subscriber. While there is only one, a log statement that first runs on a thread without a subscriber is
/// switched off for all threads.
static ANOTHER: LazyLock<Dispatch> =
    LazyLock::new(|| Dispatch::new(tracing_subscriber::fmt().with_writer(io::sink).finish()));

/// The log of this thread, as text.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Starts a log of this thread. It is written until the guard is dropped.
    pub(crate) fn start() -> (Self, DefaultGuard) {
        LazyLock::force(&ANOTHER);
        let log = Self::default();
        let writer = log.clone();
        let logged = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
        (log, set_default(logged))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

impl io::Write for Log {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(text)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
