//! The reason why a server can't be used reaches the attempts that want a lock.

use tokio::time::timeout;

use super::{LIMIT, World, key, opened, until, write};
use crate::{
    redis::{Redis, retried},
    store::{LockError, LockStore, Mode, Unavailable, conformance::once},
};

/// Asks until the store says why there is no connection.
async fn told(store: &super::RedisStore) -> String {
    let ask = async || match store.acquire(once(&key("unfit"), Mode::Write)).await {
        Err(error @ LockError::Unavailable { reason: Unavailable::Unfit { .. }, .. }) => Ok(error.to_string()),
        other => Err(format!("{other:?}")),
    };
    retried(ask).await
}

#[tokio::test]
async fn a_primary_that_is_made_a_replica_is_named_and_used_again_once_it_is_promoted() {
    let world = World::start().await;
    let store = world.store().await;
    world.command(&["REPLICAOF", "127.0.0.1", "1"]).await;
    assert!(told(&store).await.contains("replica of 127.0.0.1:1"));
    // Refusals of the breaker have the same reason.
    let refusing = async {
        while store.refusing(&key("unfit")).is_none() {
            told(&store).await;
        }
    };
    timeout(LIMIT, refusing).await.expect("the breaker never opened");
    assert!(told(&store).await.contains("replica of 127.0.0.1:1"));
    assert!(store.list(1).await.unwrap_err().to_string().contains("replica of 127.0.0.1:1"));
    world.command(&["REPLICAOF", "NO", "ONE"]).await;
    until("a connection", || store.is_up()).await;
    let held = store.acquire(write(&key("unfit"))).await.unwrap();
    store.release(&held).await.unwrap();
    world.end().await;
}

#[tokio::test]
async fn a_single_server_that_appears_where_a_cluster_is_expected_is_named() {
    let world = World::start().await;
    world.server.kill().await.unwrap();
    let url = world.server.url().replace("redis://", "redis-cluster://");
    let store = opened(&Redis::connect(url).await.unwrap());
    world.server.restart().await.unwrap();
    let told = told(&store).await;
    assert!(told.contains("cluster support disabled"), "{told}");
    world.end().await;
}
