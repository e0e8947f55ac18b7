use std::time::Duration;

use super::LoadError;
use crate::{cache::tags::TagError, resource::KeyError};

/// Why a read has no answer, or an invalidation or the change of a filter was not confirmed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// The key of the resource is invalid.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A tag was refused. If the loader gave it, the value was not stored.
    #[error(transparent)]
    Tag(#[from] TagError),
    /// The loader failed, and no stale value was within its grace.
    #[error("the loader failed")]
    Load(#[source] LoadError),
    /// The load took longer than a load may take, or than a read waits, and no stale value was within its grace.
    #[error(
        "the load did not end within {0:?}: retry later, or raise `load_timeout` (and `hard_timeout`, if it is set)"
    )]
    Timeout(Duration),
    /// The loader panicked.
    #[error("the loader panicked: see the log for its message")]
    Panicked,
    /// The loads of this key keep failing, in this process or another, and no stale value was within its grace. Loads
    /// of other keys go on. See [`CacheBuilder::hold_off`](super::CacheBuilder::hold_off).
    #[error("the loads of this key keep failing: the next is tried in {retry_after:?}; see the log for the reason")]
    HeldOff {
        /// The time until the next load is tried.
        retry_after: Duration,
    },
    /// The load was refused to protect the database, and no stale value was within its grace.
    #[error("the load was shed to protect the database: retry in {retry_after:?}")]
    Shed {
        /// The time after which a retry makes sense.
        retry_after: Duration,
    },
    /// Redis did not confirm the call. It may or may not have had its effect: call it again.
    #[error("the cache store is unavailable: repeat the invalidation")]
    Unavailable(#[source] LoadError),
    /// Redis did not confirm that it changed a [`Bloom`](super::Bloom) filter.
    #[error("Redis did not confirm the change of the filter: call it again")]
    Filter(#[source] LoadError),
    /// The cache has no [`CacheBuilder::loader_in`](super::CacheBuilder), so it can't read on a given connection.
    #[error("the cache `{0}` can't read inside a transaction: build it with `.loader_in()` in place of `.loader()`")]
    NotInTransaction(&'static str),
    /// The cache was shut down.
    #[error("the cache is shutting down: no new loads")]
    ShuttingDown,
}

/// Why a cache can't be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The name is not `[a-z0-9_-]+`.
    #[error(transparent)]
    Name(#[from] KeyError),
    /// Another live cache in this process has the same name on this Redis and namespace. For a filter: another live
    /// filter. A load under way keeps its cache alive, up to `load_timeout`: to build a cache again, shut it down
    /// first.
    #[error(
        "a cache, or a filter, named `{0}` is alive in this namespace: use a clone of it, or give one of them another \
         `.name()`"
    )]
    NameTaken(&'static str),
    /// The Redis is a cluster, which caches do not support.
    #[error(
        "the cache `{0}` can't be kept on a Redis Cluster: give it a single Redis or one behind sentinels; locks may stay on \
         the cluster"
    )]
    Cluster(&'static str),
    /// No loader was given.
    #[error("the cache `{0}` has no loader: call `.loader()`")]
    NoLoader(&'static str),
    /// A setting is outside its allowed range.
    #[error("`{setting}` of the cache `{name}` {remedy}")]
    Setting {
        /// The name of the cache.
        name: &'static str,
        /// The name of the builder method.
        setting: &'static str,
        /// The allowed range.
        remedy: &'static str,
    },
}
