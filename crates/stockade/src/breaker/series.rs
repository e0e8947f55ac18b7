use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
};

use parking_lot::Mutex;

use crate::metrics::{self, BREAKER_STATE, tag};

/// The labels of the states, from the best state to the worst. A state is given by its place here.
pub(super) const LABELS: [&str; 3] = ["closed", "half_open", "open"];

/// The breakers of each name, by their numbers. Each node of a cluster has a breaker, and all of them share one series
/// of the metric. The metric must not show only the breaker that changed last.
static ALL: Mutex<BTreeMap<&'static str, BTreeMap<u64, usize>>> = Mutex::new(BTreeMap::new());

/// The number of a new breaker or quorum: no other one of the process has it.
pub(super) fn number() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed)
}

/// Notes the state of a breaker of this name: `None` when it is dropped.
pub(super) fn tell(name: &'static str, number: u64, state: Option<usize>) {
    let mut all = ALL.lock();
    let breakers = all.entry(name).or_default();
    match state {
        Some(state) => breakers.insert(number, state),
        None => breakers.remove(&number),
    };
    // The metric shows the worst state of all. It is set under the mutex, so that it shows the last change.
    let worst = breakers.values().max().copied().unwrap_or_default();
    for (place, label) in LABELS.into_iter().enumerate() {
        let value = if place == worst { 1.0 } else { 0.0 };
        metrics::gauge(BREAKER_STATE, &[tag("breaker", name), tag("state", label)], value);
    }
}
