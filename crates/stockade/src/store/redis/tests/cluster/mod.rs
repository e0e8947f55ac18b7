//! The store against a real cluster.

mod bystanders;
mod failover;
mod handing_over;
mod late;
mod migration;
mod multi;
mod shards;
mod suite;
#[cfg(feature = "tls")]
mod tls;

use std::{net::SocketAddr, sync::Arc};

use stockade_testbed::{ClusterBuilder, RedisCluster, RedisServer};

use super::{granted, neighbour, until, waiting, world::connected};
use crate::{
    redis::{Redis, eventually},
    resource::Key,
    store::{
        conformance::{self, Ending},
        redis::RedisStore,
    },
};

struct Cluster {
    nodes: RedisCluster,
    ending: Ending,
}

impl Cluster {
    /// Three primaries, for tests in which none fails.
    async fn start() -> Self {
        Self::of(RedisCluster::builder().without_replicas()).await
    }

    async fn of(builder: ClusterBuilder) -> Self {
        Self { nodes: builder.start().await.unwrap(), ending: Ending::due() }
    }

    async fn redis(&self) -> Redis {
        Redis::connect(self.nodes.url()).await.unwrap()
    }

    /// A store, as another process would have it, that is connected to each node with buckets. Otherwise a store
    /// connects to a node when it first needs it, within the command timeout, which a busy machine may exceed.
    async fn store(&self) -> Arc<RedisStore> {
        let store = connected(&self.redis().await).await;
        let shards = &store.inner.shards;
        let is_up = |primary| shards.of(key_on(primary).bucket()).is_some_and(|shard| shard.link.is_up());
        until("a connection to each node", || (0..3).all(is_up)).await;
        store
    }

    fn primary(&self, number: usize) -> &RedisServer {
        &self.nodes.nodes()[number]
    }

    /// Makes the node announce this address. Clients that know the node already keep its old address.
    async fn announce(&self, node: usize, at: SocketAddr) {
        let port = at.port().to_string();
        self.primary(node).command(&["CONFIG", "SET", "cluster-announce-port", &port]).await.unwrap();
        for other in self.nodes.nodes() {
            let nodes = async || other.command(&["CLUSTER", "NODES"]).await.unwrap();
            eventually("the address", async || nodes().await.contains(&format!(":{port}@"))).await;
        }
    }

    /// How often the nodes that run have executed a command since their statistics were reset.
    async fn calls_of(&self, command: &str) -> u64 {
        self.count_of(command, "calls").await
    }

    async fn count_of(&self, command: &str, count: &str) -> u64 {
        let mut sum = 0;
        for node in self.nodes.nodes() {
            let stats = node.command(&["INFO", "commandstats"]).await.unwrap();
            let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:")));
            let counts = line.into_iter().flat_map(|line| line.split(','));
            let found = counts.filter_map(|field| field.split_once('=')).find(|(name, _)| *name == count);
            sum += found.map_or(0, |(_, value)| value.parse::<u64>().unwrap());
        }
        sum
    }

    /// Waits until nodes have redirected clients with a script this often since their statistics were reset, as they do
    /// while a slot moves.
    async fn until_scripts_refused(&self, times: u64) {
        eventually("redirections", async || self.count_of("evalsha", "rejected_calls").await >= times).await;
    }

    async fn reset_stats(&self) {
        for node in self.nodes.nodes() {
            node.command(&["CONFIG", "RESETSTAT"]).await.unwrap();
        }
    }

    /// Shuts the stores down, and checks that they leave no keys, subscriptions, connections or tasks.
    async fn end(self) {
        self.end_behind(()).await;
    }

    /// [`Cluster::end`] for stores that reach nodes through `way`, which goes once they are shut down.
    async fn end_behind(self, way: impl Sized) {
        conformance::end(self.ending, &self.nodes, way).await;
    }
}

/// Resources of buckets that differ, all on this one of the three primaries at the start.
fn keys_on(primary: usize) -> impl Iterator<Item = Key> {
    let mut seen = std::collections::HashSet::new();
    let all = (0..).map(move |number: u32| super::key(&format!("on{primary}-{number}")));
    all.filter(move |key| usize::from(key.bucket().slot()) * 3 / 16_384 == primary && seen.insert(key.bucket()))
}

fn key_on(primary: usize) -> Key {
    keys_on(primary).next().unwrap()
}
