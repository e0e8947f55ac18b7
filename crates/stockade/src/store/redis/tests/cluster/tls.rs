use std::{slice, sync::Arc, time::Duration};

use stockade_testbed::{Certificates, RedisCluster};

use super::{Cluster, connected, granted, keys_on, neighbour, waiting};
use crate::{
    redis::{Redis, TlsOptions, retried},
    store::{
        LockStore, Ownership, Released,
        redis::{
            RedisStore,
            tests::{until, until_waiting, write},
        },
    },
};

/// Renews until the store answers. Meanwhile it leaves one node and connects to another.
async fn renew(store: &RedisStore, held: &Arc<Ownership>) {
    retried(async || store.renew(slice::from_ref(held)).await).await;
}

/// Every connection uses TLS, and a client learns the new node of a slot over TLS only.
#[tokio::test]
async fn locks_over_tls_follow_their_slot_over_a_migration_and_a_failover() {
    let certificates = Certificates::new().unwrap();
    let cluster = Cluster::of(RedisCluster::builder().password("s3cret").mutual_tls(&certificates)).await;
    let options = TlsOptions::mutual(&certificates);
    // Handshakes are slow in a debug build.
    let redis = Redis::builder(cluster.nodes.url()).tls(options).command_timeout(Duration::from_secs(2));
    let redis = redis.connect().await.unwrap();
    let (holder, other) = (connected(&redis).await, connected(&redis).await);
    let key = keys_on(0).next().unwrap();
    let slot = key.bucket().slot();
    let held = holder.acquire(write(&key)).await.unwrap();
    let kept = holder.acquire(write(&neighbour(&key))).await.unwrap();
    let waiter = waiting(&other, write(&key));
    until_waiting(&holder, &key, 1).await;

    let to = cluster.primary(1);
    cluster.nodes.migrate(slot, to).await.unwrap();
    holder.release_detached(Arc::clone(&held));
    let next = granted(waiter).await;
    assert!(next.token > held.token);
    renew(&other, &next).await;
    renew(&holder, &kept).await;

    let before = next.deadline();
    let place = other.inner.shard(&key).unwrap().node.clone();
    cluster.nodes.failover(slot).await.unwrap();
    let moved = || other.inner.shard(&key).is_ok_and(|shard| shard.node != place && shard.link.is_up());
    until("a connection to the new primary", moved).await;
    renew(&other, &next).await;
    renew(&holder, &kept).await;
    assert!(kept.loss().is_none() && next.loss().is_none() && next.deadline() > before);
    assert_eq!(other.release(&next).await.unwrap(), Released::Released);
    assert_eq!(holder.release(&kept).await.unwrap(), Released::Released);
    cluster.end().await;
}
