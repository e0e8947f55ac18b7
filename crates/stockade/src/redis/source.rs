use std::time::Duration;

use super::ConnectError;
use crate::resource::Namespace;

/// Where Redis is: a URL, a `deadpool_redis::Config`, or a pool with the client it was made from.
pub struct Source {}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source").finish_non_exhaustive()
    }
}

impl From<&str> for Source {
    fn from(_url: &str) -> Self {
        todo!()
    }
}

impl From<deadpool_redis::Config> for Source {
    fn from(_config: deadpool_redis::Config) -> Self {
        todo!()
    }
}

impl From<(deadpool_redis::Pool, redis::Client)> for Source {
    fn from(_pool: (deadpool_redis::Pool, redis::Client)) -> Self {
        todo!()
    }
}

/// A Redis to build locks and caches on. Cheap to clone. It holds no connection of its own beyond the pool's: locks and
/// caches open theirs.
#[derive(Clone, Debug)]
pub struct Redis {}

/// Settings of [`Redis`].
#[derive(Debug)]
pub struct RedisBuilder {}

impl RedisBuilder {
    /// How long one command may take, connection set-up included. Default 250 ms.
    #[must_use]
    pub fn command_timeout(self, _timeout: Duration) -> Self {
        todo!()
    }

    /// Accepts a server that may evict keys: right for a cache, wrong for locks.
    #[must_use]
    pub fn allow_eviction(self) -> Self {
        todo!()
    }

    /// Checks configuration, credentials and eviction policy.
    ///
    /// # Errors
    ///
    /// [`ConnectError`]. An unreachable server is no error.
    pub async fn connect(self) -> Result<Redis, ConnectError> {
        todo!()
    }
}

impl Redis {
    /// [`RedisBuilder::connect`] with the default settings.
    ///
    /// # Errors
    ///
    /// [`ConnectError`].
    pub async fn connect(source: impl Into<Source>) -> Result<Self, ConnectError> {
        Self::builder(source).connect().await
    }

    /// Settings first.
    pub fn builder(source: impl Into<Source>) -> RedisBuilder {
        let _ = source.into();
        todo!()
    }

    /// The same server with another first part of every key. Default `stockade`.
    ///
    /// # Panics
    ///
    /// Unless the name matches `[a-z0-9_-]+`.
    #[must_use]
    pub fn namespace(self, _name: &str) -> Self {
        todo!()
    }

    /// A pool of the same configuration for the application's own commands.
    #[must_use]
    pub fn pool(&self) -> &deadpool_redis::Pool {
        todo!()
    }

    pub(crate) fn key_prefix(&self) -> &Namespace {
        todo!()
    }

    pub(crate) fn timeout(&self) -> Duration {
        todo!()
    }
}
