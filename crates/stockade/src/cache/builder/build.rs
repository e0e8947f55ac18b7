use std::{sync::Arc, time::Duration};

use serde::{Serialize, de::DeserializeOwned};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{CacheBuilder, parts::Home};
use crate::{
    cache::{
        BuildError, Cache, Limits, TagError,
        core::Core,
        flight::Flights,
        load::Loader,
        local::Local,
        runtime::Runtime,
        settings::Settings,
        stats::{Counters, LoadCounters},
        store::{Memory, Remote, Store},
        value::Envelope,
    },
    resource::Resource,
};

/// The default weight of the in-process tier, in bytes.
const WEIGHT: u64 = 16 << 20;

impl<K, V> CacheBuilder<K, V>
where
    K: Resource + Clone + Send + Sync + 'static,
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    /// Builds the cache.
    ///
    /// The cache connects to Redis in the background. The first reads wait for the connection, for one command time-out
    /// in all. Later reads go on without Redis until it is connected.
    ///
    /// # Panics
    ///
    /// If [`CacheBuilder::try_build`] would return an error. On a Redis also outside of a tokio runtime.
    #[must_use]
    pub fn build(self) -> Cache<K, V> {
        self.try_build().unwrap_or_else(|error| panic!("{error}"))
    }

    /// Builds the cache, as [`CacheBuilder::build`].
    ///
    /// # Errors
    ///
    /// [`BuildError`].
    ///
    /// # Panics
    ///
    /// On a Redis, outside of a tokio runtime.
    pub fn try_build(mut self) -> Result<Cache<K, V>, BuildError> {
        let lease = self.check()?;
        let load = self.loader.take().ok_or(BuildError::NoLoader(self.name))?;
        let settings = Arc::new(self.settings(lease));
        let local = Local::new(self.local.unwrap_or(WEIGHT), self.max_value).under_locks(settings.under_locks);
        let local = Arc::new(local);
        let loader = Loader {
            name: settings.name,
            load,
            load_batch: self.batch_loader,
            limits: self.limits.unwrap_or_else(|| Limits::new(self.max_loads, self.load_rate)),
            failing: Arc::clone(local.failing()),
            counters: LoadCounters::of(settings.name),
            time: settings.load_timeout,
            takes_tags: if settings.strict.is_some() { Err(TagError::Strict(settings.name)) } else { Ok(()) },
            closing: CancellationToken::new(),
            aborting: CancellationToken::new(),
        };
        let home = matches!(self.home, Home::Redis(_)).then(|| Runtime::current(loader.closing.clone()));
        let store = self.home.open(&settings, &local)?;
        let counters = Counters::of(settings.name);
        Ok(Cache::new(Core {
            settings,
            local,
            store,
            loader,
            flights: Flights::new(),
            refreshes: Flights::new(),
            #[cfg(feature = "postgres")]
            load_in: self.load_in,
            bloom: self.bloom,
            counters,
            tasks: TaskTracker::new(),
            home,
        }))
    }

    fn settings(&mut self, lease: Duration) -> Settings {
        let memory_only = matches!(self.home, Home::Memory);
        Settings {
            name: self.name,
            ttl: self.ttl.clone(),
            null_ttl: self.null_ttl,
            grace: self.grace,
            hold_off: self.hold_off,
            revalidate: self.revalidate,
            beta: self.beta,
            lease,
            load_timeout: self.load_timeout,
            soft_timeout: self.soft_timeout,
            hard_timeout: self.hard_timeout,
            serve_local: memory_only || self.local.is_some(),
            // Without Redis every read is served from memory anyway.
            under_locks: self.under_locks && !memory_only,
            strict: self.strict.take(),
            // Values that stay in the process are never compressed.
            envelope: Envelope::of::<V>(
                self.schema,
                self.codec,
                self.compression.filter(|_| !memory_only),
                self.max_value,
            ),
        }
    }
}

impl Home {
    fn open<V: DeserializeOwned + Send + Sync + 'static>(
        self,
        settings: &Arc<Settings>,
        local: &Arc<Local<V>>,
    ) -> Result<Store<V>, BuildError> {
        Ok(match self {
            Self::Memory => Store::Memory(Memory::of(local, settings.lease, settings.hold_off)),
            // The protocol needs all messages of a key to arrive on one connection to one server.
            Self::Redis(redis) if redis.is_cluster() => return Err(BuildError::Cluster(settings.name)),
            Self::Redis(redis) => {
                let claim = redis.claims().claim(format!("{}{}", redis.key_prefix(), settings.name));
                let claim = claim.ok_or(BuildError::NameTaken(settings.name))?;
                Store::Redis(Box::new(Remote::open(&redis, claim, Arc::clone(settings), Arc::clone(local))))
            }
        })
    }
}
