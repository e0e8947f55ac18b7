//! Loads that a caller requests although there is a value.

use std::{
    pin::pin,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures_util::{FutureExt, future::join_all};
use stockade::{
    Cache,
    cache::{CacheError, Source},
};
use tokio::sync::Semaphore;

use super::support::{
    Database, Loading, Reads, Stocks, ended, entry_key, eventually, get, held_load, process, quantity, signed_up, sku,
    stored,
};
use crate::world::World;

fn reloading(reads: &mut Reads, stocks: &Stocks) {
    let stocks = stocks.clone();
    reads.spawn(async move { stocks.reload(&sku("a")).await });
}

/// Begins a reload that has read its row, and waits for a permit.
async fn held(database: &Database, stocks: &Stocks) -> (Arc<Semaphore>, Reads) {
    let gate = database.shut();
    let mut reads = Reads::new();
    reloading(&mut reads, stocks);
    database.queried().await;
    (gate, reads)
}

#[tokio::test]
async fn the_old_value_is_served_until_the_new_one_takes_its_place() {
    let server = World::start().await;
    let database = Database::with(&[("a", 7)]);
    let (stocks, other) = (process(&server).await.on(&database).await, process(&server).await.on(&database).await);
    get(&stocks, "a").await;
    // This write is not told to the cache.
    database.write("a", Some(8));
    let (gate, mut tasks) = held(&database, &stocks).await;
    for reader in [&stocks, &other] {
        let found = get(reader, "a").await;
        assert_eq!((quantity(&found), found.info.source), (Some(7), Source::Redis));
    }
    gate.add_permits(1);
    let found = ended(&mut tasks).await;
    assert_eq!((quantity(&found), found.info.source), (Some(8), Source::Load));
    assert!(found.info.forced && found.info.stored && !found.info.collapsed, "{:?}", found.info);
    for reader in [&stocks, &other] {
        let found = get(reader, "a").await;
        assert_eq!((quantity(&found), found.info.source, found.info.forced), (Some(8), Source::Redis, false));
    }
    assert_eq!((database.loads(), stocks.stats().load), (2, 2));
    server.end().await;
}

#[tokio::test]
async fn calls_that_come_while_a_load_runs_share_the_next_one() {
    let server = World::start().await;
    for stocks in [process(&server).await, Cache::memory()] {
        let database = Database::with(&[("a", 7)]);
        let stocks = stocks.on(&database).await;
        get(&stocks, "a").await;
        let (gate, mut tasks) = held(&database, &stocks).await;
        // The load has read the row before this write. A caller that comes now may know of the write.
        database.write("a", Some(8));
        let key = sku("a");
        let mut late = pin!(join_all((0..20).map(|_| stocks.reload(&key))));
        assert!(late.as_mut().now_or_never().is_none());
        gate.add_permits(2);
        let late = late.await;
        assert_eq!(quantity(&ended(&mut tasks).await), Some(7));
        assert!(late.iter().all(|found| quantity(found.as_ref().unwrap()) == Some(8)), "{late:?}");
        let shared = late.iter().filter(|found| found.as_ref().unwrap().info.collapsed).count();
        assert_eq!((shared, database.loads(), database.most_running.load(Ordering::SeqCst)), (19, 3, 1));
        assert_eq!(quantity(&get(&stocks, "a").await), Some(8));
    }
    server.end().await;
}

#[tokio::test]
async fn a_load_of_another_process_is_waited_for_and_not_taken() {
    let server = World::start().await;
    let database = Database::with(&[("a", 7)]);
    let (stocks, other) = (process(&server).await.on(&database).await, process(&server).await.on(&database).await);
    let (gate, mut tasks) = held_load(&database, &other, "a").await;
    database.write("a", Some(8));
    let mut reloads = Reads::new();
    reloading(&mut reloads, &stocks);
    signed_up(&server, "a").await;
    assert_eq!(database.loads(), 1);
    gate.add_permits(2);
    assert_eq!(quantity(&ended(&mut tasks).await), Some(7));
    let found = ended(&mut reloads).await;
    assert_eq!((quantity(&found), found.info.source, found.info.stored), (Some(8), Source::Load, true));
    assert_eq!((quantity(&get(&other, "a").await), database.loads()), (Some(8), 2));
    server.end().await;
}

#[tokio::test]
async fn a_load_that_a_write_overtakes_is_not_stored() {
    let server = World::start().await;
    let database = Database::with(&[("a", 7)]);
    let stocks = process(&server).await.on(&database).await;
    get(&stocks, "a").await;
    let (gate, mut tasks) = held(&database, &stocks).await;
    database.write("a", Some(8));
    process(&server).await.on(&database).await.invalidate(&sku("a")).await.unwrap();
    gate.add_permits(2);
    assert!(!ended(&mut tasks).await.info.stored);
    assert!(!stored(&server, "a").await);
    assert_eq!(stocks.stats().fill_rejected, 1);
    assert_eq!(quantity(&get(&stocks, "a").await), Some(8));

    // While a writer commits, no lease is given.
    let intents = entry_key(&server, "a").await.replace("}e:", "}i:");
    database.open();
    server.command(&["HSET", &intents, "writer", "777 1700000000000000"]).await.unwrap();
    let found = stocks.reload(&sku("a")).await.unwrap();
    assert_eq!((quantity(&found), found.info.stored, found.info.degraded), (Some(8), false, false));
    server.command(&["DEL", &intents]).await.unwrap();
    server.end().await;
}

#[tokio::test]
async fn it_stays_within_the_limits_and_its_failure_leaves_the_old_value() {
    let server = World::start().await;
    let database = Database::with(&[("a", 7)]);
    let stocks = process(&server).await.on(&database).await;
    get(&stocks, "a").await;
    database.down(true);
    assert!(matches!(stocks.reload(&sku("a")).await, Err(CacheError::Load(_))));
    let found = get(&stocks, "a").await;
    assert_eq!((quantity(&found), found.info.source, found.info.stale), (Some(7), Source::Redis, None));
    // A key that keeps failing is left alone for a while.
    assert!(matches!(stocks.reload(&sku("a")).await, Err(CacheError::Load(_))));
    let before = database.loads();
    assert!(matches!(stocks.reload(&sku("a")).await, Err(CacheError::HeldOff { .. })));
    assert_eq!((database.loads(), get(&stocks, "a").await.info.source), (before, Source::Redis));
    database.down(false);
    eventually("it recovers", || async { stocks.reload(&sku("a")).await.is_ok_and(|found| found.info.stored) }).await;

    server.kill().await.unwrap();
    database.write("a", Some(8));
    let found = stocks.reload(&sku("a")).await.unwrap();
    assert_eq!((quantity(&found), found.info.degraded, found.info.stored), (Some(8), true, false));
    stocks.shutdown(Duration::ZERO).await;
    assert!(matches!(stocks.reload(&sku("a")).await, Err(CacheError::ShuttingDown)));
    let empty = stocks.reload(&sku("")).await;
    assert!(matches!(empty, Err(CacheError::Key(_))), "{empty:?}");
    server.end().await;
}
