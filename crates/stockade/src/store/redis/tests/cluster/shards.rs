use std::{convert::Infallible, slice, time::Duration};

use stockade_testbed::{Fault, Proxy, RedisCluster, RedisServer};
use tokio::time::{Instant, timeout};

use super::{Cluster, granted, key_on, waiting};
use crate::{
    cache::{BuildError, Cache},
    redis::{Redis, retried},
    resource::Sku,
    store::{
        Attempt, LockStore,
        redis::tests::{connected, declared, patient, read, until_waiting, write},
    },
};

#[tokio::test]
async fn a_frozen_node_does_not_hinder_the_locks_of_others() {
    // By default nodes refuse everything while one of them is down.
    let builder = RedisCluster::builder().without_replicas().arg("--cluster-require-full-coverage").arg("no");
    let cluster = Cluster::of(builder).await;
    let (store, other) = (cluster.store().await, cluster.store().await);
    let [frozen, well, too] = [key_on(0), key_on(1), key_on(2)];
    let mut held = Vec::new();
    for key in [&frozen, &well, &too] {
        held.push(store.acquire(write(key)).await.unwrap());
    }
    let waiter = waiting(&other, write(&well));
    until_waiting(&store, &well, 1).await;
    cluster.primary(0).pause().unwrap();
    for _ in 0..5 {
        let attempt = Attempt { wait: Duration::ZERO, ..write(&frozen) };
        assert!(store.acquire(attempt).await.is_err());
    }
    assert!(store.refusing(&frozen).is_some() && store.refusing(&well).is_none() && !store.is_up());
    // One call renews all. The frozen node does not delay the others.
    let before: Vec<_> = held.iter().map(|held| held.deadline()).collect();
    assert!(store.renew(&held).await.is_err());
    assert!(held[1].deadline() > before[1] && held[2].deadline() > before[2]);
    let since = Instant::now();
    store.release(&held[1]).await.unwrap();
    let next = timeout(Duration::from_secs(1), granted(waiter)).await.expect("not handed over");
    other.release(&next).await.unwrap();
    store.release(&held[2]).await.unwrap();
    assert!(since.elapsed() < Duration::from_secs(2), "{:?}", since.elapsed());
    cluster.primary(0).resume().unwrap();
    retried(async || store.renew(slice::from_ref(&held[0])).await).await;
    assert!(held[0].loss().is_none());
    retried(async || store.release(&held[0]).await).await;
    cluster.end().await;
}

#[tokio::test]
async fn nodes_are_found_although_the_questions_take_longer_than_a_command() {
    let cluster = Cluster::start().await;
    let proxy = Proxy::start(cluster.primary(0).addr()).await.unwrap();
    proxy.set(Fault::Delay(Duration::from_millis(100)));
    let redis = Redis::connect(format!("redis-cluster://{}", proxy.addr())).await.unwrap();
    connected(&redis).await;
    cluster.end_behind(proxy).await;
}

#[tokio::test]
async fn nodes_are_found_beside_one_that_does_not_answer() {
    let cluster = Cluster::start().await;
    let proxy = Proxy::start(cluster.primary(0).addr()).await.unwrap();
    proxy.set(Fault::Hole);
    let url = format!("redis-cluster://{},{}", proxy.addr(), cluster.primary(1).addr());
    let mut quickest = Duration::MAX;
    for _ in 0..3 {
        let redis = Redis::connect(&url).await.unwrap();
        let since = Instant::now();
        connected(&redis).await;
        quickest = quickest.min(since.elapsed());
    }
    assert!(quickest < Duration::from_secs(1), "{quickest:?}");
    cluster.end_behind(proxy).await;
}

/// For instance a node that has lost its volume, or that was removed from the cluster.
#[tokio::test]
async fn nodes_are_found_behind_one_that_belongs_to_no_cluster() {
    let cluster = Cluster::start().await;
    let alone = RedisServer::builder().cluster_node().start().await.unwrap();
    let url = format!("redis-cluster://{},{}", alone.addr(), cluster.primary(1).addr());
    connected(&Redis::connect(&url).await.unwrap()).await;
    cluster.end().await;
}

#[tokio::test]
async fn scripts_are_told_all_keys_of_a_resource() {
    let cluster = Cluster::start().await;
    let store = cluster.store().await;
    let attempt = write(&key_on(0));
    let held = store.acquire(attempt.clone()).await.unwrap();
    assert_eq!(declared(&store, &attempt), [6, 6]);
    store.release(&held).await.unwrap();
    cluster.end().await;
}

#[tokio::test]
async fn a_listing_covers_every_primary() {
    let cluster = Cluster::of(RedisCluster::builder().without_replicas().password("s3cret")).await;
    let (store, other) = (cluster.store().await, cluster.store().await);
    let mut names = Vec::new();
    let mut held = Vec::new();
    for node in 0..3 {
        held.push(store.acquire(write(&key_on(node))).await.unwrap());
        names.push(key_on(node).to_string());
    }
    names.sort();
    assert_eq!(other.list(100).await.unwrap(), names);
    for held in &held {
        store.release(held).await.unwrap();
    }
    cluster.end().await;
}

#[tokio::test]
async fn a_user_who_may_do_what_is_documented_locks_on_every_node() {
    const DOCUMENTED: &str = include_str!("../../../../redis/access.md");
    let rules = DOCUMENTED.lines().find_map(|line| line.strip_prefix("user locks-on-cluster ")).unwrap();
    let cluster = Cluster::start().await;
    for node in cluster.nodes.nodes() {
        let words: Vec<_> = ["ACL", "SETUSER", "somebody", "reset"].into_iter().chain(rules.split(' ')).collect();
        node.command(&words).await.unwrap();
    }
    let url = cluster.nodes.url().replace("redis-cluster://", "redis-cluster://somebody:password@");
    let redis = patient(&url).await;
    let (holder, other) = (connected(&redis).await, connected(&redis).await);
    for key in [0, 1, 2].map(key_on) {
        let held = holder.acquire(read(&key)).await.unwrap();
        let writer = waiting(&other, write(&key));
        until_waiting(&holder, &key, 1).await;
        let reader = waiting(&holder, read(&key));
        until_waiting(&holder, &key, 2).await;
        holder.renew(slice::from_ref(&held)).await.unwrap();
        holder.release(&held).await.unwrap();
        other.release(&granted(writer).await).await.unwrap();
        holder.release(&granted(reader).await).await.unwrap();
    }
    assert!(other.list(10).await.unwrap().is_empty());
    for node in cluster.nodes.nodes() {
        assert_eq!(node.command(&["ACL", "LOG"]).await.unwrap(), "");
    }
    cluster.end().await;
}

#[tokio::test]
async fn a_cache_on_a_cluster_is_refused() {
    // The address names a cluster, so no server is asked.
    let redis = Redis::connect("redis-cluster://127.0.0.1:1").await.unwrap();
    let cache = Cache::<Sku, u32>::builder(&redis).loader(|_| async { Ok::<_, Infallible>(None) });
    assert_eq!(cache.try_build().unwrap_err(), BuildError::Cluster("stock"));
}
