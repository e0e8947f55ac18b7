use std::{fmt, num::NonZeroU32, ops::RangeInclusive, time::Duration};

#[cfg(feature = "postgres")]
use crate::cache::load::LoadInFn;
use crate::{
    Redis,
    cache::{
        Bloom, Cache, Codec, Compression, Limits,
        load::{LoadBatchFn, LoadFn},
        strict::Strict,
    },
    resource::Resource,
};

/// Settings of a [`Cache`](crate::Cache). [`Cache::builder`](crate::Cache::builder) and
/// [`Cache::memory`](crate::Cache::memory) make one.
#[must_use = "a builder does nothing until `build()`"]
pub struct CacheBuilder<K, V> {
    pub(super) home: Home,
    pub(super) name: &'static str,
    pub(super) ttl: RangeInclusive<Duration>,
    pub(super) null_ttl: Duration,
    pub(super) grace: Duration,
    pub(super) hold_off: Duration,
    pub(super) revalidate: Duration,
    pub(super) beta: f64,
    pub(super) lease: Option<Duration>,
    pub(super) load_timeout: Duration,
    pub(super) soft_timeout: Option<Duration>,
    pub(super) hard_timeout: Option<Duration>,
    pub(super) local: Option<u64>,
    pub(super) under_locks: bool,
    pub(super) max_value: usize,
    pub(super) max_loads: usize,
    pub(super) load_rate: Option<NonZeroU32>,
    pub(super) limits: Option<Limits>,
    pub(super) schema: u32,
    pub(super) codec: Codec,
    pub(super) compression: Option<Compression>,
    pub(super) strict: Option<Strict>,
    pub(super) bloom: Option<Bloom>,
    pub(super) loader: Option<LoadFn<K, V>>,
    #[cfg(feature = "postgres")]
    pub(super) load_in: Option<LoadInFn<K, V>>,
    pub(super) batch_loader: Option<LoadBatchFn<K, V>>,
}

pub(super) enum Home {
    Memory,
    Redis(Redis),
}

impl<K: Resource, V> Cache<K, V> {
    /// Settings of a cache on a Redis.
    pub fn builder(redis: &Redis) -> CacheBuilder<K, V> {
        CacheBuilder::new(Home::Redis(redis.clone()))
    }

    /// Settings of a cache in the memory of this process, without Redis.
    pub fn memory() -> CacheBuilder<K, V> {
        CacheBuilder::new(Home::Memory)
    }
}

impl<K: Resource, V> CacheBuilder<K, V> {
    fn new(home: Home) -> Self {
        Self {
            home,
            name: K::KIND,
            ttl: Duration::from_secs(300)..=Duration::from_secs(600),
            null_ttl: Duration::from_secs(60),
            grace: Duration::from_secs(60),
            hold_off: Duration::from_secs(1),
            revalidate: Duration::ZERO,
            beta: 1.0,
            lease: None,
            load_timeout: Duration::from_secs(2),
            soft_timeout: None,
            hard_timeout: None,
            local: None,
            under_locks: false,
            max_value: 1 << 20,
            max_loads: 8,
            load_rate: None,
            limits: None,
            schema: 0,
            codec: Codec::Json,
            compression: None,
            strict: None,
            bloom: None,
            loader: None,
            #[cfg(feature = "postgres")]
            load_in: None,
            batch_loader: None,
        }
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
