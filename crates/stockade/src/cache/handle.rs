use std::{fmt, marker::PhantomData, sync::Arc, time::Duration};

use super::{CacheError, Invalidator, Lookup, invalidator::Invalidate};
use crate::resource::{Key, KeyError, Resource};

/// A cache-aside with its loader. Cheap to clone.
pub struct Cache<K, V> {
    core: Arc<dyn Invalidate>,
    types: PhantomData<fn(K) -> V>,
}

impl<K, V> Clone for Cache<K, V> {
    fn clone(&self) -> Self {
        Self { core: Arc::clone(&self.core), types: PhantomData }
    }
}

impl<K, V> fmt::Debug for Cache<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cache").field(&self.core.name()).finish()
    }
}

impl<K: Resource, V> Cache<K, V> {
    /// The value, from the nearest place that has it.
    ///
    /// # Errors
    ///
    /// [`CacheError`].
    pub async fn get(&self, _key: &K) -> Result<Lookup<V>, CacheError> {
        todo!()
    }

    /// The key of a resource in this cache, as [`Invalidator::invalidate`] takes it.
    ///
    /// # Errors
    ///
    /// [`KeyError`].
    pub fn key(&self, key: &K) -> Result<Key, KeyError> {
        Key::of(key)
    }

    /// Drops the value in every process and voids the loads that are running for it. Call it after the write was
    /// committed.
    ///
    /// # Errors
    ///
    /// [`CacheError::Key`]; [`CacheError::Unavailable`] when it was not confirmed.
    pub async fn invalidate(&self, key: &K) -> Result<(), CacheError> {
        self.core.invalidate(&[Key::of(key)?]).await
    }

    /// The invalidating side alone.
    #[must_use]
    pub fn invalidator(&self) -> Invalidator {
        Invalidator::new(Arc::clone(&self.core))
    }

    /// The name of the cache.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.core.name()
    }

    /// Whether answers are given outside the normal rules now: the store is unreachable.
    #[must_use]
    pub fn is_degraded(&self) -> bool {
        todo!()
    }

    /// Refuses new loads, then waits up to `limit` for those running.
    pub async fn shutdown(&self, _limit: Duration) {
        todo!()
    }
}
