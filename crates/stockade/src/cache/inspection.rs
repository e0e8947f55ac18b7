use std::time::Duration;

use crate::{cache::value::Entry, clock::Instant};

/// The cached value of a key, and its state: the answer to [`Cache::inspect`](super::Cache::inspect).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// The memory of this process. It may hold a value that it may not serve now: see
    /// [`Cache::is_degraded`](super::Cache::is_degraded).
    pub local: Tier,
    /// Redis, for all processes. Always empty in a cache without Redis.
    pub redis: Tier,
    /// Whether this process is fetching the value now, from Redis or by the loader.
    pub fetching: bool,
    /// For a load by any process, how long its lease still lasts. The load may end earlier. `None` if nobody loads, if
    /// Redis does not answer, and in a cache without Redis.
    pub lease: Option<Duration>,
}

/// What a tier has of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Tier {
    /// Nothing, or only what was invalidated.
    Empty,
    /// A value, or the absence of a row.
    Kept(Kept),
    /// A value that can't be read: it is damaged, or was written by another version of the program.
    Unreadable,
    /// The tier does not answer.
    Unavailable,
}

/// A value that is cached, or the absence of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Kept {
    /// Whether there is no such row.
    pub absent: bool,
    /// The time since the value was loaded.
    pub age: Duration,
    /// The time until the value expires. Zero if it has expired.
    pub ttl: Duration,
    /// For an expired value, how long ago it expired.
    pub stale: Option<Duration>,
    /// How long the load took.
    pub took: Duration,
    /// The version of the value, if the loader gave one ([`Loaded::version`](super::Loaded::version)).
    pub version: Option<u64>,
    /// The tags that the loader gave the value ([`Loaded::tags`](super::Loaded::tags)).
    pub tags: Vec<String>,
}

impl Kept {
    pub(crate) fn of<V>(entry: &Entry<V>) -> Self {
        let now = Instant::now();
        Self {
            absent: entry.value.is_none(),
            age: now.since(entry.loaded),
            ttl: entry.expires.since(now),
            stale: entry.staleness(now),
            took: entry.took,
            version: entry.version,
            tags: entry.tags.iter().map(str::to_owned).collect(),
        }
    }
}
