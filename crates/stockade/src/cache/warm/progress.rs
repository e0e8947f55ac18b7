use std::sync::Arc;

use parking_lot::Mutex;

/// The progress of a warm-up. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct WarmProgress(Arc<Mutex<WarmReport>>);

/// The results of a warm-up so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WarmReport {
    /// Whether the warm-up goes on, or how it ended.
    pub state: WarmState,
    /// Keys taken from the stream.
    pub keys: u64,
    /// Values loaded and stored.
    pub loaded: u64,
    /// Keys without a row. Their absence is stored too, unless the Bloom filter told it.
    pub absent: u64,
    /// Keys that were already stored, or that somebody else loaded.
    pub present: u64,
    /// Keys that are invalid, or whose load failed.
    pub failed: u64,
}

/// Whether a warm-up goes on, or how it ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WarmState {
    /// The warm-up has not begun, or goes on.
    #[default]
    Running,
    /// The stream ended, and all its keys were handled.
    Complete,
    /// The time limit was reached.
    TimeUp,
    /// Redis did not answer for five seconds, so nothing could be stored.
    Unavailable,
    /// The cache is shutting down.
    ShuttingDown,
    /// The future of the warm-up was dropped.
    Cancelled,
}

impl WarmReport {
    /// Keys without a result. While the warm-up runs, these are the keys still to come. Afterwards, these are keys for
    /// which the time was too short, keys that were written or failed shortly before, and keys that others kept
    /// loading.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.keys.saturating_sub(self.loaded + self.absent + self.present + self.failed)
    }
}

impl WarmProgress {
    /// The results so far.
    #[must_use]
    pub fn report(&self) -> WarmReport {
        *self.0.lock()
    }

    /// Whether the warm-up has not ended yet.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.0.lock().state == WarmState::Running
    }

    pub(super) fn count(&self, note: impl FnOnce(&mut WarmReport)) {
        note(&mut self.0.lock());
    }

    /// Notes how the warm-up ended. Only the first call has an effect.
    pub(super) fn end(&self, state: WarmState) {
        let mut report = self.0.lock();
        if report.state == WarmState::Running {
            report.state = state;
        }
    }
}
