//! A Redis or a group of servers, the clients of a test that act as processes, and the keys that they leave.

use std::{
    cell::RefCell,
    ops::Deref,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::future::BoxFuture;
use serde::{Serialize, de::DeserializeOwned};
use stockade::{
    Cache, Locks, Redis, Resource,
    cache::{Bloom, CacheBuilder},
    lock::LocksBuilder,
};
use stockade_testbed::{Leftovers, RedisServer, SentinelBuilder, SentinelGroup, eventually};
use tokio::time::{Instant, sleep, timeout};

use crate::{
    ending::{Ending, PATIENCE},
    looks::look,
};

thread_local! {
    /// The steps at the end of the test that runs on this thread.
    static ENDINGS: RefCell<Vec<BoxFuture<'static, ()>>> = const { RefCell::new(Vec::new()) };
}

/// A cache that is shut down at the end of the test on this thread, once none of its loads is under way.
pub(crate) fn cached<K, V>(cache: Cache<K, V>) -> Cache<K, V>
where
    K: Resource + Clone + Send + Sync + 'static,
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    let ending = cache.clone();
    ENDINGS.with_borrow_mut(|endings| {
        endings.push(Box::pin(async move {
            // A load that has ended must be gone from the table in which callers find loads to join.
            let limit = Instant::now() + PATIENCE;
            while ending.stats().fetching > 0 {
                assert!(Instant::now() < limit, "left under way: {:?}", ending.stats());
                sleep(Duration::from_millis(2)).await;
            }
            ending.shutdown(Duration::ZERO).await;
        }));
    });
    cache
}

/// Builds such a cache, and waits until the cache is on line.
pub(crate) async fn online<K, V>(builder: CacheBuilder<K, V>) -> Cache<K, V>
where
    K: Resource + Clone + Send + Sync + 'static,
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    let cache = cached(builder.build());
    // No `eventually`: a future with its closure is not `Send` for every caller.
    let on_line = async {
        while cache.is_degraded() {
            sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(Duration::from_secs(30), on_line).await.expect("the cache is not on line");
    cache
}

/// A filter that is shut down at the end of the test that runs on this thread.
pub(crate) fn attended(bloom: Bloom) -> Bloom {
    let ending = bloom.clone();
    ENDINGS.with_borrow_mut(|endings| endings.push(Box::pin(async move { ending.shutdown(PATIENCE).await })));
    bloom
}

/// A Redis whose answers may take as long as a busy machine needs.
pub(crate) async fn patient(url: &str) -> Redis {
    Redis::builder(url).command_timeout(Duration::from_secs(10)).connect().await.unwrap()
}

/// Waits until so many attempts wait for the resource.
pub(crate) async fn waiting(locks: &Locks, key: &str, wanted: u64) {
    eventually("waiting", async || locks.inspect(key).await.is_ok_and(|found| found.waiting == wanted)).await;
}

/// Waits until every read that began before has its answer from the store, and has joined a load if there is one to
/// join. To do so it reads a key that is not stored: that read is sent behind the others on the same connection, asks
/// the store twice, and its load runs on a task.
pub(crate) async fn caught_up<K, V>(cache: &Cache<K, V>, something_else: &K)
where
    K: Resource + Clone + Send + Sync + 'static,
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    cache.get(something_else).await.unwrap();
}

/// Whether a key of a cache may stay. Sequences, markers, epochs, tables of tags and filters stay for ever, and entries
/// until they expire.
fn stays(name: &str) -> bool {
    ["}s:", "}j:", "}t:", "}c:", "}b:", "}b0:", "}b1:", "}e:"].iter().any(|part| name.contains(part))
}

/// The leftovers of clients that no client needs any more. The keys of caches are inspected, too: all of them must
/// expire by themselves, and no load may have a lease and no write an announcement.
async fn left_of(left: Leftovers, server: &RedisServer) -> Leftovers {
    let mut left = left.ignoring(stays);
    let look = look(server).await;
    left.keys.extend((0..look.loads).map(|_| "a lease to load".to_owned()));
    left.keys.extend(look.transactions.iter().map(|xid| format!("the announcement of {xid}")));
    left
}

/// Begins a test that has caches and filters.
fn due() -> Ending {
    // An earlier test on this thread may have ended without a world, and left its steps here.
    drop(ENDINGS.take());
    Ending::due()
}

/// Shuts down all caches and filters of the test on this thread.
async fn shut_down() {
    for ending in ENDINGS.take() {
        ending.await;
    }
}

/// A Redis, and the locks of a test on it. Tests of locks, caches and filters must end with [`World::end`].
pub(crate) struct World {
    server: Arc<RedisServer>,
    locks: Mutex<Vec<Locks>>,
    ending: Ending,
}

impl World {
    pub(crate) async fn start() -> Self {
        let ending = due();
        Self { server: Arc::new(RedisServer::start().await.unwrap()), locks: Mutex::default(), ending }
    }

    /// The server, for code that outlives the test's reference to its world, such as a loader.
    pub(crate) fn shared(&self) -> Arc<RedisServer> {
        Arc::clone(&self.server)
    }

    /// Locks of one more process, connected.
    pub(crate) async fn locks(&self) -> Locks {
        self.locks_of(Locks::builder(), &Redis::connect(self.url()).await.unwrap()).await
    }

    /// [`World::locks`] with other settings and another connection.
    pub(crate) async fn locks_of(&self, builder: LocksBuilder, redis: &Redis) -> Locks {
        let locks = self.opened(builder.redis(redis));
        eventually("connected", async || locks.list(1).await.is_ok()).await;
        locks
    }

    /// Locks that are shut down at the end of the test.
    pub(crate) fn opened(&self, locks: Locks) -> Locks {
        self.locks.lock().unwrap().push(locks.clone());
        locks
    }

    /// Shuts down all locks and caches, and fails if they leave keys, subscriptions, connections or tasks.
    pub(crate) async fn end(self) {
        self.end_behind(()).await;
    }

    /// [`World::end`] for locks that reach the server through `way`, such as a proxy. It is dropped after the shutdown.
    pub(crate) async fn end_behind(self, way: impl Send) {
        let Self { server, locks, ending } = self;
        for locks in locks.into_inner().unwrap() {
            locks.shutdown(Duration::ZERO).await;
        }
        let left = async || match server.pid() {
            // A server that was killed has no keys.
            0 => Leftovers::default(),
            _ => left_of(server.leftovers().await.unwrap(), &server).await,
        };
        shut_down().await;
        drop(way);
        ending.reach(left).await;
    }
}

impl Deref for World {
    type Target = RedisServer;

    fn deref(&self) -> &RedisServer {
        &self.server
    }
}

/// A group of servers for the caches and filters of a test, which ends with [`Group::end`].
pub(crate) struct Group {
    servers: SentinelGroup,
    ending: Ending,
}

impl Group {
    pub(crate) async fn start() -> Self {
        Self::of(SentinelGroup::builder()).await
    }

    pub(crate) async fn of(servers: SentinelBuilder) -> Self {
        let ending = due();
        Self { servers: servers.start().await.unwrap(), ending }
    }

    /// Shuts down all caches and filters, and fails if they leave anything on a server. Inspects the primary's keys.
    pub(crate) async fn end(self) {
        let Self { servers, ending } = self;
        let left = async || left_of(servers.leftovers().await.unwrap(), servers.primary().await.unwrap()).await;
        shut_down().await;
        ending.reach(left).await;
    }
}

impl Deref for Group {
    type Target = SentinelGroup;

    fn deref(&self) -> &SentinelGroup {
        &self.servers
    }
}
