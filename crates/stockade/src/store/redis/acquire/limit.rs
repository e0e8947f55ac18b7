use std::time::Duration;

use crate::{clock::Instant, store::Readers};

/// What is left of a wait that is as good as over: an attempt that has begun to wait never becomes one that does not.
const LEAST: Duration = Duration::from_millis(1);

/// How long an attempt waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitLimit {
    since: Instant,
    /// The end of the wait; `None` without limit.
    until: Option<Instant>,
    /// Whether the attempt was not to wait, and does so only for holders that were told to give way.
    pub(super) for_recall: bool,
}

impl WaitLimit {
    /// [`Duration::MAX`] is no limit.
    pub(super) fn new(wait: Duration) -> Self {
        let since = Instant::now();
        Self { since, until: (wait != Duration::MAX).then(|| since + wait), for_recall: false }
    }

    pub(super) fn for_recall(self, wait: Duration) -> Self {
        Self { until: Some(Instant::now() + wait), for_recall: true, ..self }
    }

    pub(super) fn since(&self) -> Instant {
        self.since
    }

    pub(super) fn waited(&self) -> Duration {
        self.since.elapsed()
    }

    pub(super) fn until(&self) -> Option<Instant> {
        self.until
    }

    pub(super) fn is_over(&self) -> bool {
        self.until.is_some_and(|until| until.remaining().is_zero())
    }

    /// What to tell the server, which takes zero for an attempt that does not wait.
    pub(super) fn left(&self) -> Option<Duration> {
        self.until.map(|until| until.remaining().max(LEAST))
    }

    /// Readers who have come since may wait for longer. Returns whether that puts off the end of the wait.
    pub(super) fn put_off(&mut self, readers: Option<&Readers>) -> bool {
        let Some((until, readers)) = self.until.zip(readers) else { return false };
        let latest = readers.waits_until();
        let later = latest.is_none_or(|latest| latest > until);
        if later {
            self.until = latest;
        }
        later
    }
}
