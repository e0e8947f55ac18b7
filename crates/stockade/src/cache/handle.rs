use std::{fmt, sync::Arc, time::Duration};

use futures_util::Stream;
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    cache::{CacheError, CacheStats, Inspection, Invalidator, Lookup, Warmup, core::Core},
    resource::{Key, KeyError, Resource},
};

/// A cache-aside with its loader. Cheap to clone.
///
/// See the [module docs](super).
pub struct Cache<K, V> {
    pub(crate) core: Arc<Core<K, V>>,
    /// The cache without its types, for code that can't state the bounds of [`Core`].
    invalidator: Invalidator,
}

impl<K: Resource, V> Cache<K, V> {
    /// The key of a resource in this cache, for [`Invalidator::invalidate`].
    ///
    /// # Errors
    ///
    /// [`KeyError`].
    pub fn key(&self, key: &K) -> Result<Key, KeyError> {
        Key::of(key)
    }

    /// Drops the value in every process and voids its running loads. Call it after the write was committed. Idempotent.
    /// If the future is dropped, it may or may not be done: call it again.
    ///
    /// # Errors
    ///
    /// [`CacheError::Key`]. [`CacheError::Unavailable`] if Redis did not confirm it: call it again.
    #[doc(alias = "remove")]
    #[doc(alias = "delete")]
    pub fn invalidate(&self, key: &K) -> impl Future<Output = Result<(), CacheError>> + Send + use<K, V> {
        // The key is made before the future, which is then `Send` whether or not `K` is.
        let (key, invalidator) = (Key::of(key), self.invalidator());
        async move { invalidator.invalidate(&[key?]).await }
    }

    /// Drops every value to which its loader gave this tag ([`Loaded::tags`](super::Loaded::tags)), in every process,
    /// and voids the running loads of such values. It takes one script, however many values there are. Call it after
    /// the write was committed. Idempotent. If the future is dropped, it may or may not be done: call it again.
    ///
    /// # Errors
    ///
    /// [`CacheError::Tag`]. [`CacheError::Unavailable`] if Redis did not confirm it: call it again.
    pub fn invalidate_tag<T>(&self, tag: &T) -> impl Future<Output = Result<(), CacheError>> + Send + use<K, V, T>
    where
        T: AsRef<str> + ?Sized,
    {
        // As above: the future is `Send` whether or not the tag is.
        let (tag, invalidator) = (self.invalidator.tag(tag), self.invalidator());
        async move { invalidator.invalidate_tags(&[tag?]).await }
    }

    /// Drops every value and every remembered absence of this cache's name, in every process, and voids all running
    /// loads. It takes one script, however many values there are. Redis frees their memory when they expire or are
    /// loaded again. Idempotent. If the future is dropped, it may or may not be done: call it again.
    ///
    /// Use it when rows changed without Stockade, for instance by an import, or when the loader was wrong. Afterwards
    /// every read is a load, within the limits of loads. A strict cache can be cleared too, but it is not told before a
    /// COMMIT: reads between the COMMIT and this call see old values.
    ///
    /// # Errors
    ///
    /// [`CacheError::Unavailable`] if Redis did not confirm it: call it again. The values in the memory of this process
    /// are dropped in any case.
    #[doc(alias = "invalidate_all")]
    pub fn clear(&self) -> impl Future<Output = Result<(), CacheError>> + Send + use<K, V> {
        let invalidator = self.invalidator();
        async move { invalidator.clear().await }
    }

    /// A handle that can only invalidate.
    #[must_use]
    pub fn invalidator(&self) -> Invalidator {
        self.invalidator.clone()
    }

    /// The name of the cache. It is the namespace of its keys, and its label in metrics.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.invalidator.name()
    }
}

impl<K, V> Cache<K, V>
where
    K: Resource + Clone + Send + Sync + 'static,
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    pub(crate) fn new(core: Core<K, V>) -> Self {
        let core = Arc::new(core);
        let invalidator = Invalidator(Arc::clone(&core) as Arc<_>);
        Self { core, invalidator }
    }

    /// The value, from the first of these that has it: this process, Redis, a load of another call, the loader.
    ///
    /// Cancel safe: a load that this call started goes on and its value is stored.
    ///
    /// # Errors
    ///
    /// [`CacheError::Key`]. The other errors if there is no value, not even an expired one within its grace.
    #[doc(alias = "get_or_load")]
    #[doc(alias = "get_with")]
    pub async fn get(&self, key: &K) -> Result<Lookup<V>, CacheError> {
        self.core.get(key).await
    }

    /// The values of several keys, in the order of the keys, each with its own outcome. One round trip to Redis reads
    /// the values. For missing values there are three more steps: one round trip for the leases, one load
    /// ([`CacheBuilder::batch_loader`](super::CacheBuilder::batch_loader)) and one round trip to store.
    ///
    /// Without a batch loader each missing key is loaded by itself, as many at a time as the limits allow. Other reads
    /// get their turn in between, also for keys of this call that are still waiting.
    ///
    /// If leases, load and stores together take longer than [`CacheBuilder::lease`](super::CacheBuilder::lease), the
    /// call returns all values, but stores only a part of them, or none. Ask for fewer keys at a time then.
    ///
    /// Cancel safe, as [`Cache::get`]; loads that have not begun are not started. Duplicate keys cost nothing. If
    /// another call is loading a key, this call waits for that load.
    pub async fn get_many(&self, keys: &[K]) -> Vec<Result<Lookup<V>, CacheError>> {
        self.core.get_many(keys).await
    }

    /// Where the value of a key is, how old it is, and whether it is being loaded. It is for people who look: it loads
    /// nothing, stores nothing, and counts as no read. It takes one round trip to Redis, and two for a value with tags.
    ///
    /// # Errors
    ///
    /// [`CacheError::Key`]. If Redis does not answer, that is no error: see [`Tier::Unavailable`](super::Tier).
    pub async fn inspect(&self, key: &K) -> Result<Inspection, CacheError> {
        self.core.inspect(key).await
    }

    /// Prepares to load these keys before they are asked for. See [`Warmup`].
    pub fn warm<S: Stream<Item = K> + Send>(&self, keys: S) -> Warmup<K, V, S> {
        Warmup::new(Arc::clone(&self.core), keys)
    }

    /// Whether answers are outside the normal rules at the moment, because Redis can't be asked.
    /// [`CacheStats::vouched_for`] tells whether answers of Redis are believed.
    #[must_use]
    pub fn is_degraded(&self) -> bool {
        !self.core.store.is_up() || !self.core.store.is_verified()
    }

    /// Counts of what the cache has done since it was built.
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

    /// Refuses new loads and those whose turn has not come, waits up to `limit` for running loads, gives up the rest,
    /// and closes the connection. Reads that still wait then, also for the load of another process, end with
    /// [`CacheError::ShuttingDown`]. Loads that are given up have one more second to give back their leases.
    ///
    /// If the future is dropped, new loads stay refused, and the rest is not done: call it again.
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
