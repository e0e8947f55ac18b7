use std::{sync::Arc, time::Duration};

use rand::Rng;
use tokio::time::{sleep, timeout};
use tracing::Instrument;

use crate::{
    cache::{
        CacheError,
        core::{CacheKey, CacheValue, Core},
        fetch::{Loads, Permit, Purpose, Step},
        flight::{Join, Pilot},
        store::{POLL, Want},
        value::Entry,
    },
    clock::Instant,
    resource::Key,
};

/// A shorter load counts as this long, so that values whose load took almost no time are refreshed early too.
const SHORTEST_LOAD: Duration = Duration::from_millis(1);

/// Whether a value is to be loaded again before it expires.
///
/// This is XFetch, from "Optimal Probabilistic Cache Stampede Prevention" (Vattani, Chierichetti, Lowenstein; VLDB
/// 2015). The longer the load takes, the earlier the value is loaded again. The moment is random, so that two processes
/// seldom choose the same one. It never lies in the first half of the value's lifetime.
pub(crate) fn is_due<V>(entry: &Entry<V>, beta: f64, now: Instant) -> bool {
    let left = entry.expires.since(now);
    if left > entry.expires.since(entry.loaded) / 2 {
        return false;
    }
    // In (0, 1], because the logarithm of zero is not finite.
    let random = 1.0 - rand::rng().random::<f64>();
    let lead = entry.took.max(SHORTEST_LOAD).as_secs_f64() * beta * -random.ln();
    left.as_secs_f64() <= lead
}

impl<K: CacheKey, V: CacheValue> Core<K, V> {
    /// Loads the value again in the background, unless this process already does or another one has the lease.
    pub(crate) fn refresh(self: &Arc<Self>, key: &K, name: &Key) {
        let (_, pilot) = self.refreshes.board(name, Join::Any);
        if let Some(pilot) = pilot {
            let (core, key, name) = (Arc::clone(self), key.clone(), name.clone());
            self.spawn(async move { core.fly_early(key, &name, pilot).await }.in_current_span());
        }
    }

    pub(crate) fn refresh_if_due(self: &Arc<Self>, key: &K, name: &Key, entry: &Entry<V>, now: Instant) {
        if is_due(entry, self.settings.beta, now) {
            self.refresh(key, name);
        }
    }

    /// Runs a refresh. No caller waits for it, so it loads only under a lease that is granted at once. If another
    /// process has loaded the value since, this process takes that one.
    async fn fly_early(&self, key: K, name: &Key, pilot: Pilot<V>) {
        let attempt = self.attempt(name, &pilot, Purpose::Refresh);
        let reply = self.lease(name, &attempt, Want::Load).await;
        match self.next_step(name, &attempt, reply, None) {
            Step::Load(Permit::Leased(stale)) => {
                let leased = attempt.granted(stale);
                // Not in the queue of the readers, who would wait behind it. While no load is tried, nobody waits for
                // the lease either.
                let limits = &self.loader.limits;
                let wait = if limits.is_refusing() { Duration::ZERO } else { self.loader.longest_wait() };
                let admitting = timeout(wait, limits.admit_spare());
                match self.loader.closing.run_until_cancelled(admitting).await {
                    Some(Ok(place)) => {
                        let outcome = self.load_leased(Some(place), key, name, &pilot, leased).await;
                        return pilot.land(outcome);
                    }
                    _ => {
                        let shed = CacheError::Shed { retry_after: wait };
                        self.give_back(name, &leased.token, &shed, Loads::One).await;
                    }
                }
            }
            Step::Serve(entry) => {
                self.local.put_found(attempt.reservation, name, entry);
                return;
            }
            // Another process loads, a load failed a moment ago, or nothing can be stored now.
            _ => {}
        }
        // The next read would ask again at once, so the pilot stays in his seat for a while.
        let _ = self.loader.aborting.run_until_cancelled(sleep(POLL)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lead_follows_the_duration_of_the_load() {
        let now = Instant::now();
        let ttl = Duration::from_secs(10);
        let entry = |left: Duration, took: Duration| {
            let expires = now + left;
            Entry { loaded: expires - ttl, expires, took, ..Entry::new(Some(()), 0) }
        };
        let share = |left: Duration, took: Duration| {
            let due = (0..20_000).filter(|_| is_due(&entry(left, took), 1.0, now)).count();
            f64::from(u32::try_from(due).unwrap()) / 20_000.0
        };
        let took = Duration::from_millis(100);
        // The chance at a gap g is e^(-g/took).
        for (gap, chance) in [(50, 0.6065), (100, 0.3679), (300, 0.0498)] {
            let seen = share(Duration::from_millis(gap), took);
            assert!((seen - chance).abs() < 0.02, "{gap} ms before the end: {seen}, expected {chance}");
        }
        assert!(share(Duration::ZERO, took) > 0.999, "at its end it is always due");
        let long = Duration::from_secs(3600);
        assert_eq!(share(Duration::from_secs(6), long), 0.0, "in the first half of its life it never is");
    }
}
