use std::{sync::Arc, time::Duration};

use super::series::{DELEGATED, GRANTED, Series};
use crate::{
    clock::Instant,
    store::{LockError, Ownership},
};
#[cfg(feature = "axum")]
use crate::{metrics, resource::Label, store::Mode};

/// One attempt in the metrics: counted exactly once, as cancelled when it is dropped before anything else.
#[derive(Debug)]
pub(super) struct Outcome {
    series: Arc<Series>,
    since: Instant,
    outcome: &'static str,
}

/// Shows the metrics of a lock before its first attempt: counters as zero, histograms as empty.
#[cfg(feature = "axum")]
pub(super) fn announce(label: &Label) {
    use super::series::announce_losses;
    use crate::store::Recall;

    let lock = || ("lock", label.clone());
    metrics::announce_times(metrics::LOCK_HANDOFF, &[lock()]);
    metrics::announce_times(metrics::LOCK_RENEWAL_LAG, &[]);
    let read = |outcome| [lock(), metrics::tag("mode", Mode::Read.as_str()), metrics::tag("outcome", outcome)];
    metrics::announce(metrics::LOCK_ACQUISITIONS, &read(DELEGATED));
    for reason in Recall::labels() {
        metrics::announce(metrics::LOCK_DELEGATION_RECALLS, &[lock(), metrics::tag("reason", reason)]);
    }
    for mode in [Mode::Read, Mode::Write] {
        for name in [metrics::LOCK_WAIT, metrics::LOCK_HOLD] {
            metrics::announce_times(name, &[lock(), metrics::tag("mode", mode.as_str())]);
        }
        for outcome in ["granted", "timeout", "full", "store_error", "cancelled"] {
            let tags = [lock(), metrics::tag("mode", mode.as_str()), metrics::tag("outcome", outcome)];
            metrics::announce(metrics::LOCK_ACQUISITIONS, &tags);
        }
    }
    announce_losses(label);
}

/// A reader entered without asking anybody.
pub(super) fn entered(series: &Series) {
    series.wait.observe(Duration::ZERO);
    series.count(DELEGATED);
}

/// The outcome of an attempt that counts for nothing.
const WITHDRAWN: &str = "";

impl Outcome {
    pub(super) fn begin(series: Arc<Series>) -> Self {
        series.waiters.add(1.0);
        Self { series, since: Instant::now(), outcome: "cancelled" }
    }

    pub(super) fn granted(mut self, ownership: &Ownership) {
        self.outcome = GRANTED;
        let waited = self.since.elapsed();
        self.series.wait.observe(waited);
        if let Some(handed_off) = ownership.handed_off {
            self.series.handed_off(handed_off);
        }
        if let Some(observer) = &self.series.observer {
            ownership.granted(observer, waited);
        }
    }

    /// By an attempt that it made together with other readers.
    pub(super) fn delegated(mut self) {
        self.outcome = DELEGATED;
        self.series.wait.observe(self.since.elapsed());
    }

    /// Nothing was decided: another attempt is made in its place.
    pub(super) fn withdraw(mut self) {
        self.outcome = WITHDRAWN;
    }

    pub(super) fn refused(&mut self, error: &LockError) {
        self.outcome = match error {
            LockError::Busy { .. } | LockError::Timeout { .. } => "timeout",
            LockError::QueueFull { .. } => "full",
            LockError::ShuttingDown | LockError::Lost { .. } | LockError::HandoverVoid => "cancelled",
            LockError::Unavailable { .. }
            | LockError::Foreign { .. }
            | LockError::Unsupported { .. }
            | LockError::Committing { .. }
            | LockError::Capacity { .. }
            | LockError::Key(_)
            | LockError::Tag
            | LockError::Duration { .. }
            | LockError::Count { .. }
            | LockError::Permits { .. } => "store_error",
        };
    }
}

impl Drop for Outcome {
    fn drop(&mut self) {
        self.series.waiters.add(-1.0);
        if self.outcome != WITHDRAWN {
            self.series.count(self.outcome);
        }
    }
}
