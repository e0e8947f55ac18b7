use std::{
    cell::RefCell,
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::future::join_all;
use stockade_testbed::RedisServer;
use tokio::time::{Instant, sleep};

use super::{LIMIT, Options, RedisStore, calls_of, until};
use crate::{
    redis::Redis,
    store::{
        LockStore,
        conformance::{alive_tasks, until_tasks_end, until_without_leftovers},
    },
};

thread_local! {
    /// The stores of the test that runs on this thread, for its end.
    static STORES: RefCell<Vec<Weak<RedisStore>>> = const { RefCell::new(Vec::new()) };
}

/// A server and what a test does there. Every test ends with [`World::end`].
pub(super) struct World {
    pub(super) server: RedisServer,
    tasks: usize,
    ended: bool,
}

impl World {
    pub(super) async fn start() -> Self {
        Self::on(RedisServer::start().await.unwrap())
    }

    pub(super) fn on(server: RedisServer) -> Self {
        Self { server, tasks: alive_tasks(), ended: false }
    }

    pub(super) async fn redis(&self) -> Redis {
        Redis::connect(self.server.url()).await.unwrap()
    }

    /// A store as another process would have it, connected.
    pub(super) async fn store(&self) -> Arc<RedisStore> {
        connected(&self.redis().await).await
    }

    pub(super) async fn command(&self, words: &[&str]) -> String {
        self.server.command(words).await.unwrap()
    }

    /// All keys but the token floors and the run marker.
    pub(super) async fn keys(&self) -> Vec<String> {
        self.server.leftovers().await.unwrap().keys
    }

    /// Waits until the server has run scripts this often since its counters were reset.
    pub(super) async fn until_scripts_called(&self, times: u64) {
        let limit = Instant::now() + LIMIT;
        loop {
            let stats = self.command(&["INFO", "commandstats"]).await;
            if calls_of(&stats, "evalsha") >= times {
                return;
            }
            assert!(Instant::now() < limit, "{stats}");
            sleep(Duration::from_millis(1)).await;
        }
    }

    /// Waits until no key is left, as what a dead process leaves may take its time.
    pub(super) async fn until_nothing_is_left(&self) {
        let limit = Instant::now() + LIMIT;
        loop {
            let left = self.keys().await;
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < limit, "left behind: {left:?}");
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Shuts the stores down and looks for what they leave: keys, subscriptions, connections and tasks.
    pub(super) async fn end(self) {
        self.end_behind(()).await;
    }

    /// [`World::end`] of stores that reach the server through something of the test's: that goes when they are shut down.
    pub(super) async fn end_behind(mut self, way: impl Sized) {
        self.ended = true;
        shut_down().await;
        drop(way);
        until_without_leftovers(&self.server).await;
        until_tasks_end(self.tasks).await;
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

/// Shuts down every store that the test opened.
pub(super) async fn shut_down() {
    let stores: Vec<_> = STORES.take().iter().filter_map(Weak::upgrade).collect();
    join_all(stores.iter().map(|store| store.shutdown(Duration::from_secs(1)))).await;
}

/// A store that is known to the end of the test.
pub(super) fn opened(redis: &Redis) -> Arc<RedisStore> {
    opened_with(redis, Options::default())
}

fn opened_with(redis: &Redis, options: Options) -> Arc<RedisStore> {
    let store = Arc::new(RedisStore::open(redis, options));
    STORES.with_borrow_mut(|stores| stores.push(Arc::downgrade(&store)));
    store
}

pub(super) async fn connected(redis: &Redis) -> Arc<RedisStore> {
    connected_with(redis, Options::default()).await
}

pub(super) async fn connected_with(redis: &Redis, options: Options) -> Arc<RedisStore> {
    let store = opened_with(redis, options);
    until("a connection", || store.is_up()).await;
    store
}
