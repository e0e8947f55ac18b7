//! A Redis or a group of servers, the processes that a test plays there, and the keys that they leave.

use std::{
    cell::RefCell,
    ops::Deref,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::future::BoxFuture;
use serde::{Serialize, de::DeserializeOwned};
use stockade::{Cache, Locks, Redis, Resource, cache::Bloom, lock::LocksBuilder};
use stockade_testbed::{Leftovers, RedisServer, SentinelBuilder, SentinelGroup};
use tokio::{
    runtime::Handle,
    time::{Instant, sleep},
};

use crate::looks::look;

/// How long what locks have left may take to go. Shorter than queue entries and most leases live: what only expires is
/// left behind.
const PATIENCE: Duration = Duration::from_secs(6);

thread_local! {
    /// The steps at the end of the test that runs on this thread.
    static ENDINGS: RefCell<Vec<BoxFuture<'static, ()>>> = const { RefCell::new(Vec::new()) };
}

/// A cache that is shut down at the end of the test that runs on this thread, when it has nothing under way any more.
pub(crate) fn cached<K, V>(cache: Cache<K, V>) -> Cache<K, V>
where
    K: Resource + Clone + Send + Sync + 'static,
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    let ending = cache.clone();
    ENDINGS.with_borrow_mut(|endings| {
        endings.push(Box::pin(async move {
            // Of a load that is over nothing is left by which another caller could find it.
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

/// Waits until every read that was begun before has heard from the store what there is, and has joined a load when
/// there is one to join: a read of something else that is not stored goes out behind them on the same connection, asks
/// twice, and is loaded on a task.
pub(crate) async fn caught_up<K, V>(cache: &Cache<K, V>, something_else: &K)
where
    K: Resource + Clone + Send + Sync + 'static,
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    cache.get(something_else).await.unwrap();
}

/// Keys of caches that may stay: sequences, markers, epochs, tables of tags and filters for ever, entries until they
/// expire.
fn stays(name: &str) -> bool {
    ["}s:", "}j:", "}t:", "}c:", "}b:", "}b0:", "}b1:", "}e:"].iter().any(|part| name.contains(part))
}

/// What clients have left that nobody should need any more. What lies in a cache is looked at: all of it ends by
/// itself, nobody is loading and no write is announced.
async fn left_of(left: Leftovers, server: &RedisServer) -> Leftovers {
    let mut left = left.ignoring(stays);
    let look = look(server).await;
    left.keys.extend((0..look.loads).map(|_| "a lease to load".to_owned()));
    left.keys.extend(look.transactions.iter().map(|xid| format!("the announcement of {xid}")));
    left
}

/// Shuts all caches and filters of this thread's test down.
async fn shut_down() {
    for ending in ENDINGS.take() {
        ending.await;
    }
}

/// Looks until nothing is left, nor more tasks than there were `before`.
async fn nothing_is_left(before: usize, left: impl AsyncFn() -> Leftovers) {
    let limit = Instant::now() + PATIENCE;
    loop {
        let left = left().await;
        let tasks = Handle::current().metrics().num_alive_tasks();
        if left.is_empty() && tasks <= before {
            return;
        }
        assert!(Instant::now() < limit, "left behind: {left}, and {tasks} tasks of which {before} were there before");
        sleep(Duration::from_millis(5)).await;
    }
}

/// Every test of locks on Redis ends with [`World::end`], and so do those of caches and filters.
pub(crate) struct World {
    server: Arc<RedisServer>,
    locks: Mutex<Vec<Locks>>,
    tasks: usize,
    ended: bool,
}

impl World {
    pub(crate) async fn start() -> Self {
        let tasks = Handle::current().metrics().num_alive_tasks();
        // An earlier test on this thread may have had no world to end in.
        drop(ENDINGS.take());
        let server = Arc::new(RedisServer::start().await.unwrap());
        Self { server, locks: Mutex::default(), tasks, ended: false }
    }

    /// The server, for what outlives the test's hold on its world, such as a loader.
    pub(crate) fn shared(&self) -> Arc<RedisServer> {
        Arc::clone(&self.server)
    }

    /// Locks of one more process, connected.
    pub(crate) async fn locks(&self) -> Locks {
        self.locks_of(Locks::builder(), &Redis::connect(self.url()).await.unwrap()).await
    }

    /// [`World::locks`] with settings and a way to the server.
    pub(crate) async fn locks_of(&self, builder: LocksBuilder, redis: &Redis) -> Locks {
        let locks = self.opened(builder.redis(redis));
        let limit = Instant::now() + Duration::from_secs(20);
        while locks.list(1).await.is_err() {
            assert!(Instant::now() < limit, "never connected");
            sleep(Duration::from_millis(1)).await;
        }
        locks
    }

    /// Locks that are shut down at the end of the test.
    pub(crate) fn opened(&self, locks: Locks) -> Locks {
        self.locks.lock().unwrap().push(locks.clone());
        locks
    }

    /// Shuts all locks and caches down and looks for what they leave: keys, subscriptions, connections and tasks.
    pub(crate) async fn end(self) {
        self.end_behind(()).await;
    }

    /// [`World::end`] of locks that reach the server through something of the test's: that goes when they are shut
    /// down.
    pub(crate) async fn end_behind(mut self, way: impl Send) {
        self.ended = true;
        let all = std::mem::take(&mut *self.locks.lock().unwrap());
        for locks in all {
            locks.shutdown(Duration::ZERO).await;
        }
        shut_down().await;
        drop(way);
        nothing_is_left(self.tasks, async || match self.server.pid() {
            // A server that was killed has nothing.
            0 => Leftovers::default(),
            _ => left_of(self.server.leftovers().await.unwrap(), &self.server).await,
        })
        .await;
    }
}

impl Deref for World {
    type Target = RedisServer;

    fn deref(&self) -> &RedisServer {
        &self.server
    }
}

impl Drop for World {
    fn drop(&mut self) {
        assert!(
            self.ended || std::thread::panicking(),
            "a test must end with `World::end`, which looks for what is left"
        );
    }
}

/// A group of servers for the caches and filters of a test, which ends with [`Group::end`].
pub(crate) struct Group {
    servers: SentinelGroup,
    tasks: usize,
    ended: bool,
}

impl Group {
    pub(crate) async fn start() -> Self {
        Self::of(SentinelGroup::builder()).await
    }

    pub(crate) async fn of(servers: SentinelBuilder) -> Self {
        let tasks = Handle::current().metrics().num_alive_tasks();
        drop(ENDINGS.take());
        Self { servers: servers.start().await.unwrap(), tasks, ended: false }
    }

    /// Shuts all caches and filters down and looks for what they leave on any server, and at the keys of the primary.
    pub(crate) async fn end(mut self) {
        self.ended = true;
        shut_down().await;
        nothing_is_left(self.tasks, async || {
            let primary = self.servers.primary().await.unwrap();
            left_of(self.servers.leftovers().await.unwrap(), primary).await
        })
        .await;
    }
}

impl Deref for Group {
    type Target = SentinelGroup;

    fn deref(&self) -> &SentinelGroup {
        &self.servers
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        assert!(
            self.ended || std::thread::panicking(),
            "a test must end with `Group::end`, which looks for what is left"
        );
    }
}
