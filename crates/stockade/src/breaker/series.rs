use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use crate::metrics::{self, BREAKER_STATE, tag};

/// The states, the better ones first.
pub(super) const LABELS: [&str; 3] = ["closed", "half_open", "open"];

/// How many breakers of each name are in each state. The nodes of a cluster have one each, and all of them share the
/// metric's series: the last to change must not speak for the others.
static ALL: Mutex<BTreeMap<&'static str, [usize; 3]>> = Mutex::new(BTreeMap::new());

/// One breaker of the name changed from one state to another, or came, or went. The metric shows the worst of them.
/// States are named by the place of their label.
pub(super) fn tell(name: &'static str, from: Option<usize>, to: Option<usize>) {
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    let counts = all.entry(name).or_default();
    if let Some(from) = from {
        counts[from] = counts[from].saturating_sub(1);
    }
    if let Some(to) = to {
        counts[to] += 1;
    }
    let worst = counts.iter().rposition(|count| *count > 0).unwrap_or_default();
    // Told before others can count, so that the last one told is the last one counted.
    for (place, label) in LABELS.into_iter().enumerate() {
        let value = if place == worst { 1.0 } else { 0.0 };
        metrics::gauge(BREAKER_STATE, &[tag("breaker", name), tag("state", label)], value);
    }
}
