use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;

use crate::clock::Instant;

/// How long a process commits before it looks for a relay, since its own relay may be about to start.
const PATIENCE: Duration = Duration::from_secs(10);

/// The caches of which this process commits invalidations, and whether a relay is known to run for each.
#[derive(Debug, Default)]
pub(super) struct Wanted(Mutex<HashMap<&'static str, Want>>);

#[derive(Debug)]
struct Want {
    since: Instant,
    /// A relay was seen, or its absence was logged.
    settled: bool,
}

impl Wanted {
    /// Notes that invalidations of these caches were committed. Returns the caches for which to look for a relay now.
    pub(super) fn due(&self, caches: impl Iterator<Item = &'static str>) -> Vec<&'static str> {
        let mut wanted = self.0.lock();
        let now = Instant::now();
        let mut is_due = |cache: &&'static str| {
            let want = wanted.entry(*cache).or_insert(Want { since: now, settled: false });
            // One transaction looks, and others do not meanwhile.
            let due = !want.settled && now.since(want.since) >= PATIENCE;
            want.settled |= due;
            due
        };
        caches.filter(|cache| is_due(cache)).collect()
    }

    /// The look for these caches failed, so a later transaction looks again.
    pub(super) fn again(&self, caches: &[&'static str]) {
        let mut wanted = self.0.lock();
        for cache in caches {
            wanted.insert(cache, Want { since: Instant::now(), settled: false });
        }
    }
}
