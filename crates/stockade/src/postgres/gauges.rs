use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
};

use parking_lot::Mutex;

use crate::metrics::{self, tag};

/// A gauge: its name, and the cache by which it is labelled.
type Series = (&'static str, Option<&'static str>);

/// What each relay of the process shows, by its number. A metric must not show only what the last relay to look saw.
static ALL: Mutex<BTreeMap<Series, BTreeMap<u64, f64>>> = Mutex::new(BTreeMap::new());

/// The gauges of one relay. A metric shows the highest value of all relays, and what a relay shows ends with the relay.
#[derive(Debug)]
pub(super) struct Gauges {
    number: u64,
}

impl Gauges {
    pub(super) fn new() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self { number: LAST.fetch_add(1, Ordering::Relaxed) }
    }

    pub(super) fn set(&self, name: &'static str, cache: Option<&'static str>, value: f64) {
        let mut all = ALL.lock();
        let values = all.entry((name, cache)).or_default();
        values.insert(self.number, value);
        show((name, cache), values);
    }
}

impl Drop for Gauges {
    fn drop(&mut self) {
        for (series, values) in &mut *ALL.lock() {
            if values.remove(&self.number).is_some() {
                show(*series, values);
            }
        }
    }
}

/// Called under the mutex, so that the metric shows the last change.
fn show((name, cache): Series, values: &BTreeMap<u64, f64>) {
    let tags: Vec<_> = cache.map(|cache| tag("cache", cache)).into_iter().collect();
    metrics::gauge(name, &tags, values.values().copied().fold(0.0, f64::max));
}
