use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use super::{
    geometry::{Geometry, Seed},
    keeper,
    scripts::{ALL, RESET},
    server::Server,
    shared::{AT_ONCE, Shared, SourceFn},
};
use crate::{
    Redis, Resource,
    cache::{BuildError, CacheError, LoadError, store::FirstAttempt},
    redis::{Claim, Link, LinkEvents},
    resource::{Bucket, Key, KeyError, Namespace},
};

/// A Bloom filter in Redis, shared by a fleet. Cheap to clone. See the [module docs](super).
#[derive(Clone)]
pub struct Bloom {
    pub(super) shared: Arc<Shared>,
    /// Ends the keeper and frees the name when the last clone is dropped.
    _owner: Arc<(DropGuard, Claim)>,
}

/// The state of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BloomStats {
    /// Whether the filter can say "absent". A strict cache may still not believe it; see the [module docs](super).
    pub ready: bool,
    /// The number of keys in the filter, as of a few seconds ago.
    pub keys: u64,
    /// The number of keys that the filter was made for. With more keys the rate of false positives rises.
    pub expected: u64,
    /// The size in bits that this process asked for. An existing filter keeps its own size.
    pub bits: u64,
}

impl Bloom {
    pub(super) fn open<K: Resource>(
        redis: &Redis,
        name: &'static str,
        expected: u64,
        geometry: Geometry,
        source: SourceFn,
    ) -> Result<Self, BuildError> {
        // Names of caches have no space, so a cache and a filter may have one name.
        let claim = redis.claims().claim(format!("{}filter {name}", redis.key_prefix()));
        let claim = claim.ok_or(BuildError::NameTaken(name))?;
        let keys = keys_of(redis.key_prefix(), name);
        let server = Arc::new(Server::new(keys.clone(), geometry));
        let link = Link::new(redis, "cache", Vec::new(), ALL, Arc::clone(&server) as Arc<dyn LinkEvents>).started();
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let shared = Arc::new(Shared {
            name,
            kind: K::KIND,
            expected,
            geometry,
            link,
            first_attempt: FirstAttempt::default(),
            keys,
            server,
            source,
            held: AtomicU64::new(0),
            ready: AtomicBool::new(false),
            stop: stop.clone(),
            tasks,
        });
        shared.tasks.spawn(keeper::keep(Arc::clone(&shared), stop.clone()));
        shared.tasks.close();
        Ok(Self { shared, _owner: Arc::new((stop.drop_guard(), claim)) })
    }

    /// Whether the key may exist. Also `true` if the filter can't tell: because it is not complete, does not answer,
    /// its server rejects writes, or the key is of another kind than its own.
    pub async fn may_hold<K: Resource + Sync + ?Sized>(&self, key: &K) -> bool {
        match self.key_of(key) {
            Ok(key) => self.may_hold_each(&[&key], false).await.first().copied().unwrap_or(true),
            Err(_) => true,
        }
    }

    /// [`Bloom::may_hold`] for several keys, in their order.
    pub async fn may_hold_many<K: Resource + Sync>(&self, keys: &[K]) -> Vec<bool> {
        let named: Vec<_> = keys.iter().map(|key| self.key_of(key).ok()).collect();
        let mut answers = self.may_hold_each(&named.iter().flatten().collect::<Vec<_>>(), false).await.into_iter();
        named.iter().map(|key| key.is_none() || answers.next().unwrap_or(true)).collect()
    }

    /// `bounded`: as for [`Shared::check`].
    pub(crate) async fn may_hold_each(&self, keys: &[&Key], bounded: bool) -> Vec<bool> {
        self.attempted().await;
        let mut answers = Vec::with_capacity(keys.len());
        for keys in keys.chunks(AT_ONCE) {
            let known = self.shared.check(keys, bounded).await.unwrap_or_else(|error| {
                tracing::debug!(filter = self.shared.name, %error, "the filter does not answer");
                None
            });
            answers.extend(known.unwrap_or_else(|| vec![true; keys.len()]));
        }
        answers
    }

    /// Adds ids. Idempotent. If the future is dropped, some may not have been added.
    ///
    /// Call it before the rows commit, in their transaction and after the transaction's first write, since
    /// `postgres::settled` waits only for transactions that have written. `postgres::Tx::add` (feature `postgres`) does
    /// this for you.
    ///
    /// # Errors
    ///
    /// [`CacheError::Key`], also for keys of another kind. [`CacheError::Filter`] if Redis did not confirm it: then the
    /// rows must not commit, or reads of them could be answered as absent.
    pub async fn add<K: Resource + Sync>(&self, keys: &[K]) -> Result<(), CacheError> {
        let keys: Vec<Key> = keys.iter().map(|key| self.key_of(key)).collect::<Result<_, _>>()?;
        self.add_keys(&keys).await
    }

