use std::{fmt, num::NonZeroU32, ops::RangeInclusive, sync::Arc, time::Duration};

use serde::{Serialize, de::DeserializeOwned};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

#[cfg(feature = "redis")]
use super::redis::Remote;
use super::{
    BuildError, Cache, Limits, Loaded,
    core::Core,
    envelope::Envelope,
    flight::Flights,
    intent::{Intents, Strict},
    load::{self, LoadBatchFn, LoadFn, Loader, share},
    local::Local,
    settings::Settings,
    stats::Counters,
    store::Store,
};
#[cfg(feature = "redis")]
use crate::Redis;
use crate::resource::{Key, KeyError, Resource};

/// What the in-process tier may weigh by default, in bytes.
const WEIGHT: u64 = 16 << 20;

/// Settings of a [`Cache`]. [`Cache::builder`] and [`Cache::memory`] make one.
#[must_use = "a builder does nothing until `build()`"]
pub struct CacheBuilder<K, V> {
    home: Home,
    name: &'static str,
    ttl: RangeInclusive<Duration>,
    null_ttl: Duration,
    grace: Duration,
    revalidate: Duration,
    beta: f64,
    lease: Option<Duration>,
    load_timeout: Duration,
    local: Option<u64>,
    max_value: usize,
    max_loads: usize,
    load_rate: Option<NonZeroU32>,
    limits: Option<Limits>,
    schema: u32,
    strict: Option<Strict>,
    #[cfg(feature = "redis")]
    bloom: Option<super::Bloom>,
    loader: Option<LoadFn<K, V>>,
    batch_loader: Option<LoadBatchFn<K, V>>,
}

enum Home {
    Memory,
    #[cfg(feature = "redis")]
    Redis(Redis),
}

impl<K: Resource, V> CacheBuilder<K, V> {
    fn new(home: Home) -> Self {
        Self {
            home,
            name: K::KIND,
            ttl: Duration::from_secs(300)..=Duration::from_secs(600),
            null_ttl: Duration::from_secs(60),
            grace: Duration::from_secs(60),
            revalidate: Duration::ZERO,
            beta: 1.0,
            lease: None,
            load_timeout: Duration::from_secs(2),
            local: None,
            max_value: 1 << 20,
            max_loads: 8,
            load_rate: None,
            limits: None,
            schema: 0,
            strict: None,
            #[cfg(feature = "redis")]
            bloom: None,
            loader: None,
            batch_loader: None,
        }
    }

    #[cfg(feature = "redis")]
    pub(crate) fn on_redis(redis: &Redis) -> Self {
        Self::new(Home::Redis(redis.clone()))
    }

    pub(crate) fn in_memory() -> Self {
        Self::new(Home::Memory)
    }

