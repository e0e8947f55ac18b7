use std::time::Duration;

use crate::{clock::Instant, store::Readers};

/// The least that the server is told of a wait. Zero would turn an attempt that waits into one that does not.
const LEAST: Duration = Duration::from_millis(1);

#[derive(Clone, Copy, Debug)]
pub(super) struct WaitLimit {
    pub(super) since: Instant,
    /// The end of the wait; `None` without limit.
    pub(super) until: Option<Instant>,
    /// Whether the attempt was not to wait, and waits only for holders that were told to give way.
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

    pub(super) fn is_over(&self) -> bool {
        self.until.is_some_and(|until| until.remaining().is_zero())
    }

    /// How much of the wait to tell the server. Never zero, since the server takes zero for an attempt that does not
    /// wait.
    pub(super) fn left(&self) -> Option<Duration> {
        self.until.map(|until| until.remaining().max(LEAST))
    }

    /// Readers that have joined since may wait for longer. Returns whether they put off the end of the wait.
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
