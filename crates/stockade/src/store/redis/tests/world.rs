use std::{sync::Arc, time::Duration};

use stockade_testbed::RedisServer;

use super::{RedisStore, server, until};
use crate::{
    redis::{Redis, eventually, retried},
    store::{
        LockStore,
        conformance::{self, Ending},
    },
};

/// A server and what a test does there. Every test ends with [`World::end`].
pub(super) struct World {
    pub(super) server: RedisServer,
    ending: Ending,
}

impl World {
    pub(super) async fn start() -> Self {
        Self::on(RedisServer::start().await.unwrap())
    }

    pub(super) fn on(server: RedisServer) -> Self {
        Self { server, ending: Ending::due() }
    }

    pub(super) async fn redis(&self) -> Redis {
        Redis::connect(self.server.url()).await.unwrap()
    }

    /// A connected store, as another process would have it.
    pub(super) async fn store(&self) -> Arc<RedisStore> {
        connected(&self.redis().await).await
    }

    pub(super) async fn command(&self, words: &[&str]) -> String {
        self.server.command(words).await.unwrap()
    }

    /// Waits until so much time has passed by the clock of the server.
    pub(super) async fn until_passed(&self, time: Duration) {
        let end = self.now().await + time;
        eventually("a later time", async || self.now().await > end).await;
    }

    /// Makes the server a new run that has all data, as a replica in step is when it is promoted, and waits until the
    /// store is connected to it.
    pub(super) async fn begin_run(&self, store: &RedisStore) {
        let before = server(store).link.generation();
        for words in [
            ["REPLICAOF", "127.0.0.1", "1"].as_slice(),
            &["REPLICAOF", "NO", "ONE"],
            &["CLIENT", "KILL", "TYPE", "normal"],
            &["CLIENT", "KILL", "TYPE", "pubsub"],
        ] {
            self.command(words).await;
        }
        until("a connection to the new run", || store.is_up() && server(store).link.generation() > before).await;
    }

    async fn now(&self) -> Duration {
        let answer = self.command(&["TIME"]).await;
        let mut parts = answer.split_whitespace().map(|part| part.parse().unwrap());
        let mut part = || parts.next().unwrap();
        Duration::from_secs(part()) + Duration::from_micros(part())
    }

    /// All keys except the token floors.
    pub(super) async fn keys(&self) -> Vec<String> {
        self.server.leftovers().await.unwrap().keys
    }

    /// Waits until the server has run scripts this often since its counters were reset.
    pub(super) async fn until_scripts_called(&self, times: u64) {
        eventually("enough scripts", async || self.server.calls_of("evalsha").await.unwrap() >= times).await;
    }

    /// Waits until no key is left. The keys of a dead process may take some time to go.
    pub(super) async fn until_nothing_is_left(&self) {
        let ask = async || {
            let left = self.keys().await;
            if left.is_empty() { Ok(()) } else { Err(format!("{left:?} is left behind")) }
        };
        retried(ask).await;
    }

    /// Shuts the stores down, and checks that they leave no keys, subscriptions, connections or tasks.
    pub(super) async fn end(self) {
        self.end_behind(()).await;
    }

    /// [`World::end`] for stores that reach the server through `way`, which goes once they are shut down.
    pub(super) async fn end_behind(self, way: impl Sized) {
        conformance::end(self.ending, &self.server, way).await;
    }
}

/// A store that the end of the test shuts down.
pub(super) fn opened(redis: &Redis) -> Arc<RedisStore> {
    conformance::opened(RedisStore::open(redis))
}

pub(super) async fn connected(redis: &Redis) -> Arc<RedisStore> {
    let store = opened(redis);
    until("a connection", || store.is_up()).await;
    store
}
