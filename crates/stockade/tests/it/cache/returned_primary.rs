//! A primary that followed its successor for a while and is the primary again, in the same process as before. It has
//! the data of its successor, which lacked its last writes.

use stockade_testbed::{Fault, Proxy, RedisServer};

use super::{
    bloom::rationed,
    support::{eventually, sku},
};

pub(crate) struct Pair {
    pub(crate) first: RedisServer,
    second: RedisServer,
    proxy: Proxy,
}

impl Pair {
    pub(crate) async fn start() -> Self {
        let (first, second) = (RedisServer::start().await.unwrap(), RedisServer::start().await.unwrap());
        let proxy = Proxy::start(first.addr()).await.unwrap();
        let pair = Self { first, second, proxy };
        follow(&pair.second, &pair.first).await;
        pair
    }

    pub(crate) fn url(&self) -> String {
        self.proxy.url_for(&self.first.url())
    }

    /// The second server takes over all writes of the first so far. It lacks the writes from here on.
    pub(crate) async fn part(&self) {
        caught_up(&self.second, &self.first).await;
        self.second.command(&["REPLICAOF", "NO", "ONE"]).await.unwrap();
    }

    /// The second server takes over and the first follows it, then the other way round. No client sees any of this.
    pub(crate) async fn change_places_twice(&self) {
        self.proxy.set(Fault::Reset);
        follow(&self.first, &self.second).await;
        self.first.command(&["REPLICAOF", "NO", "ONE"]).await.unwrap();
        self.proxy.set(Fault::None);
    }
}

/// Returns when `replica` has all that `primary` had.
async fn follow(replica: &RedisServer, primary: &RedisServer) {
    let (host, port) = (primary.addr().ip().to_string(), primary.port().to_string());
    replica.command(&["REPLICAOF", &host, &port]).await.unwrap();
    eventually("it follows", || async {
        replica.command(&["INFO", "replication"]).await.unwrap().contains("master_link_status:up")
    })
    .await;
    caught_up(replica, primary).await;
}

/// Returns when `replica` has all that `primary` has now.
async fn caught_up(replica: &RedisServer, primary: &RedisServer) {
    let sent = offset(primary, "master_repl_offset:").await;
    eventually("it has caught up", || async { offset(replica, "slave_repl_offset:").await >= sent }).await;
}

async fn offset(server: &RedisServer, name: &str) -> u64 {
    let replication = server.command(&["INFO", "replication"]).await.unwrap();
    replication.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().parse().unwrap()
}

#[tokio::test]
async fn a_filter_on_a_primary_that_returned_without_its_newest_bits_is_not_believed() {
    let pair = Pair::start().await;
    let (bloom, _gate) = rationed(&pair.url()).await;
    pair.part().await;
    bloom.add(&[sku("new")]).await.unwrap();
    pair.change_places_twice().await;
    eventually("the filter is asked again", || async { bloom.add(&[sku("last")]).await.is_ok() }).await;
    assert!(bloom.may_hold(&sku("new")).await, "an acknowledged id is answered as absent");
}
