//! A Redis, the processes that a test plays there, and a look at what they leave.

use std::{ops::Deref, sync::Mutex, time::Duration};

use stockade::{Locks, Redis, lock::LocksBuilder};
use stockade_testbed::RedisServer;
use tokio::{
    runtime::Handle,
    time::{Instant, sleep},
};

/// How long what locks have left may take to go. Shorter than queue entries and most leases live: what only expires is
/// left behind.
const PATIENCE: Duration = Duration::from_secs(6);

/// Every test of locks on Redis ends with [`World::end`].
pub(crate) struct World {
    server: RedisServer,
    locks: Mutex<Vec<Locks>>,
    tasks: usize,
    ended: bool,
}

impl World {
    pub(crate) async fn start() -> Self {
        let tasks = Handle::current().metrics().num_alive_tasks();
        Self { server: RedisServer::start().await.unwrap(), locks: Mutex::default(), tasks, ended: false }
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

    /// Shuts all locks down and looks for what they leave: keys, subscriptions, connections and tasks.
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
        drop(way);
        let limit = Instant::now() + PATIENCE;
        loop {
            let left = self.server.leftovers().await.unwrap();
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
