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
    keeper, keys,
    scripts::{ADD, ALL, RESET},
    server::Server,
    shared::{AT_ONCE, Added, Bound, Shared, SourceFn},
};
use crate::{
    Redis, Resource,
    cache::{CacheError, store::FirstAttempt},
    redis::{Link, LinkError, LinkEvents},
    resource::Key,
};

/// A Bloom filter in Redis, shared by a fleet. Cheap to clone. See the [module docs](super).
#[derive(Clone)]
pub struct Bloom {
    pub(super) shared: Arc<Shared>,
    /// Ends the keeper when the last clone goes.
    _owner: Arc<DropGuard>,
}

/// How a filter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BloomStats {
    /// Whether it can say "absent"; also where a strict cache does not take that, see the [module docs](super).
    pub ready: bool,
    /// The keys in it when last looked at, within a few seconds.
    pub keys: u64,
    /// The keys it was made for. With more, the rate of false positives rises.
    pub expected: u64,
    /// The size in bits that this process asked for. A filter that is there keeps its own.
    pub bits: u64,
}

impl Bloom {
    pub(super) fn open(redis: &Redis, name: &'static str, expected: u64, geometry: Geometry, source: SourceFn) -> Self {
        let keys = keys::of(redis.key_prefix(), name);
        let server = Arc::new(Server::new(keys.clone(), geometry));
        let link = Link::new(redis, "cache", Vec::new(), ALL, Arc::clone(&server) as Arc<dyn LinkEvents>).started();
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let shared = Arc::new(Shared {
            name,
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
        Self { shared, _owner: Arc::new(stop.drop_guard()) }
    }

    /// Whether the key may exist. `true` also when that can't be said: there is no complete filter, no answer, or a
    /// server that takes no writes.
    pub async fn may_hold<K: Resource + Sync + ?Sized>(&self, key: &K) -> bool {
        match Key::of(key) {
            Ok(key) => self.may_hold_each(&[&key], Bound::Any).await.first().copied().unwrap_or(true),
            Err(_) => true,
        }
    }

    /// [`Bloom::may_hold`] for several keys, in their order.
    pub async fn may_hold_many<K: Resource + Sync>(&self, keys: &[K]) -> Vec<bool> {
        let named: Vec<_> = keys.iter().map(|key| Key::of(key).ok()).collect();
        let mut answers = self.may_hold_each(&named.iter().flatten().collect::<Vec<_>>(), Bound::Any).await.into_iter();
        named.iter().map(|key| key.is_none() || answers.next().unwrap_or(true)).collect()
    }

    /// For each key whether it may exist.
    pub(crate) async fn may_hold_each(&self, keys: &[&Key], bound: Bound) -> Vec<bool> {
        self.attempted().await;
        let mut answers = Vec::with_capacity(keys.len());
        for keys in keys.chunks(AT_ONCE) {
            let known = self.shared.check(keys, bound).await.unwrap_or_else(|error| {
                tracing::debug!(filter = self.shared.name, %error, "the filter does not answer");
                None
            });
            answers.extend(known.unwrap_or_else(|| vec![true; keys.len()]));
        }
        answers
    }

    /// Adds ids. Call it before their rows commit, in their transaction and after its first write: `postgres::settled`
    /// waits for a transaction only from its first write on. `postgres::Tx::add` (feature `postgres`) does this for
    /// you. Idempotent.
    ///
    /// # Errors
    ///
    /// [`CacheError::Key`]; [`CacheError::Unavailable`] when it was not confirmed: the rows must not commit then, or
    /// reads of them could be answered as absent.
    pub async fn add<K: Resource + Sync>(&self, keys: &[K]) -> Result<(), CacheError> {
        let keys: Vec<Key> = keys.iter().map(Key::of).collect::<Result<_, _>>()?;
        self.add_keys(&keys).await
    }

    pub(crate) async fn add_keys(&self, keys: &[Key]) -> Result<(), CacheError> {
        self.attempted().await;
        for keys in keys.chunks(AT_ONCE) {
            let added = self.shared.add(keys, "").await;
            match added.map_err(|error| CacheError::Unavailable(Arc::new(error)))? {
                Added::Done => {}
                Added::Lost => return Err(CacheError::Unavailable(Arc::new(LinkError::Protocol { op: ADD.name }))),
            }
        }
        Ok(())
    }

    pub(crate) async fn attempted(&self) {
        self.shared.first_attempt.of(&self.shared.link).await;
    }

    /// Builds the filter again from its source, for instance to get rid of ids whose rows are gone. The one that is
    /// there answers meanwhile, and ids are added to both. Returns when a filter is complete whose source was called
    /// after this.
    ///
    /// Only one process builds at a time: while another does, this waits for its turn, and for 13 seconds after the
    /// connection was made where another server may be the primary. Dropping the future leaves the building to the
    /// background.
    ///
    /// # Errors
    ///
    /// [`CacheError::Load`] with the error of the source, or when Redis does not answer; the old filter stays then.
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

    /// Gives the filter the size that this process was built with
    /// ([`BloomBuilder::expected`](super::BloomBuilder::expected),
    /// [`BloomBuilder::false_positives`](super::BloomBuilder::false_positives)): a filter that is there keeps its own
    /// otherwise. It is begun again, so every id passes until some process has built it from its source;
    /// [`BloomStats::ready`] says when. Nothing is done when it has that size.
    ///
    /// Call it once every version of the program that is to go on running asks for this size.
    ///
    /// # Errors
    ///
    /// [`CacheError::Unavailable`] when it was not confirmed: repeat it.
    pub async fn resize(&self) -> Result<(), CacheError> {
        self.attempted().await;
        match self.shared.server.known() {
            Some(known) if known.design.geometry == self.shared.geometry => Ok(()),
            _ => self.clear().await,
        }
    }

    /// Forgets all ids, and begins the filter again in the size that this process was built with. Everything passes
    /// until some process has built it from its source; [`BloomStats::ready`] says when. [`Bloom::rebuild`] goes
    /// without that gap.
    ///
    /// # Errors
    ///
    /// [`CacheError::Unavailable`] when it was not confirmed: repeat it.
    pub async fn clear(&self) -> Result<(), CacheError> {
        self.attempted().await;
        let args = [Seed::random().text(), self.shared.geometry.text()].map(String::into_bytes).into();
        let cleared = async {
            self.shared.call(&RESET, args).await?;
            self.shared.reopen().await
        };
        cleared.await.map_err(|error| CacheError::Unavailable(Arc::new(error)))?;
        self.shared.ready.store(false, Ordering::Release);
        self.shared.server.came_up.notify_one();
        Ok(())
    }

    /// Whether both are clones of one.
    #[cfg(feature = "postgres")]
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// How it is, without asking the server.
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
