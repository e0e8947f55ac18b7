use std::{error::Error, sync::Arc, time::Duration};

use crate::{cache::tags::TagError, resource::KeyError};

/// The error of a loader, shared by every caller that waited for the load.
pub type LoadError = Arc<dyn Error + Send + Sync>;

/// Why a read has no answer, or an invalidation no confirmation.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// The resource has no key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A tag is refused. Where the loader gave it, nothing was stored.
    #[error(transparent)]
    Tag(#[from] TagError),
    /// The loader failed and no stale value was within its grace.
    #[error("the loader failed")]
    Load(#[source] LoadError),
    /// The loader took longer than allowed, or than a read waits, and no stale value was within its grace.
    #[error(
        "the load did not end within {0:?}: retry later, or raise `load_timeout` (and `hard_timeout`, if it is set)"
    )]
    Timeout(Duration),
    /// The loader panicked.
    #[error("the loader panicked: see the log for its message")]
    Panicked,
    /// The loads of this key keep failing, here or in another process, and no stale value was within its grace. Other
    /// keys are loaded meanwhile. See [`CacheBuilder::hold_off`](super::CacheBuilder::hold_off).
    #[error("the loads of this key keep failing: the next is tried in {retry_after:?}; see the log for the reason")]
    HeldOff {
        /// When the next load is tried.
        retry_after: Duration,
    },
    /// The load was refused to protect the database, and no stale value was within its grace.
    #[error("the load was shed to protect the database: retry in {retry_after:?}")]
    Shed {
        /// When a retry makes sense.
        retry_after: Duration,
    },
    /// The cache store did not confirm. The invalidation may not have happened: repeat it.
    #[error("the cache store is unavailable: repeat the invalidation")]
    Unavailable(#[source] LoadError),
    /// The cache does not know how to read on a given connection.
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
    /// A live cache on this Redis and namespace has the name.
    #[error("a cache named `{0}` is alive in this namespace: give one of them another `.name()`")]
    NameTaken(&'static str),
    /// The Redis is a cluster.
    #[error(
        "the cache `{0}` can't be kept on a Redis Cluster: give it a single Redis or one behind sentinels; locks may stay on \
         the cluster"
    )]
    Cluster(&'static str),
    /// No loader was given.
    #[error("the cache `{0}` has no loader: call `.loader()`")]
    NoLoader(&'static str),
    /// A setting is outside its limits.
    #[error("`{setting}` of the cache `{name}` {remedy}")]
    Setting {
        /// The cache.
        name: &'static str,
        /// The builder method.
        setting: &'static str,
        /// What it must be.
        remedy: &'static str,
    },
}

/// Anything that converts to a boxed error, as the shared form.
pub(crate) fn share(error: impl Into<Box<dyn Error + Send + Sync>>) -> LoadError {
    Arc::from(error.into())
}
