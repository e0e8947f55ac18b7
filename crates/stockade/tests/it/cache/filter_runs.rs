//! The filter of existing ids when the server is replaced by one that lacks its newest bits, and replaced again.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use futures_util::{StreamExt, stream};
use stockade::{Redis, cache::Bloom};
use stockade_testbed::RedisServer;
use tokio::sync::Semaphore;

use super::{
    bloom::{ids, rationed},
    support::{Sku, eventually, sku},
};
use crate::world::{Group, World, attended};

/// The name of a server's run: its process, and its data since the last promotion.
async fn run_of(server: &RedisServer) -> String {
    let info = server.command(&["INFO"]).await.unwrap();
    let field = |name| info.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim();
    format!("{}-{}", field("run_id:"), field("master_replid:"))
}

/// A field of the filter's state.
async fn state(server: &RedisServer, field: &str) -> String {
    let key = server.command(&["KEYS", "*}b:stock"]).await.unwrap();
    if key.is_empty() { key } else { server.command(&["HGET", &key, field]).await.unwrap() }
}

#[tokio::test]
async fn a_filter_whose_server_comes_back_without_its_newest_bits_is_not_believed() {
    let group = Group::start().await;
    let (bloom, gate) = rationed(&group.url()).await;
    let first = group.primary().await.unwrap();
    let completed_under = state(first, "run").await;
    assert_eq!(completed_under, run_of(first).await);
    group.until_settled().await.unwrap();
    for server in group.servers() {
        eventually("the filter is replicated", || async { state(server, "run").await == completed_under }).await;
    }

    // The newest bits of the filter are lost with the first server. It is frozen, so it stays the same process.
    group.cut_replication().await.unwrap();
    bloom.add(&[sku("new")]).await.unwrap();
    first.pause().unwrap();
    let second = group.until_promoted_after(first).await.unwrap();
    eventually("the filter is asked at the second server", || async { bloom.add(&[sku("later")]).await.is_ok() }).await;
    assert!(bloom.may_hold(&sku("new")).await, "an acknowledged id is answered as absent by the second server");

    // The first server comes back as the same process, with the data of the second.
    first.resume().unwrap();
    group.mend_replication().await.unwrap();
    let third = group.servers().iter().find(|server| *server != first && *server != second).unwrap();
    third.kill().await.unwrap();
    group.until_settled().await.unwrap();
    assert_eq!(group.switch_over().await.unwrap(), first);
    let process = |run: &str| run.split_once('-').unwrap().0.to_owned();
    assert_eq!(process(&run_of(first).await), process(&completed_under));
    eventually("the filter is asked at the first server", || async { bloom.add(&[sku("last")]).await.is_ok() }).await;
    assert!(bloom.may_hold(&sku("new")).await, "an acknowledged id is answered as absent by the first server");
    gate.add_permits(10);
    eventually("it is built again", || async { !bloom.may_hold(&sku("none")).await }).await;
    group.end().await;
}

#[tokio::test]
async fn a_filter_whose_building_outlived_its_server_is_not_completed() {
    let server = World::start().await;
    let (gate, begun) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
    let (waits, counted) = (Arc::clone(&gate), Arc::clone(&begun));
    let source = move || {
        counted.fetch_add(1, Ordering::SeqCst);
        let waits = Arc::clone(&waits);
        ids(0..10).chain(stream::once(async move {
            waits.acquire().await.unwrap().forget();
            Ok(sku("last"))
        }))
    };
    let redis = Redis::connect(server.url()).await.unwrap().namespace("shop");
    let bloom = attended(Bloom::builder::<Sku>(&redis).expected(2000).source(source).build());
    eventually("it is being built", || async { begun.load(Ordering::SeqCst) > 0 }).await;
    let first = run_of(&server).await;
    server.command(&["SAVE"]).await.unwrap();
    // This id is added to the filter that is being built, acknowledged, and lost with the server.
    bloom.add(&[sku("new")]).await.unwrap();
    server.restart().await.unwrap();
    eventually("connected again", || async { bloom.add(&[sku("other")]).await.is_ok() }).await;
    assert_ne!(state(&server, "size").await, "", "the snapshot was not read");

    gate.add_permits(1);
    eventually("it is being built anew", || async { begun.load(Ordering::SeqCst) > 1 }).await;
    assert_ne!(state(&server, "run").await, first, "should that server come back, a filter without an id is believed");
    assert!(bloom.may_hold(&sku("new")).await, "an acknowledged id is answered as absent");
    gate.add_permits(10);
    eventually("it is complete", || async { bloom.stats().ready }).await;
    assert_eq!(state(&server, "run").await, run_of(&server).await);
    server.end().await;
}
