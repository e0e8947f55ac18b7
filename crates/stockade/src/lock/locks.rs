use std::{sync::Arc, time::Duration};

use crate::{
    lock::{Force, Forced, Inspection, LockError, LockRequest},
    resource::{Key, Resource},
    store::LockStore,
};

/// The entrance: a handle to one lock store. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Locks {
    store: Arc<dyn LockStore>,
}

/// Settings of [`Locks`].
#[derive(Debug)]
pub struct LocksBuilder {}

impl LocksBuilder {
    /// The lease of every lock that does not say otherwise. Default 10 s.
    #[must_use]
    pub fn lease(self, _lease: Duration) -> Self {
        todo!()
    }

    /// How many may wait for one key. Default 1000.
    #[must_use]
    pub fn max_waiters(self, _max: u32) -> Self {
        todo!()
    }

    /// Locks on a Redis.
    #[cfg(feature = "redis")]
    #[must_use]
    pub fn redis(self, _redis: &crate::Redis) -> Locks {
        todo!()
    }

    /// Locks of this process only.
    #[must_use]
    pub fn memory(self) -> Locks {
        todo!()
    }
}

impl Locks {
    /// Locks on a Redis with the default settings. Must be called within a tokio runtime.
    #[cfg(feature = "redis")]
    #[must_use]
    pub fn new(redis: &crate::Redis) -> Self {
        Self::builder().redis(redis)
    }

    /// Locks of this process only.
    #[must_use]
    pub fn memory() -> Self {
        Self::builder().memory()
    }

    /// Settings first.
    #[must_use]
    pub fn builder() -> LocksBuilder {
        todo!()
    }

    /// Exclusive.
    #[must_use]
    pub fn write<R: Resource + ?Sized>(&self, _resource: &R) -> LockRequest {
        todo!()
    }

    /// Shared.
    #[must_use]
    pub fn read<R: Resource + ?Sized>(&self, _resource: &R) -> LockRequest {
        todo!()
    }

    /// A request for an encoded key: for layers that made the key themselves.
    pub(crate) fn request(
        &self,
        _key: Result<Key, crate::resource::KeyError>,
        _mode: crate::lock::Mode,
    ) -> LockRequest {
        todo!()
    }

    /// Whether the store's breaker refuses at once; the time after which it lets one through.
    pub(crate) fn refusing(&self) -> Option<Duration> {
        todo!()
    }

    /// The encoded keys that are held or waited for over the whole fleet, at most `limit`.
    ///
    /// # Errors
    ///
    /// [`LockError::Unavailable`].
    pub async fn list(&self, limit: usize) -> Result<Vec<String>, LockError> {
        self.store.list(limit).await
    }

    /// Holders and queue of the encoded key `resource`.
    ///
    /// # Errors
    ///
    /// [`LockError::Key`], [`LockError::Unavailable`].
    pub async fn inspect(&self, _resource: &str) -> Result<Inspection, LockError> {
        todo!()
    }

    /// Takes the encoded key `resource` from its holders. Claim the fence with the returned token afterwards.
    ///
    /// # Errors
    ///
    /// [`LockError::Key`], [`LockError::Unavailable`].
    pub async fn force_release(&self, _resource: &str, _force: Force) -> Result<Forced, LockError> {
        todo!()
    }

    /// No new grants; waits up to `limit` for guards to go, then releases what is left.
    pub async fn shutdown(&self, _limit: Duration) {
        todo!()
    }
}