    /// A key that the filter can hold.
    pub(crate) fn key_of<K: Resource + ?Sized>(&self, key: &K) -> Result<Key, KeyError> {
        if K::KIND == self.kind() { Key::of(key) } else { Err(KeyError::Kind(self.kind())) }
    }

    pub(crate) async fn add_keys(&self, keys: &[Key]) -> Result<(), CacheError> {
        self.attempted().await;
        for keys in keys.chunks(AT_ONCE) {
            self.shared.add(keys, "").await.map_err(|error| CacheError::Filter(LoadError::new(error)))?;
        }
        Ok(())
    }

    pub(crate) async fn attempted(&self) {
        self.shared.first_attempt.of(&self.shared.link).await;
    }

    /// Builds the filter again from its source, for instance to remove ids whose rows were deleted. Meanwhile the
    /// present filter answers, and ids are added to both. Returns once a filter is complete whose source was called
    /// after this call.
    ///
    /// Only one process builds at a time, so this call may wait for its turn. If another server may be the primary, it
    /// also waits until 13 seconds after the connection was made. Cancel safe: if the future is dropped, the building
    /// goes on in the background.
    ///
    /// # Errors
    ///
    /// [`CacheError::Load`] with the error of the source, or if Redis does not answer. The old filter stays then.
    /// [`CacheError::ShuttingDown`].
    pub async fn rebuild(&self) -> Result<(), CacheError> {
        self.attempted().await;
        let (shared, stop) = (Arc::clone(&self.shared), self.shared.stop.clone());
        let built = self.shared.tasks.spawn(async move { stop.run_until_cancelled(keeper::rebuild(&shared)).await });
        match built.await {
            Ok(Some(built)) => built.map_err(CacheError::Load),
            Ok(None) => Err(CacheError::ShuttingDown),
            Err(_) => Err(CacheError::Panicked),
        }
    }

    /// Gives the filter the size that this process was built with, from
    /// [`BloomBuilder::expected`](super::BloomBuilder::expected) and
    /// [`BloomBuilder::false_positives`](super::BloomBuilder::false_positives). Without this call an existing filter
    /// keeps its size. If the size differs, the filter is emptied: every id passes until a process has built the filter
    /// from its source, which [`BloomStats::ready`] shows.
    ///
    /// Call it when all versions of the program that will go on running ask for this size.
    ///
    /// # Errors
    ///
    /// [`CacheError::Filter`] if Redis did not confirm it: call it again.
    pub async fn resize(&self) -> Result<(), CacheError> {
        self.attempted().await;
        match self.shared.server.known() {
            Some(known) if known.design.geometry == self.shared.geometry => Ok(()),
            _ => self.clear().await,
        }
    }

    /// Empties the filter and gives it the size that this process was built with. Every id passes until a process has
    /// built the filter from its source, which [`BloomStats::ready`] shows. [`Bloom::rebuild`] has no such gap.
    ///
    /// # Errors
    ///
    /// [`CacheError::Filter`] if Redis did not confirm it: call it again.
    pub async fn clear(&self) -> Result<(), CacheError> {
        self.attempted().await;
        let args = [Seed::random().text(), self.shared.geometry.text()].map(String::into_bytes).into();
        let cleared = async {
            self.shared.call(&RESET, args).await?;
            self.shared.reopen().await
        };
        cleared.await.map_err(|error| CacheError::Filter(LoadError::new(error)))?;
        self.shared.ready.store(false, Ordering::Release);
        self.shared.server.came_up.notify_one();
        Ok(())
    }

    pub(crate) fn kind(&self) -> &'static str {
        self.shared.kind
    }

    /// Whether both are clones of the same handle.
    #[cfg(feature = "postgres")]
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// The state of the filter as this process last saw it. Does not ask the server.
    #[must_use]
    pub fn stats(&self) -> BloomStats {
        let Shared { ready, held, expected, geometry, .. } = &*self.shared;
        let (ready, keys) = (ready.load(Ordering::Acquire), held.load(Ordering::Acquire));
        BloomStats { ready, keys, expected: *expected, bits: geometry.bits }
    }

    /// Stops building and closes the connection, within `limit`.
    pub async fn shutdown(&self, limit: Duration) {
        self.shared.stop.cancel();
        let _ = tokio::time::timeout(limit, self.shared.tasks.wait()).await;
        self.shared.link.shutdown(limit).await;
    }
}

impl fmt::Debug for Bloom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bloom").field("name", &self.shared.name).field("stats", &self.stats()).finish()
    }
}

/// The keys of a filter: its state, the bits of even and of odd epochs. The size is not part of the names: if two
/// versions of a program with different sizes had a filter each, each filter would lack the ids that the other added.
fn keys_of(namespace: &Namespace, name: &str) -> Vec<String> {
    let named = |letter: &str| format!("{namespace}{{{}}}{letter}:{name}", Bucket::FIRST.tag());
    vec![named("b"), named("b0"), named("b1")]
}
