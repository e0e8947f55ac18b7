use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::metrics::{self, BREAKER_STATE, tag};

/// The labels of the states, from the best state to the worst.
pub(super) const LABELS: [&str; 3] = ["closed", "half_open", "open"];

/// How many breakers of each name are in each state. Each node of a cluster has a breaker, and all of them share one
/// series of the metric. The metric must not show only the breaker that changed last.
static ALL: Mutex<BTreeMap<&'static str, [usize; 3]>> = Mutex::new(BTreeMap::new());

/// Counts that a breaker of this name changed `from` one state `to` another. `from` is `None` for a new breaker, `to`
/// is `None` for one that is dropped. The metric shows the worst state of all. A state is given by the place of its
/// label.
pub(super) fn tell(name: &'static str, from: Option<usize>, to: Option<usize>) {
    let mut all = ALL.lock();
    let counts = all.entry(name).or_default();
    if let Some(from) = from {
        counts[from] = counts[from].saturating_sub(1);
    }
    if let Some(to) = to {
        counts[to] += 1;
    }
    let worst = counts.iter().rposition(|count| *count > 0).unwrap_or_default();
    // The gauge is set under the mutex, so that the gauge shows the counts of the last change.
    for (place, label) in LABELS.into_iter().enumerate() {
        let value = if place == worst { 1.0 } else { 0.0 };
        metrics::gauge(BREAKER_STATE, &[tag("breaker", name), tag("state", label)], value);
    }
}
