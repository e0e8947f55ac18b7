use std::time::Duration;

use crate::{
    clock::Instant,
    metrics,
    resource::Label,
    store::{LockError, Mode, Ownership},
};

/// One attempt in the metrics: counted exactly once, as cancelled when it is dropped before anything else.
#[derive(Debug)]
pub(super) struct Outcome {
    label: Label,
    mode: Mode,
    since: Instant,
    outcome: &'static str,
}

/// Shows the metrics of a lock before its first attempt: counters as zero, histograms as empty.
#[cfg(feature = "axum")]
pub(super) fn announce(label: &Label) {
    use crate::store::{LossReason, Recall};

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
    for reason in [LossReason::Expired, LossReason::Stolen, LossReason::Forced, LossReason::StoreLostData] {
        metrics::announce(metrics::LOCK_LOST, &[lock(), metrics::tag("reason", reason.as_str())]);
    }
}

/// A reader shares an ownership of this process.
const DELEGATED: &str = "delegated";

/// A reader entered without asking anybody.
pub(super) fn entered(label: &Label) {
    let (lock, mode) = (("lock", label.clone()), metrics::tag("mode", Mode::Read.as_str()));
    metrics::observe(metrics::LOCK_WAIT, &[lock.clone(), mode.clone()], Duration::ZERO);
    metrics::count(metrics::LOCK_ACQUISITIONS, &[lock, mode, metrics::tag("outcome", DELEGATED)]);
}

/// The outcome of an attempt that counts for nothing.
const WITHDRAWN: &str = "";

impl Outcome {
    pub(super) fn begin(label: Label, mode: Mode) -> Self {
        metrics::gauge_add(metrics::LOCK_WAITERS, &[("lock", label.clone())], 1.0);
        Self { label, mode, since: Instant::now(), outcome: "cancelled" }
    }

    pub(super) fn granted(mut self, ownership: &Ownership) {
        self.outcome = "granted";
        let tags = [("lock", self.label.clone()), metrics::tag("mode", self.mode.as_str())];
        metrics::observe(metrics::LOCK_WAIT, &tags, self.since.elapsed());
        if let Some(handed_off) = ownership.handed_off {
            metrics::observe(metrics::LOCK_HANDOFF, &tags[..1], handed_off);
        }
    }

    /// By an attempt that it made together with other readers.
    pub(super) fn delegated(mut self) {
        self.outcome = DELEGATED;
        let tags = [("lock", self.label.clone()), metrics::tag("mode", self.mode.as_str())];
        metrics::observe(metrics::LOCK_WAIT, &tags, self.since.elapsed());
    }

    /// Nothing was decided: another attempt is made in its place.
    pub(super) fn withdraw(mut self) {
        self.outcome = WITHDRAWN;
    }

    pub(super) fn refused(mut self, error: &LockError) {
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
        let label = std::mem::take(&mut self.label);
        metrics::gauge_add(metrics::LOCK_WAITERS, &[("lock", label.clone())], -1.0);
        if self.outcome == WITHDRAWN {
            return;
        }
        let tags = [("lock", label), metrics::tag("mode", self.mode.as_str()), metrics::tag("outcome", self.outcome)];
        metrics::count(metrics::LOCK_ACQUISITIONS, &tags);
    }
}
