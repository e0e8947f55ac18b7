use std::{sync::Arc, time::Duration};

/// Where an answer comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// The memory of this process.
    Local,
    /// Redis.
    Redis,
    /// The Bloom filter: there is no such row.
    Filter,
    /// The loader, run by this call or by another that it waited for.
    Load,
}

/// How an answer came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, each of which callers ask for by name")]
pub struct CacheInfo {
    /// Where it comes from.
    pub source: Source,
    /// Whether the loader had found no such row.
    pub absent: bool,
    /// Time since the value was loaded.
    pub age: Duration,
    /// Time until it expires; zero once it has, and for a value that was not stored.
    pub ttl: Duration,
    /// For an expired value served within its grace, how long ago it expired.
    pub stale: Option<Duration>,
    /// Whether it was given outside the normal rules, because a store was unreachable: it may be outdated.
    pub degraded: bool,
    /// Whether it was given without the lock of its route, for which the request had waited in vain: a write may have
    /// been under way. Only [`Cached`](crate::extract::Cached) knows.
    pub unlocked: bool,
    /// Whether the call waited for another call's load.
    pub collapsed: bool,
    /// Whether a load was stored.
    pub stored: bool,
    /// Whether the load was asked for although there might be a value: [`Cache::reload`](super::Cache::reload).
    pub forced: bool,
    /// The version of the value, where its type has one.
    pub version: Option<u64>,
}

/// The answer to [`Cache::get`](super::Cache::get).
#[derive(Debug)]
pub struct Lookup<V> {
    /// The value; `None` when there is no such row.
    pub value: Option<Arc<V>>,
    /// How the answer came about.
    pub info: CacheInfo,
}

impl<V> Clone for Lookup<V> {
    fn clone(&self) -> Self {
        Self { value: self.value.clone(), info: self.info }
    }
}
