use std::{fmt, sync::Arc, time::Duration};

use futures_util::Stream;
use serde::{Serialize, de::DeserializeOwned};

#[cfg(feature = "axum")]
use crate::clock::Instant;
use crate::{
    cache::{CacheError, CacheStats, Invalidator, Lookup, Warmup, core::Core},
    resource::{Key, KeyError, Resource},
};

/// A cache-aside with its loader. Cheap to clone.
///
/// See the [module docs](super).
pub struct Cache<K, V> {
    pub(super) core: Arc<Core<K, V>>,
    /// The same without its types, for those who can't state what [`Core`] asks of them.
    invalidator: Invalidator,
}

impl<K: Resource, V> Cache<K, V> {
    /// The key of a resource in this cache, as [`Invalidator::invalidate`] takes it.
    ///
    /// # Errors
    ///
    /// [`KeyError`].
    pub fn key(&self, key: &K) -> Result<Key, KeyError> {
        Key::of(key)
    }

    /// Drops the value in every process and voids the loads that are running for it. Call it after the write was
    /// committed. Idempotent.
    ///
    /// # Errors
    ///
    /// [`CacheError::Key`]; [`CacheError::Unavailable`] when it was not confirmed: repeat it.
    pub fn invalidate(&self, key: &K) -> impl Future<Output = Result<(), CacheError>> + Send + use<K, V> {
        // The key is made now, so that the future needs nothing of `K` and can be sent whatever it is.
        let (key, invalidator) = (Key::of(key), self.invalidator());
        async move { invalidator.invalidate(&[key?]).await }
    }

    /// Drops every value that its loader gave this tag ([`Loaded::tags`](super::Loaded::tags)), in every process, and
    /// voids the loads that are running for such values: by one script, however many values there are. Call it after
    /// the write was committed. Idempotent.
    ///
    /// # Errors
    ///
    /// [`CacheError::Tag`]; [`CacheError::Unavailable`] when it was not confirmed: repeat it.
    pub fn invalidate_tag<T>(&self, tag: &T) -> impl Future<Output = Result<(), CacheError>> + Send + use<K, V, T>
    where
        T: AsRef<str> + ?Sized,
    {
        // As above: what is made of the tag can be sent, whatever it is.
        let (tag, invalidator) = (self.invalidator.tag(tag), self.invalidator());
        async move { invalidator.invalidate_tags(&[tag?]).await }
    }

    /// Drops every value of this cache's name, remembered absences among them, in every process, and voids all loads
    /// that are running: by one script, however many values there are. Their memory is free again when they expire or
    /// are loaded again. Idempotent.
    ///
    /// For what changed behind the back of Stockade, such as an import or a mistake in the loader. Every read after it
    /// is a load, within the limits of loads. A strict cache can be cleared, too, but is not told before a COMMIT:
    /// reads between the COMMIT and this call see what was there before.
    ///
    /// # Errors
    ///
    /// [`CacheError::Unavailable`] when it was not confirmed: repeat it. The values in the memory of this process are
    /// dropped all the same.
    pub fn clear(&self) -> impl Future<Output = Result<(), CacheError>> + Send + use<K, V> {
        let invalidator = self.invalidator();
        async move { invalidator.clear().await }
    }

    /// The invalidating side alone.
    #[must_use]
    pub fn invalidator(&self) -> Invalidator {
        self.invalidator.clone()
    }

    /// The name of the cache: the namespace of its keys and its metric label.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.invalidator.name()
    }

    /// A number for the name of the values' type and its schema.
    #[cfg(feature = "axum")]
    pub(crate) fn meaning(&self) -> u64 {
        self.core.settings.envelope.meaning()
    }
}

