use std::{fmt, sync::Arc, time::Duration};

use serde::{Serialize, de::DeserializeOwned};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

#[cfg(feature = "postgres")]
use crate::cache::load::LoadInFn;
use crate::{
    cache::{
        bloom::{Bloom, Bound},
        flight::Flights,
        load::Loader,
        local::Local,
        settings::Settings,
        stats::Counters,
        store::{Store, Trust},
        value::Entry,
    },
    clock::Instant,
    resource::{Key, Resource},
};

/// What every clone of a cache shares.
pub(crate) struct Core<K, V> {
    pub(crate) settings: Arc<Settings>,
    pub(crate) local: Arc<Local<V>>,
    pub(crate) store: Store<V>,
    pub(crate) loader: Loader<K, V>,
    pub(crate) flights: Arc<Flights<V>>,
    /// Loads that nobody waits for.
    pub(crate) refreshes: Arc<Flights<V>>,
    /// Loads that were asked for although there might be a value.
    pub(crate) reloads: Arc<Flights<V>>,
    #[cfg(feature = "postgres")]
    pub(crate) load_in: Option<LoadInFn<K, V>>,
    /// Which rows may exist.
    pub(crate) bloom: Option<Bloom>,
    pub(crate) counters: Counters,
    pub(crate) tasks: TaskTracker,
}

impl<K, V> Core<K, V>
where
    K: Resource + Clone + Send + Sync + 'static,
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    pub(crate) fn unreadable(&self, name: &Key) {
        tracing::debug!(cache = self.settings.name, %name, "loading over a payload that can't be read");
        self.counters.refused(self.settings.name, "unreadable");
    }

    /// The present, if the in-process tier may serve under the normal rules. Where it never does, the clock is not
    /// read.
    pub(crate) fn serving_at(&self) -> Option<Instant> {
        if self.settings.serve_local { self.verified_at() } else { None }
    }

    /// The present, if the in-process tier hears of invalidations.
    pub(crate) fn verified_at(&self) -> Option<Instant> {
        let now = Instant::now();
        self.store.is_verified_at(now).then_some(now)
    }

    /// A value that the in-process tier may serve under the normal rules.
    pub(crate) fn fresh(&self, name: &Key) -> Option<Entry<V>> {
        let now = self.serving_at()?;
        self.local.get(name.as_str()).filter(|entry| entry.is_fresh(now))
    }

    /// The wait of the first questions for a connection. It comes before a reservation, which a new connection voids.
    pub(crate) async fn attempted(&self) {
        if let Some(bloom) = &self.bloom {
            // Both at once, so that nobody waits for two time-outs.
            tokio::join!(self.store.attempted(), bloom.attempted());
            return;
        }
        self.store.attempted().await;
    }

    /// Whether the filter says of each that there is no such row.
    pub(crate) async fn surely_absent(&self, names: &[&Key]) -> Vec<bool> {
        if let Some(bloom) = &self.bloom {
            let bound = if self.settings.strict.is_some() { Bound::Wanted } else { Bound::Any };
            return bloom.may_hold_each(names, bound).await.into_iter().map(|may| !may).collect();
        }
        vec![false; names.len()]
    }

    /// Evidence that no value in the store is older than a write that was acknowledged; `None` where one may be. An
    /// eventual cache needs no evidence and always has it.
    pub(crate) fn trust(&self) -> Option<Trust> {
        if self.settings.strict.is_some() { self.store.trust() } else { Some(Trust::default()) }
    }

    /// Whether everything that the store was asked since can be trusted.
    pub(crate) fn still_trusted(&self, trust: Option<Trust>) -> bool {
        trust.is_some() && trust == self.trust()
    }

    /// A value of the in-process tier that expired, or went without news of invalidations, not longer ago than its
    /// grace.
    pub(crate) fn within_grace(&self, name: &Key) -> Option<Entry<V>> {
        if self.settings.strict.is_some() {
            return None;
        }
        let entry = self.local.get(name.as_str())?;
        let good_until = entry.expires.min(self.store.verified_until());
        (Instant::now() < good_until + self.settings.grace).then_some(entry)
    }

    pub(crate) async fn shutdown(&self, limit: Duration) {
        self.loader.closing.cancel();
        self.tasks.close();
        let began = Instant::now();
        if timeout(limit, self.tasks.wait()).await.is_err() {
            self.loader.aborting.cancel();
            self.tasks.wait().await;
        }
        self.store.shutdown(limit.saturating_sub(began.elapsed())).await;
    }
}

impl<K, V> fmt::Debug for Core<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("settings", &self.settings).finish_non_exhaustive()
    }
}
