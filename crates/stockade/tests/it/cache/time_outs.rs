//! Readers that do not wait for the end of a load, and loads that end when no reader waits any more.

use std::{pin::pin, sync::atomic::Ordering, time::Duration};

use futures_util::FutureExt;
use stockade::{
    Cache,
    cache::{BuildError, CacheBuilder, CacheError, Source},
};
use tokio::time::{Instant, timeout};

use super::support::{
    Database, Loading, Sku, Stock, Stocks, eventually, get, one_read, patient, quantity, sku, stored,
};
use crate::world::World;

const TTL: Duration = Duration::from_millis(50);
const SOFT: Duration = Duration::from_secs(1);
const HARD: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_secs(60);

/// Values that expire almost at once and have a long grace, and loads that may take as long as the grace.
fn expiring(builder: CacheBuilder<Sku, Stock>) -> CacheBuilder<Sku, Stock> {
    builder.ttl(TTL..=TTL).grace(LONG).early_refresh(0.0).load_timeout(LONG)
}

/// Loads a value, and waits until it has expired.
async fn expire(stocks: &Stocks, id: &str) {
    get(stocks, id).await;
    tokio::time::sleep(TTL).await;
}

#[tokio::test]
async fn after_the_soft_time_out_an_expired_value_does_and_the_load_goes_on() {
    let server = World::start().await;
    for builder in [patient(&server.url()).await, Cache::memory()] {
        let database = Database::with(&[("a", 7), ("b", 1)]);
        let stocks = expiring(builder).soft_timeout(SOFT).on(&database).await;
        expire(&stocks, "a").await;
        // This write is not told to the cache.
        database.write("a", Some(8));
        let gate = database.shut();
        let began = Instant::now();
        let found = timeout(LONG, get(&stocks, "a")).await.expect("it waits for the load");
        assert!(began.elapsed() >= SOFT, "it did not wait");
        assert!(quantity(&found) == Some(7) && found.info.stale.is_some() && !found.info.degraded, "{:?}", found.info);
        // A later reader does not wait again. A reader without an expired value waits on.
        let again = Instant::now();
        assert_eq!(quantity(&get(&stocks, "a").await), Some(7));
        assert!(again.elapsed() < SOFT, "a load that takes long was waited for once more");
        let mut reads = one_read(&stocks, "b");
        eventually("it is being loaded", || async { database.loads() == 3 }).await;
        let many = stocks.get_many(&["a", "a"].map(sku)).await;
        assert!(many.iter().all(|found| quantity(found.as_ref().unwrap()) == Some(7)));
        assert!(reads.try_join_next().is_none());
        assert_eq!((database.loads(), stocks.stats().stale), (3, 4));
        // The two permits are for the two loads that are held.
        gate.add_permits(2);
        let b = reads.join_next().await.unwrap().unwrap().unwrap();
        assert_eq!((quantity(&b), b.info.source), (Some(1), Source::Load));
        eventually("the load has landed", || async { quantity(&get(&stocks, "a").await) == Some(8) }).await;
        database.open();
        gate.close();
        stocks.shutdown(Duration::ZERO).await;
    }
    server.end().await;
}

/// Both keys are one load, which later calls join.
#[tokio::test]
async fn calls_for_many_keys_do_not_wait_for_a_long_load_once_more() {
    let server = World::start().await;
    let database = Database::with(&[("a", 7), ("b", 8)]);
    let stocks = expiring(patient(&server.url()).await).soft_timeout(SOFT).batching(&database).on(&database).await;
    let keys = ["a", "b"].map(sku);
    assert!(stocks.get_many(&keys).await.iter().all(Result::is_ok));
    tokio::time::sleep(TTL).await;
    let gate = database.shut();
    let stale = async || stocks.get_many(&keys).await.iter().all(|found| found.as_ref().unwrap().info.stale.is_some());
    let began = Instant::now();
    assert!(stale().await && began.elapsed() >= SOFT, "it did not wait");
    let again = Instant::now();
    assert!(stale().await && again.elapsed() < SOFT, "a load that takes long was waited for once more");
    gate.close();
    database.open();
    server.end().await;
}

#[tokio::test]
async fn after_the_hard_time_out_there_is_an_error_and_the_load_lands() {
    let server = World::start().await;
    let database = Database::with(&[("a", 7), ("b", 1)]);
    let stocks = patient(&server.url()).await.hard_timeout(HARD).on(&database).await;
    let gate = database.shut();
    let late = |found: Result<_, CacheError>| matches!(found, Err(CacheError::Timeout(HARD)));
    assert!(late(stocks.get(&sku("a")).await.map(drop)));
    let many = stocks.get_many(&["a", "b"].map(sku)).await;
    assert!(many.into_iter().all(|found| late(found.map(drop))));
    eventually("both are being loaded", || async { database.loads() == 2 }).await;
    gate.add_permits(2);
    for (id, expected) in [("a", 7), ("b", 1)] {
        eventually("its load has landed", || async { stored(&server, id).await }).await;
        let found = get(&stocks, id).await;
        assert_eq!((quantity(&found), found.info.source), (Some(expected), Source::Redis));
    }
    server.end().await;
}

#[tokio::test]
async fn who_has_an_expired_value_gets_it_at_the_hard_time_out_too() {
    let server = World::start().await;
    let database = Database::with(&[("a", 7)]);
    let stocks = expiring(patient(&server.url()).await).hard_timeout(HARD).on(&database).await;
    expire(&stocks, "a").await;
    let gate = database.shut();
    let many = timeout(LONG, stocks.get_many(&["a", "b"].map(sku))).await.expect("it waits for the load");
    assert!(many[0].as_ref().is_ok_and(|found| found.info.stale.is_some()), "{many:?}");
    assert!(matches!(many[1], Err(CacheError::Timeout(HARD))), "{many:?}");
    gate.close();
    database.open();
    server.end().await;
}

#[tokio::test]
async fn a_load_in_the_background_keeps_its_place_and_ends_with_its_cache() {
    let database = Database::with(&[("a", 7), ("b", 1)]);
    let stocks = Cache::memory().load_timeout(LONG).hard_timeout(HARD).max_loads(1).on(&database).await;
    let _gate = database.shut();
    for id in ["a", "b"] {
        assert!(matches!(stocks.get(&sku(id)).await, Err(CacheError::Timeout(HARD))));
    }
    assert_eq!((database.loads(), database.running.load(Ordering::SeqCst)), (1, 1));
    let mut shutdown = pin!(stocks.shutdown(Duration::from_millis(50)));
    assert!(shutdown.as_mut().now_or_never().is_none(), "it waits for the load");
    shutdown.await;
    assert!(stocks.stats().loads_cancelled > 0);
    assert_eq!((database.loads(), database.running.load(Ordering::SeqCst)), (1, 0));
}

#[tokio::test]
async fn time_outs_that_can_not_be_kept_are_refused() {
    let build = |builder: CacheBuilder<Sku, Stock>| match builder.loading(&Database::with(&[])).try_build() {
        Err(BuildError::Setting { setting, .. }) => setting,
        other => panic!("{other:?}"),
    };
    assert_eq!(build(Cache::memory().soft_timeout(Duration::ZERO)), "soft_timeout");
    assert_eq!(build(Cache::memory().hard_timeout(Duration::ZERO)), "hard_timeout");
    assert_eq!(build(Cache::memory().soft_timeout(HARD).hard_timeout(HARD)), "soft_timeout");
    assert_eq!(build(Cache::memory().soft_timeout(SOFT).grace(Duration::ZERO)), "soft_timeout");
}
