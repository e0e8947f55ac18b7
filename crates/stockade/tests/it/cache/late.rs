//! Callers that come while a load runs, and know of a write that it does not hold.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use stockade::{Cache, Redis};
use stockade_testbed::{Fault, Proxy};
use tokio::task::JoinSet;

use super::support::{Database, Loading, caught_up, eventually, get, process, quantity, reading, sku, stored};
use crate::world::World;

#[tokio::test]
async fn a_reader_that_came_after_a_write_does_not_take_the_load_that_began_before_it() {
    let server = World::start().await;
    let database = Database::with(&[("a", 0)]);
    let stocks = process(&server).await.on(&database).await;
    // Another process writes, so that this one's flight is not detached by its own invalidation.
    let writer = process(&server).await.on(&database).await;

    let gate = database.shut();
    let mut early = JoinSet::new();
    reading(&mut early, &stocks, "a");
    database.queried().await;
    database.write("a", Some(1));
    writer.invalidate(&sku("a")).await.unwrap();
    let mut late = JoinSet::new();
    for _ in 0..50 {
        reading(&mut late, &stocks, "a");
    }
    database.open();
    caught_up(&stocks).await;
    gate.add_permits(1);
    early.join_next().await.unwrap().unwrap().unwrap();
    while let Some(found) = late.join_next().await {
        assert_eq!(quantity(&found.unwrap().unwrap()), Some(1));
    }
    assert_eq!(database.loads(), 3, "one of theirs beside the first, and that of what was read to catch up");
    server.end().await;
}

#[tokio::test]
async fn a_reader_that_came_after_a_write_does_not_join_a_fill_under_way() {
    let server = World::start().await;
    let proxy = Proxy::start(server.addr()).await.unwrap();
    let database = Database::with(&[("a", 0)]);
    let far = Redis::builder(proxy.url_for(&server.url())).command_timeout(Duration::from_secs(5));
    let far = Cache::builder(&far.connect().await.unwrap().namespace("shop")).on(&database).await;
    let writer = process(&server).await.on(&database).await;

    let gate = database.shut();
    let mut early = JoinSet::new();
    reading(&mut early, &far, "a");
    database.queried().await;
    database.open();
    proxy.set(Fault::Delay(Duration::from_millis(400)));
    gate.add_permits(1);
    eventually("the fill has arrived", || async { stored(&server, "a").await }).await;
    // Its reply is still on the way.
    database.write("a", Some(1));
    writer.invalidate(&sku("a")).await.unwrap();
    assert!(!early.is_empty());
    assert_eq!(quantity(&get(&far, "a").await), Some(1));
    early.join_next().await.unwrap().unwrap().unwrap();
    server.end_behind(proxy).await;
}

#[tokio::test]
async fn no_load_is_joined_whose_fill_is_on_its_way() {
    const KEYS: usize = 8;
    let server = World::start().await;
    let database = Arc::new(Database::default());
    let patient = Redis::builder(server.url()).command_timeout(Duration::from_secs(20));
    let stocks =
        Cache::builder(&patient.connect().await.unwrap().namespace("shop")).max_loads(KEYS).on(&database).await;
    let gate = database.shut();
    let mut readers = JoinSet::new();
    for number in 0..KEYS {
        reading(&mut readers, &stocks, &number.to_string());
    }
    eventually("all load", || async { database.running.load(Ordering::SeqCst) == KEYS }).await;
    assert_eq!(stocks.stats().fetching, KEYS);
    // What they send from here on lies before a server that does not answer.
    server.pause().unwrap();
    gate.add_permits(KEYS);
    eventually("nobody can join them", || async { stocks.stats().fetching == 0 }).await;
    assert!(readers.try_join_next().is_none(), "a fill was answered");
    server.resume().unwrap();
    while let Some(found) = readers.join_next().await {
        assert!(found.unwrap().unwrap().info.stored);
    }
    server.end().await;
}
