//! The store against a real server.

mod clock;
pub(in crate::store) mod detour;
#[cfg(feature = "sentinel")]
mod failover;
mod faults;
mod fleet;
mod fuzz;
mod keys;
mod late;
mod owners;
mod queue;
mod reconnect;
mod renewal;
mod seen;
#[cfg(feature = "sentinel")]
mod sentinel_suite;
mod suite;
mod together;

use std::{sync::Arc, time::Duration};

use stockade_testbed::RedisServer;
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};
use tokio_util::task::TaskTracker;

use super::{RedisStore, shard::Shard};
use crate::{
    redis::Redis,
    resource::{Bucket, Key},
    store::{Attempt, LockError, LockStore, Mode, Ownership},
};

/// Longer than anything takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(20);

struct World {
    server: RedisServer,
}

impl World {
    async fn start() -> Self {
        Self { server: RedisServer::start().await.unwrap() }
    }

    async fn redis(&self) -> Redis {
        Redis::connect(self.server.url()).await.unwrap()
    }

    /// A store as another process would have it, connected.
    async fn store(&self) -> Arc<RedisStore> {
        connected(&self.redis().await).await
    }

    async fn command(&self, words: &[&str]) -> String {
        self.server.command(words).await.unwrap()
    }

    /// All keys but the token floors and the run marker.
    async fn keys(&self) -> Vec<String> {
        let keys = self.command(&["KEYS", "*"]).await;
        let left = keys.lines().map(str::trim).filter(|key| !key.is_empty());
        left.filter(|key| !key.ends_with("}f") && !key.ends_with("}e")).map(str::to_owned).collect()
    }

    /// Waits until the server has run scripts this often since its counters were reset.
    async fn until_scripts_called(&self, times: u64) {
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

    async fn until_nothing_is_left(&self) {
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
}

/// The one server of a store.
fn server(store: &RedisStore) -> Arc<Shard> {
    store.inner.shards.of(Bucket::FIRST).unwrap()
}

async fn connected(redis: &Redis) -> Arc<RedisStore> {
    let store = RedisStore::open(redis);
    until("a connection", || store.is_up()).await;
    Arc::new(store)
}

async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let limit = Instant::now() + LIMIT;
    while !condition() {
        assert!(Instant::now() < limit, "never came: {what}");
        sleep(Duration::from_millis(1)).await;
    }
}

async fn until_waiting(store: &RedisStore, key: &Key, waiting: u64) {
    let limit = Instant::now() + LIMIT;
    loop {
        let seen = store.inspect(key).await.unwrap();
        if seen.waiting == waiting {
            return;
        }
        assert!(Instant::now() < limit, "{seen:?}");
        sleep(Duration::from_millis(1)).await;
    }
}

/// Where random tests begin: another each time, or the one of a run to be repeated.
fn seed() -> u64 {
    std::env::var("STOCKADE_SEED").ok().map_or_else(rand::random, |seed| seed.parse().unwrap())
}

/// An attempt on a task of its own.
fn waiting(store: &Arc<RedisStore>, attempt: Attempt) -> JoinHandle<Result<Arc<Ownership>, LockError>> {
    let store = Arc::clone(store);
    TaskTracker::new().spawn(async move { store.acquire(attempt).await })
}

/// How often the server has run a command since its counters were reset.
fn calls_of(stats: &str, command: &str) -> u64 {
    let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.map_or(0, |rest| rest.split(',').next().unwrap().parse().unwrap())
}

fn key(id: &str) -> Key {
    Key::new("test", id).unwrap()
}

fn write(key: &Key) -> Attempt {
    Attempt {
        key: key.clone(),
        mode: Mode::Write,
        permits: 0,
        lease: Duration::from_secs(10),
        wait: LIMIT,
        max_waiters: 1000,
        tag: Arc::from("a tag"),
    }
}

fn read(key: &Key) -> Attempt {
    Attempt { mode: Mode::Read, ..write(key) }
}
