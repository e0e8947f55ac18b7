use std::{sync::Arc, time::Duration};

/// The source of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

/// Where an answer comes from, and how fresh it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, each of which callers ask for by name")]
pub struct CacheInfo {
    /// The source of the answer.
    pub source: Source,
    /// Whether there is no such row.
    pub absent: bool,
    /// The time since the value was loaded.
    pub age: Duration,
    /// The time until the value expires. Zero if it has expired or was not stored.
    pub ttl: Duration,
    /// For an expired value served within its grace, how long ago it expired.
    pub stale: Option<Duration>,
    /// Whether the answer was given outside the normal rules because Redis was unreachable. It may be outdated.
    pub degraded: bool,
    /// Whether the answer was given without the lock of its route, because the request did not get the lock in time. A
    /// write may have been running. Set only by `extract::Cached`.
    pub unlocked: bool,
    /// Whether the call waited for another call's load.
    pub collapsed: bool,
    /// Whether the value was loaded and then stored.
    pub stored: bool,
    /// The version of the value, if the loader gave one ([`Loaded::version`](super::Loaded::version)).
    pub version: Option<u64>,
}

/// The answer to [`Cache::get`](super::Cache::get).
#[derive(Debug)]
pub struct Lookup<V> {
    /// The value; `None` if there is no such row.
    pub value: Option<Arc<V>>,
    /// Where the answer comes from, and how fresh it is.
    pub info: CacheInfo,
}

impl<V> Clone for Lookup<V> {
    fn clone(&self) -> Self {
        Self { value: self.value.clone(), info: self.info }
    }
}