impl<K, V> Cache<K, V>
where
    K: Resource + Clone + Send + Sync + 'static,
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    pub(crate) fn new(core: Core<K, V>) -> Self {
        let core = Arc::new(core);
        let invalidator = Invalidator::new(Arc::clone(&core) as Arc<_>);
        Self { core, invalidator }
    }

    /// The value, from the nearest place that has it: this process, Redis, another call's load, the loader.
    ///
    /// Cancel safe: a load that this call started goes on and its value is stored.
    ///
    /// # Errors
    ///
    /// [`CacheError::Key`]; the others when there is neither a value nor one within its grace.
    pub async fn get(&self, key: &K) -> Result<Lookup<V>, CacheError> {
        self.core.get(key).await
    }

    /// The value from the memory of this process, for a caller that holds the lock of its key shared; see
    /// [`Core::local_hit_under_lock`].
    #[cfg(feature = "axum")]
    pub(crate) fn local_hit_under_lock(
        &self,
        key: &K,
        since: impl FnOnce(&str) -> Option<Instant>,
    ) -> Option<Lookup<V>> {
        self.core.local_hit_under_lock(key, since)
    }

    /// The value as the loader gives it now: loaded although there may be one, under a lease and within the limits of
    /// loads, and stored in place of the old one, which is served to others meanwhile. Calls that wait for their load
    /// to begin share it.
    ///
    /// For a caller that may not be content with a stored value, as the extractor `Cached` does for `Cache-Control:
    /// no-cache`. After a write use [`Cache::invalidate`]: values in the memory of other processes stay here until they
    /// expire. Cancel safe, as [`Cache::get`].
    ///
    /// # Errors
    ///
    /// As [`Cache::get`], but no expired value takes the place of an error. A key whose loads keep failing is held off
    /// here, too.
    pub async fn reload(&self, key: &K) -> Result<Lookup<V>, CacheError> {
        self.core.reload(key).await
    }

    /// The values of several keys, in their order, each with its own outcome: one round trip to Redis for what is
    /// there, and for what is not one for the leases, one load
    /// ([`CacheBuilder::batch_loader`](super::CacheBuilder::batch_loader)) and one to store it.
    ///
    /// Without a batch loader as many of its keys are loaded at a time as the limits let run, and each waits for its
    /// turn, however many there are. Other reads get theirs in between, also of keys of this call that it has not begun
    /// to load.
    ///
    /// Cancel safe, as [`Cache::get`]; what had not begun is not loaded. Duplicates cost nothing. A key that another
    /// call loads is waited for.
    pub async fn get_many(&self, keys: &[K]) -> Vec<Result<Lookup<V>, CacheError>> {
        self.core.get_many(keys).await
    }

    /// Prepares to load these keys before anybody asks for them. See [`Warmup`].
    pub fn warm<S: Stream<Item = K> + Send>(&self, keys: S) -> Warmup<K, V, S> {
        Warmup::new(Arc::clone(&self.core), keys)
    }

    /// Whether answers are given outside the normal rules now, because Redis can't be asked. Whether what Redis answers
    /// is believed is told by [`CacheStats::vouched_for`].
    #[must_use]
    pub fn is_degraded(&self) -> bool {
        !self.core.store.is_up() || !self.core.store.is_verified()
    }

    /// What the cache did since it was built.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        CacheStats {
            fetching: self.core.flights.len(),
            local_entries: self.core.local.len(),
            local_weight: self.core.local.weight(),
            vouched_for: self.core.store.is_trusted(),
            ..self.core.counters.read(&self.core.loader.counters)
        }
    }

    /// Refuses new loads, waits up to `limit` for those running, gives up the rest, and closes the connection.
    pub async fn shutdown(&self, limit: Duration) {
        self.core.shutdown(limit).await;
    }
}

impl<K, V> Clone for Cache<K, V> {
    fn clone(&self) -> Self {
        Self { core: Arc::clone(&self.core), invalidator: self.invalidator.clone() }
    }
}

impl<K, V> fmt::Debug for Cache<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cache").field(&self.invalidator.name()).finish()
    }
}
