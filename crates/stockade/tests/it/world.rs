//! A Redis, the processes that a test plays there, and a look at what they leave.

use std::{
    cell::RefCell,
    ops::Deref,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::future::BoxFuture;
use serde::{Serialize, de::DeserializeOwned};
use stockade::{Cache, Locks, Redis, Resource, lock::LocksBuilder};
use stockade_testbed::{Leftovers, RedisServer};
use tokio::{
    runtime::Handle,
    time::{Instant, sleep},
};

use crate::looks::look;

/// How long what locks have left may take to go. Shorter than queue entries and most leases live: what only expires is
/// left behind.
const PATIENCE: Duration = Duration::from_secs(6);

thread_local! {
    /// What is done at the end of the test that runs on this thread.
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

/// A Redis whose answers may take as long as a busy machine needs.
pub(crate) async fn patient(url: &str) -> Redis {
    Redis::builder(url).command_timeout(Duration::from_secs(10)).connect().await.unwrap()
}

/// Waits until every read that was begun before has heard from the store what there is, and has joined a load when there is
/// one to join: a read of something else that is not stored goes out behind them on the same connection, asks twice, and is
/// loaded on a task.
pub(crate) async fn caught_up<K, V>(cache: &Cache<K, V>, something_else: &K)
where
    K: Resource + Clone + Send + Sync + 'static,
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    cache.get(something_else).await.unwrap();
}

/// Keys of caches that may stay: sequences, markers, tables of tags and filters for ever, entries until they expire.
fn stays(name: &str) -> bool {
    ["}s:", "}j:", "}t:", "}b:", "}b0:", "}b1:", "}e:"].iter().any(|part| name.contains(part))
}

/// Every test of locks on Redis ends with [`World::end`], and so do those of caches that begin with one.
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

    /// [`World::end`] of locks that reach the server through something of the test's: that goes when they are shut down.
    pub(crate) async fn end_behind(mut self, way: impl Send) {
        self.ended = true;
        let all = std::mem::take(&mut *self.locks.lock().unwrap());
        for locks in all {
            locks.shutdown(Duration::ZERO).await;
        }
        for ending in ENDINGS.take() {
            ending.await;
        }
        drop(way);
        let limit = Instant::now() + PATIENCE;
        loop {
            // A server that was killed has nothing.
            let left = if self.server.pid() == 0 { Leftovers::default() } else { self.left().await };
            let tasks = Handle::current().metrics().num_alive_tasks();
            if left.is_empty() && tasks <= self.tasks {
                return;
            }
            let before = self.tasks;
            assert!(
                Instant::now() < limit,
                "left behind: {left}, and {tasks} tasks of which {before} were there before"
            );
            sleep(Duration::from_millis(5)).await;
        }
    }
}

impl World {
    /// What nobody should need any more. What lies in a cache is looked at: all of it ends by itself, nobody is loading
    /// and no write is announced.
    async fn left(&self) -> Leftovers {
        let mut left = self.server.leftovers().await.unwrap().ignoring(stays);
        let look = look(&self.server).await;
        left.keys.extend((0..look.loads).map(|_| "a lease to load".to_owned()));
        left.keys.extend(look.transactions.iter().map(|xid| format!("the announcement of {xid}")));
        left
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