    /// The namespace of the keys and the metric label, `[a-z0-9_-]+`. Default [`Resource::KIND`].
    pub fn name(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    /// How long a value is fresh: drawn from this range for each fill, so that what was loaded together does not expire
    /// together. Default 5 to 10 minutes.
    pub fn ttl(self, range: RangeInclusive<Duration>) -> Self {
        Self { ttl: range, ..self }
    }

    /// How long the absence of a row is believed. Default 60 s.
    pub fn null_ttl(self, ttl: Duration) -> Self {
        Self { null_ttl: ttl, ..self }
    }

    /// How long past its freshness a value is kept for bad times: served when the loader fails or is held back, and,
    /// marked as degraded, while Redis is unreachable and nobody could tell of a write. Zero serves none. Default 60 s.
    pub fn grace(self, grace: Duration) -> Self {
        Self { grace, ..self }
    }

    /// How long past its freshness a value is served at once while one process loads it anew in the background. It may
    /// then be older than [`CacheBuilder::ttl`] says; a write still drops it. Needs a [`CacheBuilder::grace`] that is no
    /// shorter. Default zero: whoever comes first waits for the load.
    pub fn stale_while_revalidate(self, window: Duration) -> Self {
        Self { revalidate: window, ..self }
    }

    /// How eagerly a value in use is loaded again before it expires, so that nobody waits for it: the mean lead is `beta`
    /// times the duration of its last load, at most half its lifetime. Zero waits for the end. Default 1.
    pub fn early_refresh(self, beta: f64) -> Self {
        Self { beta, ..self }
    }

    /// Serves fresh values from the memory of this process, up to `weight` bytes, as long as the subscription to
    /// invalidations is live. Another process's write is seen when its message arrives, not when it was acknowledged.
    ///
    /// Default: values are kept up to 16 MiB for [`CacheBuilder::grace`], and each read asks Redis.
    pub fn local(self, weight: u64) -> Self {
        Self { local: Some(weight), ..self }
    }

    /// The largest encoded value that is stored, in bytes; a larger one is returned and not stored. Default 1 MiB.
    pub fn max_value(self, bytes: usize) -> Self {
        Self { max_value: bytes, ..self }
    }

    /// How many loads run at a time in this process; up to 64 times as many wait for their turn, the rest is shed at
    /// once. Default 8.
    pub fn max_loads(self, max: usize) -> Self {
        Self { max_loads: max, ..self }
    }

    /// How many loads begin per second in this process. Default: as many as come.
    pub fn load_rate(self, per_second: NonZeroU32) -> Self {
        Self { load_rate: Some(per_second), ..self }
    }

    /// Limits shared with other caches that load from the same database, in place of [`CacheBuilder::max_loads`] and
    /// [`CacheBuilder::load_rate`].
    pub fn limits(self, limits: &Limits) -> Self {
        Self { limits: Some(limits.clone()), ..self }
    }

    /// How long a load may take. A load waits up to half as long for its place before it begins. Default 2 s.
    pub fn load_timeout(self, timeout: Duration) -> Self {
        Self { load_timeout: timeout, ..self }
    }

    /// How long the leave to load lasts; if the process that has it dies, another takes over then. At least one and a half
    /// times [`CacheBuilder::load_timeout`]. Default twice as long as that.
    pub fn lease(self, lease: Duration) -> Self {
        Self { lease: Some(lease), ..self }
    }

    /// To be raised when the meaning of `V` changes and its name does not: values stored under another number are
    /// loaded anew. Default 0.
    pub fn schema(self, version: u32) -> Self {
        Self { schema: version, ..self }
    }

    /// Makes reads linearizable with writes that are announced; `fates` tells what became of a transaction.
    #[cfg(feature = "postgres")]
    pub(crate) fn announced(self, fates: super::Fates) -> Self {
        Self { strict: Some(Strict::new(fates)), ..self }
    }

    /// Asks this filter before a load, and answers that there is no such row where it says so. It must hold the same keys
    /// as this cache.
    #[cfg(feature = "redis")]
    pub fn bloom(self, filter: &super::Bloom) -> Self {
        Self { bloom: Some(filter.clone()), ..self }
    }

    /// How a value is loaded; `Ok(None)` when there is no such row. [`Loaded`] says more about it.
    ///
    /// It must read from the primary, in a snapshot that begins inside the call. It runs on a task of the cache: a
    /// caller that goes away does not cancel it. Its error is shared by all who waited; five failures in a row open the
    /// breaker of [`Limits`], so that for a while no load is tried.
    pub fn loader<F, Fut, L, E>(self, load: F) -> Self
    where
        F: Fn(K) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<L, E>> + Send + 'static,
        L: Into<Loaded<V>>,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let loader: LoadFn<K, V> = Box::new(move |key| {
            let loading = load(key);
            Box::pin(async { loading.await.map(Into::into).map_err(share) })
        });
        Self { loader: Some(loader), ..self }
    }

    /// How several values are loaded at once, for [`Cache::get_many`]: with the key of each; a key that is left out has no
    /// row. The rest is as for [`CacheBuilder::loader`], which is needed too. Default: one load for each key.
    pub fn batch_loader<F, Fut, L, E>(self, load: F) -> Self
    where
        F: Fn(Vec<K>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Vec<(K, L)>, E>> + Send + 'static,
        L: Into<Loaded<V>>,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let loader: LoadBatchFn<K, V> = Box::new(move |keys| {
            let loading = load(keys);
            Box::pin(async {
                let rows = loading.await.map_err(share)?;
                Ok(rows.into_iter().map(|(key, loaded)| (key, loaded.into())).collect())
            })
        });
        Self { batch_loader: Some(loader), ..self }
    }

