use std::collections::BTreeMap;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::metrics::{self, BREAKER_STATE, tag};

/// The labels of the states, from the best state to the worst.
pub(super) const LABELS: [&str; 3] = ["closed", "half_open", "open"];

/// How a breaker is shown, from the best state to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Shown {
    Closed,
    HalfOpen,
    /// Until then at least.
    Open(Instant),
}

impl Shown {
    /// The place of its label in [`LABELS`].
    pub(super) fn place(self) -> usize {
        match self {
            Self::Closed => 0,
            Self::HalfOpen => 1,
            Self::Open(_) => 2,
        }
    }
}

/// The breakers of each name, by their numbers. Each node of a cluster has a breaker, and all of them share one series
/// of the metric. The metric must not show only the breaker that changed last.
static ALL: Mutex<BTreeMap<&'static str, BTreeMap<u64, Shown>>> = Mutex::new(BTreeMap::new());

/// Notes how a breaker of this name is to be shown from now on: `None` when it is dropped.
pub(super) fn tell(name: &'static str, number: u64, shown: Option<Shown>) {
    let mut all = ALL.lock();
    let breakers = all.entry(name).or_default();
    match shown {
        Some(shown) => breakers.insert(number, shown),
        None => breakers.remove(&number),
    };
    show(name, breakers);
}

/// Shows the breakers of this name as half-open that were open for their time. The next call is let through, so nothing
/// is refused any more; but the breaker itself changes only with that call, which may not come for hours.
pub(crate) fn show_ended(name: &'static str) {
    let (now, mut all) = (Instant::now(), ALL.lock());
    let Some(breakers) = all.get_mut(name) else { return };
    let mut ended = false;
    for shown in breakers.values_mut() {
        if matches!(shown, Shown::Open(until) if *until <= now) {
            (*shown, ended) = (Shown::HalfOpen, true);
        }
    }
    if ended {
        show(name, breakers);
    }
}

/// The metric shows the worst state of all. It is set under the mutex, so that it shows the last change.
fn show(name: &'static str, breakers: &BTreeMap<u64, Shown>) {
    let worst = breakers.values().max().map_or(0, |shown| shown.place());
    for (place, label) in LABELS.into_iter().enumerate() {
        let value = if place == worst { 1.0 } else { 0.0 };
        metrics::gauge(BREAKER_STATE, &[tag("breaker", name), tag("state", label)], value);
    }
}
