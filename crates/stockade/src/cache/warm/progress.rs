use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How far a warm-up is. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct WarmProgress(Arc<Mutex<WarmReport>>);

/// What became of the keys of a warm-up so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WarmReport {
    /// Whether it goes on, or how it ended.
    pub state: WarmState,
    /// Keys taken from the stream.
    pub keys: u64,
    /// Values loaded and stored.
    pub loaded: u64,
    /// Keys without a row; that is stored too.
    pub absent: u64,
    /// Keys that were there, or were brought by somebody else's load.
    pub present: u64,
    /// Keys that are none, or whose load failed.
    pub failed: u64,
}

/// Whether a warm-up goes on, or how it ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WarmState {
    /// It has not begun or goes on.
    #[default]
    Running,
    /// The stream ended, and everything in it was seen to.
    Complete,
    /// Its time was over.
    TimeUp,
    /// Redis did not answer for a few seconds: nothing would be stored.
    Unavailable,
    /// The cache is shutting down.
    ShuttingDown,
    /// Its future was dropped.
    Cancelled,
}

impl WarmReport {
    /// Keys without a result. While the warm-up runs these are the keys still to come. Afterwards they are the keys for
    /// which the time was too short, that were written or failed shortly before, or that others kept loading.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.keys.saturating_sub(self.loaded + self.absent + self.present + self.failed)
    }
}

impl WarmProgress {
    /// What was done so far.
    #[must_use]
    pub fn report(&self) -> WarmReport {
        *self.lock()
    }

    /// Whether it has not ended yet.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.lock().state == WarmState::Running
    }

    pub(super) fn count(&self, note: impl FnOnce(&mut WarmReport)) {
        note(&mut self.lock());
    }

    /// Later ends change nothing.
    pub(super) fn end(&self, state: WarmState) {
        let mut report = self.lock();
        if report.state == WarmState::Running {
            report.state = state;
        }
    }

    fn lock(&self) -> MutexGuard<'_, WarmReport> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
