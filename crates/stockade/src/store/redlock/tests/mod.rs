//! The store against real servers.

mod subsets;
mod suite;

use std::{sync::Arc, time::Duration};

use futures_util::future::try_join_all;
use stockade_testbed::RedisServer;
use tokio::time::{Instant, sleep};

use super::{RedlockStore, Settings};
use crate::{
    redis::Redis,
    resource::Key,
    store::{Attempt, Mode},
};

/// Longer than anything takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(20);

/// Independent servers.
struct World {
    servers: Vec<RedisServer>,
}

impl World {
    async fn start(count: usize) -> Self {
        Self { servers: try_join_all((0..count).map(|_| RedisServer::start())).await.unwrap() }
    }

    /// A store as another process would have it, connected to all.
    async fn store(&self) -> Arc<RedlockStore> {
        connected(self.servers.iter().map(RedisServer::url), Settings::default()).await
    }

    /// All keys of one server but the token floors and the run marker.
    async fn keys(&self, server: usize) -> Vec<String> {
        let keys = self.servers[server].command(&["KEYS", "*"]).await.unwrap();
        let left = keys.lines().map(str::trim).filter(|key| !key.is_empty());
        left.filter(|key| !key.ends_with("}f") && !key.ends_with("}e")).map(str::to_owned).collect()
    }

    async fn until(&self, server: usize, wanted: impl Fn(&[String]) -> bool) {
        let limit = Instant::now() + LIMIT;
        loop {
            let keys = self.keys(server).await;
            if wanted(&keys) {
                return;
            }
            assert!(Instant::now() < limit, "on server {server} there still are {keys:?}");
            sleep(Duration::from_millis(5)).await;
        }
    }

    async fn until_free(&self, server: usize) {
        self.until(server, <[String]>::is_empty).await;
    }

    async fn until_all_are_free(&self) {
        for server in 0..self.servers.len() {
            self.until_free(server).await;
        }
    }
}

async fn connected(urls: impl Iterator<Item = String>, settings: Settings) -> Arc<RedlockStore> {
    let servers = try_join_all(urls.map(Redis::connect)).await.unwrap();
    let store = RedlockStore::open(&servers, settings);
    until("all connections", || store.inner.nodes.iter().all(|node| node.link.is_up())).await;
    Arc::new(store)
}

async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let limit = Instant::now() + LIMIT;
    while !condition() {
        assert!(Instant::now() < limit, "never came: {what}");
        sleep(Duration::from_millis(1)).await;
    }
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

fn once(key: &Key) -> Attempt {
    Attempt { wait: Duration::ZERO, ..write(key) }
}
