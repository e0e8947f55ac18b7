use std::{fmt, sync::Arc, time::Duration};

use serde::{Serialize, de::DeserializeOwned};
use tokio::{task::JoinHandle, time::timeout};
use tokio_util::task::TaskTracker;

#[cfg(feature = "postgres")]
use crate::cache::load::LoadInFn;
use crate::{
    cache::{
        CacheError, Inspection, Kept, Tier,
        bloom::Bloom,
        flight::Flights,
        load::Loader,
        local::Local,
        runtime::Runtime,
        settings::Settings,
        stats::Counters,
        store::{Store, Trust},
        value::Entry,
    },
    clock::Instant,
    resource::{Key, Resource},
};

/// How long a shutdown waits for the loads that it has given up: they give back their leases.
const LAST_COMMANDS: Duration = Duration::from_secs(1);

/// What the keys of a cache are: they go along to its tasks.
pub(crate) trait CacheKey: Resource + Clone + Send + Sync + 'static {}

impl<K: Resource + Clone + Send + Sync + 'static> CacheKey for K {}

/// What the values of a cache are.
pub(crate) trait CacheValue: Serialize + DeserializeOwned + Send + Sync + 'static {}

impl<V: Serialize + DeserializeOwned + Send + Sync + 'static> CacheValue for V {}

/// What every clone of a cache shares.
pub(crate) struct Core<K, V> {
    pub(crate) settings: Arc<Settings>,
    pub(crate) local: Arc<Local<V>>,
    pub(crate) store: Store<V>,
    pub(crate) loader: Loader<K, V>,
    pub(crate) flights: Arc<Flights<V>>,
    /// Loads ahead of time, which no caller waits for.
    pub(crate) refreshes: Arc<Flights<V>>,
    #[cfg(feature = "postgres")]
    pub(crate) load_in: Option<LoadInFn<K, V>>,
    /// Which rows may exist.
    pub(crate) bloom: Option<Bloom>,
    pub(crate) counters: Counters,
    pub(crate) tasks: TaskTracker,
    /// The runtime of the connections to Redis.
    pub(crate) home: Option<Runtime>,
}

impl<K: CacheKey, V: CacheValue> Core<K, V> {
    /// Runs work that callers of any runtime may wait for. It runs beside the connections to Redis, since the runtime
    /// of the caller that begins the work may stand still, or end, while others wait. Without Redis there is no such
    /// place, and it runs on the runtime of the caller. So it does once the runtime of the connections has ended.
    pub(crate) fn spawn<F>(&self, work: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        match &self.home {
            Some(home) if !home.has_ended() => self.tasks.spawn_on(work, home.handle()),
            _ => self.tasks.spawn(work),
        }
    }

    pub(crate) fn unreadable(&self, name: &Key) {
        tracing::debug!(cache = self.settings.name, %name, "loading over a payload that can't be read");
        self.counters.refused(self.settings.name, "unreadable");
    }

    /// The current time, if the in-process tier may serve under the normal rules. The clock is not read if the cache is
    /// built so that the tier never may.
    pub(crate) fn serving_at(&self) -> Option<Instant> {
        if self.settings.serve_local { self.verified_at() } else { None }
    }

    /// The current time, if the in-process tier hears of invalidations.
    pub(crate) fn verified_at(&self) -> Option<Instant> {
        let now = Instant::now();
        self.store.is_verified_at(now).then_some(now)
    }

    /// A value that the in-process tier may serve under the normal rules, and the current time.
    pub(crate) fn fresh(&self, name: &Key) -> Option<(Entry<V>, Instant)> {
        let now = self.serving_at()?;
        let entry = self.local.get(name.as_str()).filter(|entry| entry.is_fresh(now))?;
        Some((entry, now))
    }

    /// Lets the first calls wait until a connection was attempted. Must be called before a reservation is made: a new
    /// connection voids reservations.
    pub(crate) async fn attempted(&self) {
        if let Some(bloom) = &self.bloom {
            // Both at once, so that no call waits for two time-outs in a row.
            tokio::join!(self.store.attempted(), bloom.attempted());
            return;
        }
        self.store.attempted().await;
    }

    /// For each key, whether the filter says that there is no such row. Always `false` without a filter.
    pub(crate) async fn surely_absent(&self, names: &[&Key]) -> Vec<bool> {
        if let Some(bloom) = &self.bloom {
            let may_hold = bloom.may_hold_each(names, self.settings.strict.is_some()).await;
            return may_hold.into_iter().map(|may| !may).collect();
        }
        vec![false; names.len()]
    }

    /// Evidence that no value in the store is older than a write that was acknowledged; `None` where one may be. An
    /// eventual cache needs no evidence and always has it.
    pub(crate) fn trust(&self) -> Option<Trust> {
        if self.settings.strict.is_some() { self.store.trust() } else { Some(Trust::default()) }
    }

    /// Whether `trust`, taken earlier, still holds: then every reply of the store since can be trusted.
    pub(crate) fn still_trusted(&self, trust: Option<Trust>) -> bool {
        trust.is_some() && trust == self.trust()
    }

    /// A value of the in-process tier within its grace, which begins when the value expires or when the tier stops
    /// hearing of invalidations, whichever is earlier. A strict cache has no grace.
    pub(crate) fn within_grace(&self, name: &Key) -> Option<Entry<V>> {
        if self.settings.strict.is_some() {
            return None;
        }
        let entry = self.local.get(name.as_str())?;
        let good_until = entry.expires.min(self.store.verified_until());
        (Instant::now() < good_until + self.settings.grace).then_some(entry)
    }

    pub(crate) async fn inspect(&self, key: &K) -> Result<Inspection, CacheError> {
        let name = Key::of(key)?;
        let (redis, lease) = self.store.inspect(&name).await;
        let local = self.local.get(name.as_str()).map_or(Tier::Empty, |entry| Tier::Kept(Kept::of(&entry)));
        let fetching = self.flights.has(&name) || self.refreshes.has(&name);
        Ok(Inspection { local, redis, fetching, lease })
    }

    pub(crate) async fn shutdown(&self, limit: Duration) {
        self.loader.closing.cancel();
        self.tasks.close();
        let began = Instant::now();
        if timeout(limit, self.tasks.wait()).await.is_err() {
            self.loader.aborting.cancel();
            // A task that still waits for a command then ends with the connection, which is closed next.
            let _ = timeout(LAST_COMMANDS, self.tasks.wait()).await;
        }
        self.store.shutdown(limit.saturating_sub(began.elapsed())).await;
    }
}

impl<K, V> fmt::Debug for Core<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("settings", &self.settings).finish_non_exhaustive()
    }
}
