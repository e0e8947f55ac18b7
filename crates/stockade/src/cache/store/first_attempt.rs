use std::sync::{
    OnceLock,
    atomic::{AtomicBool, Ordering},
};

use tokio::time::{Instant, timeout_at};

use crate::redis::Link;

/// Lets the first calls after a start wait for the connection. Without this wait they would fail although the server is
/// healthy.
///
/// The wait begins with the first call. It ends for all calls together, when the first attempt to connect has ended or
/// after a command time-out. Later calls do not wait.
#[derive(Debug, Default)]
pub(crate) struct FirstAttempt {
    over: AtomicBool,
    until: OnceLock<Instant>,
}

impl FirstAttempt {
    /// Cancel safe.
    pub(crate) async fn of(&self, link: &Link) {
        if self.over.load(Ordering::Acquire) {
            return;
        }
        let until = *self.until.get_or_init(|| Instant::now() + link.timeout());
        let _ = timeout_at(until, link.attempted()).await;
        self.over.store(true, Ordering::Release);
    }
}
