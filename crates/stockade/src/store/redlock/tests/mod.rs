//! The store against real servers.

mod chaos;
mod clocks;
mod counts;
mod extension;
mod faults;
mod force;
mod late;
mod subsets;
mod suite;
mod tokens;
mod wire;

use std::{sync::Arc, time::Duration};

use stockade_testbed::{Proxy, RedisServer};

use super::{RedlockStore, Settings};
use crate::{
    redis::{LIMIT, Redis, retried, until},
    resource::Key,
    store::{
        Attempt, LockError, LockStore, Ownership, Unavailable,
        conformance::{self, Ending, key, opened, write},
    },
};

/// Independent servers. Every test ends with [`World::end`].
struct World {
    servers: Vec<RedisServer>,
    ending: Ending,
}

impl World {
    async fn start(count: usize) -> Self {
        Self::of(RedisServer::start_many(count).await.unwrap())
    }

    fn of(servers: Vec<RedisServer>) -> Self {
        Self { servers, ending: Ending::due() }
    }

    /// Shuts the stores down, and checks that they leave no keys, subscriptions, connections or tasks.
    async fn end(self) {
        self.end_behind(()).await;
    }

    /// [`World::end`] for stores that reach the servers through `way`, which goes once they are shut down.
    async fn end_behind(self, way: impl Sized) {
        conformance::end(self.ending, &self.servers, way).await;
    }

    fn urls(&self) -> Vec<String> {
        self.servers.iter().map(RedisServer::url).collect()
    }

    /// A store connected to all servers, as another process would have it.
    async fn store(&self) -> Arc<RedlockStore> {
        self.store_with(Settings::default()).await
    }

    async fn store_with(&self, settings: Settings) -> Arc<RedlockStore> {
        connected(&handles(&self.urls()).await, settings).await
    }

    /// A store that reaches each server through a proxy of its own.
    async fn store_behind_proxies(&self) -> (Arc<RedlockStore>, Vec<Proxy>) {
        let mut proxies = Vec::new();
        for server in &self.servers {
            proxies.push(Proxy::start(server.addr()).await.unwrap());
        }
        let urls: Vec<_> = proxies.iter().zip(self.urls()).map(|(proxy, url)| proxy.url_for(&url)).collect();
        (connected(&handles(&urls).await, Settings::default()).await, proxies)
    }

    async fn command(&self, server: usize, words: &[&str]) -> String {
        self.servers[server].command(words).await.unwrap()
    }

    /// All keys of one server except the token floors.
    async fn keys(&self, server: usize) -> Vec<String> {
        self.servers[server].leftovers().await.unwrap().keys
    }

    async fn until(&self, server: usize, wanted: impl Fn(&[String]) -> bool + Send + Sync) {
        let ask = async || {
            let keys = self.keys(server).await;
            if wanted(&keys) { Ok(()) } else { Err(format!("{keys:?} on server {server}")) }
        };
        retried(ask).await;
    }

    async fn until_free(&self, server: usize) {
        self.until(server, <[String]>::is_empty).await;
    }

    async fn until_all_are_free(&self) {
        for server in 0..self.servers.len() {
            self.until_free(server).await;
        }
    }

    async fn until_held_everywhere(&self) {
        for server in 0..self.servers.len() {
            self.until(server, |keys| keys.len() == 1).await;
        }
    }
}

async fn handles(urls: &[String]) -> Vec<Redis> {
    let mut handles = Vec::new();
    for url in urls {
        handles.push(Redis::connect(url).await.unwrap());
    }
    handles
}

async fn connected(servers: &[Redis], settings: Settings) -> Arc<RedlockStore> {
    let store = opened(RedlockStore::open(servers, settings));
    until("all connections", || store.inner.nodes.iter().all(|node| node.link.is_up())).await;
    store
}

/// Waits until the store is connected to the present run of each of these servers, which were restarted once.
async fn reconnected(store: &RedlockStore, servers: &[usize]) {
    let back = |server: &usize| {
        let link = &store.inner.nodes[*server].link;
        link.is_up() && link.generation() == 2
    };
    until("another connection", || servers.iter().all(back)).await;
}

/// Asks until a quorum answers in time. On a busy machine the first attempt may be too slow, above all when a server
/// whose clock has stepped must be asked twice.
async fn granted(store: &RedlockStore, attempt: Attempt) -> Arc<Ownership> {
    let ask = async || match store.acquire(attempt.clone()).await {
        Ok(held) => Ok(held),
        Err(error @ LockError::Unavailable { .. }) => Err(error),
        Err(error) => panic!("{error}"),
    };
    retried(ask).await
}

fn is_no_quorum<T>(result: &Result<T, LockError>) -> bool {
    matches!(result, Err(LockError::Unavailable { reason: Unavailable::NoQuorum, .. }))
}

fn once(key: &Key) -> Attempt {
    Attempt { wait: Duration::ZERO, ..write(key) }
}