    fn check(&self) -> Result<Duration, BuildError> {
        if !crate::resource::is_name(self.name) {
            return Err(KeyError::Name(self.name.to_owned()).into());
        }
        // The kind is checked here once, so that no read fails for it.
        if let Err(error @ KeyError::Name(_)) = Key::new(K::KIND, "x") {
            return Err(error.into());
        }
        let wrong = |setting, remedy| Err(BuildError::Setting { name: self.name, setting, remedy });
        let shortest = Duration::from_millis(1);
        if self.ttl.is_empty() || *self.ttl.start() < shortest {
            return wrong("ttl", "must be a range from 1 ms or more that is not empty");
        }
        if self.null_ttl < shortest {
            return wrong("null_ttl", "must be 1 ms or more");
        }
        if self.load_timeout < shortest {
            return wrong("load_timeout", "must be 1 ms or more");
        }
        if self.max_loads == 0 {
            return wrong("max_loads", "must be 1 or more");
        }
        if !self.beta.is_finite() || self.beta < 0.0 {
            return wrong("early_refresh", "must be a number from 0");
        }
        if self.revalidate > self.grace {
            return wrong("stale_while_revalidate", "must not be longer than `grace`, for which values are kept");
        }
        if self.strict.is_some() && !self.revalidate.is_zero() {
            return wrong("stale_while_revalidate", "must be zero with `strict`, which serves nothing that expired");
        }
        #[cfg(feature = "redis")]
        if self.strict.is_some() && matches!(&self.home, Home::Redis(redis) if redis.may_evict()) {
            return wrong(
                "strict",
                "needs a Redis that keeps its keys: `noeviction`, connected without `allow_eviction`",
            );
        }
        if self.strict.is_some() && self.local.is_some() {
            return wrong(
                "local",
                "must not be set with `strict`: another process could not be told of a write in time",
            );
        }
        let lease = self.lease.unwrap_or(self.load_timeout * 2);
        if lease < self.load_timeout * 3 / 2 {
            return wrong("lease", "must be at least one and a half times `load_timeout`");
        }
        Ok(lease)
    }
}

impl<K, V> CacheBuilder<K, V>
where
    K: Resource + Clone + Send + Sync + 'static,
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    /// Builds. Must be called within a tokio runtime.
    ///
    /// # Panics
    ///
    /// Where [`CacheBuilder::try_build`] returns an error.
    #[must_use]
    pub fn build(self) -> Cache<K, V> {
        match self.try_build() {
            Ok(cache) => cache,
            Err(error) => panic!("{error}"),
        }
    }

    /// Builds. Must be called within a tokio runtime.
    ///
    /// # Errors
    ///
    /// [`BuildError`].
    pub fn try_build(mut self) -> Result<Cache<K, V>, BuildError> {
        let lease = self.check()?;
        let load = self.loader.take().ok_or(BuildError::NoLoader(self.name))?;
        let memory_only = matches!(self.home, Home::Memory);
        let settings = Arc::new(Settings {
            name: self.name,
            ttl: self.ttl,
            null_ttl: self.null_ttl,
            grace: self.grace,
            revalidate: self.revalidate,
            beta: self.beta,
            lease,
            load_timeout: self.load_timeout,
            serve_local: memory_only || self.local.is_some(),
            strict: self.strict,
            max_value: self.max_value,
            envelope: Envelope::of::<V>(self.schema),
        });
        let local = Arc::new(Local::new(self.local.unwrap_or(WEIGHT)));
        let store = match self.home {
            Home::Memory => Store::Memory(Arc::clone(&local), Intents::default()),
            // Messages of one key come by one connection to one server here.
            #[cfg(feature = "cluster")]
            Home::Redis(redis) if redis.is_cluster() => return Err(BuildError::Cluster(settings.name)),
            #[cfg(feature = "redis")]
            Home::Redis(redis) => {
                let claim = redis.claims().claim(format!("{}{}", redis.key_prefix(), settings.name));
                let claim = claim.ok_or(BuildError::NameTaken(settings.name))?;
                Store::Redis(Remote::open(&redis, claim, Arc::clone(&settings), Arc::clone(&local)))
            }
        };
        let loader = Loader {
            name: settings.name,
            load,
            load_batch: self.batch_loader,
            limits: self.limits.unwrap_or_else(|| Limits::new(self.max_loads, self.load_rate)),
            time: settings.load_timeout,
            closing: CancellationToken::new(),
            aborting: CancellationToken::new(),
        };
        let name = settings.name;
        load::announce(name);
        Ok(Cache::new(Core {
            settings,
            local,
            store,
            loader,
            flights: Flights::new(),
            refreshes: Flights::new(),
            #[cfg(feature = "redis")]
            bloom: self.bloom,
            counters: Counters::of(name),
            tasks: TaskTracker::new(),
        }))
    }
}

impl<K, V> fmt::Debug for CacheBuilder<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheBuilder")
            .field("name", &self.name)
            .field("ttl", &self.ttl)
            .field("null_ttl", &self.null_ttl)
            .field("grace", &self.grace)
            .finish_non_exhaustive()
    }
}
