use std::sync::{
    OnceLock,
    atomic::{AtomicBool, Ordering},
};

use tokio::time::{Instant, timeout_at};

use crate::redis::Link;

/// The wait for a connection that was asked for a moment ago: without it the first questions after a start would be
/// refused by a healthy server.
///
/// It begins with the first question and ends for all of them together, with the first attempt to connect or a command
/// time-out later. Questions after that do not wait.
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
