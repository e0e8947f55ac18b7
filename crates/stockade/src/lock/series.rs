use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use foldhash::HashMap;
use parking_lot::RwLock;

use crate::{
    metrics::{self, Counter, Gauge, Times},
    resource::Label,
    store::{LossReason, Mode, Observer},
};

/// The outcome of an attempt that got the lock from the store.
pub(super) const GRANTED: &str = "granted";
/// The outcome for a reader that shares an ownership of this process.
pub(super) const DELEGATED: &str = "delegated";

/// The metrics of one lock in one mode, looked up once. Looking them up for each lock and release without contention
/// would take longer than the rest of the work.
#[derive(Debug)]
pub(super) struct Series {
    label: Label,
    mode: Mode,
    pub(super) waiters: Gauge,
    pub(super) held: Gauge,
    pub(super) wait: Times,
    pub(super) hold: Times,
    granted: OnceLock<Counter>,
    delegated: OnceLock<Counter>,
    /// Whom grants are told to.
    pub(super) observer: Option<Observer>,
}

impl Series {
    fn new(label: &Label, mode: Mode, observer: Option<Observer>) -> Self {
        let tags = [("lock", label.clone()), metrics::tag("mode", mode.as_str())];
        announce_losses(label);
        Self {
            waiters: Gauge::of(metrics::LOCK_WAITERS, &tags[..1]),
            held: Gauge::of(metrics::LOCKS_HELD, &tags),
            wait: Times::of(metrics::LOCK_WAIT, &tags),
            hold: Times::of(metrics::LOCK_HOLD, &tags),
            granted: OnceLock::new(),
            delegated: OnceLock::new(),
            label: label.clone(),
            mode,
            observer,
        }
    }

    pub(super) fn handed_off(&self, after: Duration) {
        Times::of(metrics::LOCK_HANDOFF, &[("lock", self.label.clone())]).observe(after);
    }

    /// Counts an attempt that ended. Most attempts end well.
    pub(super) fn count(&self, outcome: &'static str) {
        let tags = || {
            [("lock", self.label.clone()), metrics::tag("mode", self.mode.as_str()), metrics::tag("outcome", outcome)]
        };
        let kept = match outcome {
            GRANTED => &self.granted,
            DELEGATED => &self.delegated,
            _ => return metrics::count(metrics::LOCK_ACQUISITIONS, &tags()),
        };
        kept.get_or_init(|| Counter::of(metrics::LOCK_ACQUISITIONS, &tags())).count();
    }
}

/// Shows how often a lock was lost before it was, as zero: an alert asks by how much that rises.
pub(super) fn announce_losses(label: &Label) {
    for reason in [LossReason::Expired, LossReason::Stolen, LossReason::Forced, LossReason::StoreLostData] {
        metrics::announce(metrics::LOCK_LOST, &[("lock", label.clone()), metrics::tag("reason", reason.as_str())]);
    }
}

/// The series of one `Locks`. There are few, because their labels are kinds and templates.
#[derive(Debug)]
pub(super) struct AllSeries {
    known: RwLock<HashMap<Label, Vec<Arc<Series>>>>,
    observer: Option<Observer>,
}

impl AllSeries {
    pub(super) fn new(observer: Option<Observer>) -> Self {
        Self { known: RwLock::default(), observer }
    }

    pub(super) fn of(&self, label: &Label, mode: Mode) -> Arc<Series> {
        let known = |series: &Vec<Arc<Series>>| series.iter().find(|series| series.mode == mode).map(Arc::clone);
        let found = self.known.read().get(label.as_ref()).and_then(known);
        found.unwrap_or_else(|| {
            let mut all = self.known.write();
            let series = all.entry(label.clone()).or_default();
            known(series).unwrap_or_else(|| {
                let new = Arc::new(Series::new(label, mode, self.observer.clone()));
                series.push(Arc::clone(&new));
                new
            })
        })
    }
}
