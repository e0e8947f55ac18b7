//! After a failed load an expired value is served, and the loader is left alone for a while.

use std::time::Duration;

use stockade::{
    Cache,
    cache::{CacheBuilder, CacheError, Source},
};
use tokio::{task::JoinSet, time::Instant};

use super::support::{
    Bad, Database, Loading, Sku, Stock, Stocks, caught_up, entry_key, eventually, get, held_load, patient, quantity,
    reading, sku, stored,
};
use crate::world::World;

const TTL: Duration = Duration::from_millis(50);
const WINDOW: Duration = Duration::from_millis(400);
const LONG: Duration = Duration::from_secs(60);

/// Values that expire almost at once, with a minute of grace.
fn expiring(builder: CacheBuilder<Sku, Stock>) -> CacheBuilder<Sku, Stock> {
    builder.ttl(TTL..=TTL).grace(LONG).hold_off(WINDOW).early_refresh(0.0)
}

/// Loads these rows and waits until their values have expired.
async fn expire(stocks: &Stocks, ids: &[&str]) {
    for id in ids {
        get(stocks, id).await;
    }
    tokio::time::sleep(TTL).await;
}

/// Five hundred callers at a time, for three windows and a half. Each must be given the expired value, and no window
/// may see more than one load.
async fn crowd(fleet: &[&Stocks], database: &Database) {
    let (before, began) = (database.loads(), Instant::now());
    let noticed = || database.loads() >= before + 2 || began.elapsed() > Duration::from_secs(60);
    while began.elapsed() < WINDOW * 7 / 2 || !noticed() {
        let mut reads = JoinSet::new();
        for number in 0..500 {
            reading(&mut reads, fleet[number % fleet.len()], "a");
        }
        while let Some(found) = reads.join_next().await {
            let found = found.unwrap().unwrap();
            assert_eq!(quantity(&found), Some(7));
            assert!(found.info.stale.is_some(), "{:?}", found.info);
        }
    }
    let loads = database.loads() - before;
    let windows = began.elapsed().as_millis() / WINDOW.as_millis();
    assert!(loads as u128 <= windows + 1, "{loads} loads in {windows} windows");
    assert!(loads >= 2, "the end of a window was not noticed");
}

#[tokio::test]
async fn five_hundred_callers_in_two_processes_make_one_load_per_window() {
    let server = World::start().await;
    let database = Database::with(&[("a", 7)]);
    let one = expiring(patient(&server.url()).await).on(&database).await;
    let two = expiring(patient(&server.url()).await).on(&database).await;
    expire(&one, &["a"]).await;
    database.down(true);
    crowd(&[&one, &two], &database).await;
    server.end().await;
}

#[tokio::test]
async fn a_cache_in_memory_makes_one_load_per_window_too() {
    let database = Database::with(&[("a", 7)]);
    let stocks = expiring(Cache::memory()).on(&database).await;
    expire(&stocks, &["a"]).await;
    database.down(true);
    crowd(&[&stocks], &database).await;
}

#[tokio::test]
async fn a_value_that_only_this_process_kept_is_held_as_well() {
    let server = World::start().await;
    let database = Database::with(&[("a", 7)]);
    let stocks = expiring(patient(&server.url()).await).on(&database).await;
    expire(&stocks, &["a"]).await;
    database.down(true);
    server.command(&["DEL", &entry_key(&server, "a").await]).await.unwrap();
    crowd(&[&stocks], &database).await;
    // A process without an expired value is also held off after these failures.
    let other = expiring(patient(&server.url()).await).on(&database).await;
    eventually("it is held off", || async {
        matches!(other.get(&sku("a")).await, Err(CacheError::HeldOff { retry_after }) if retry_after <= WINDOW)
    })
    .await;
    database.down(false);
    eventually("it is loaded", || async {
        other.get(&sku("a")).await.is_ok_and(|found| found.info.source == Source::Load)
    })
    .await;
    server.end().await;
}

#[tokio::test]
async fn it_recovers_with_the_first_read_after_the_window_and_each_key_has_its_own() {
    let server = World::start().await;
    let database = Database::with(&[("a", 7), ("b", 1)]);
    let stocks = expiring(patient(&server.url()).await).hold_off(Duration::from_secs(2)).on(&database).await;
    expire(&stocks, &["a", "b"]).await;
    database.down(true);
    get(&stocks, "a").await;
    let held_since = Instant::now();
    database.down(false);
    for (id, now) in [("a", 8), ("b", 2)] {
        database.write(id, Some(now));
    }
    let before = database.loads();
    let (a, b) = (get(&stocks, "a").await, get(&stocks, "b").await);
    if held_since.elapsed() < Duration::from_secs(1) {
        assert_eq!((quantity(&a), database.loads()), (Some(7), before + 1), "another key's failure held it off");
    }
    assert_eq!((quantity(&b), b.info.source), (Some(2), Source::Load));
    tokio::time::sleep_until(held_since + Duration::from_secs(2)).await;
    let a = get(&stocks, "a").await;
    assert_eq!((quantity(&a), a.info.source), (Some(8), Source::Load));
    server.end().await;
}

#[tokio::test]
async fn several_keys_at_once_are_held_off_each() {
    let server = World::start().await;
    let database = Database::with(&[("a", 7), ("b", 7)]);
    let builder = expiring(patient(&server.url()).await).hold_off(LONG).batching(&database);
    let stocks = builder.on(&database).await;
    expire(&stocks, &["a", "b"]).await;
    database.down(true);
    let before = database.loads();
    for _ in 0..20 {
        for found in stocks.get_many(&[sku("a"), sku("b")]).await {
            assert_eq!(quantity(&found.unwrap()), Some(7));
        }
    }
    assert_eq!(database.loads(), before + 1);
    // The key that was written may be loaded, and the other is still held off.
    database.down(false);
    database.write("a", Some(8));
    stocks.invalidate(&sku("a")).await.unwrap();
    let found: Vec<_> = stocks.get_many(&[sku("a"), sku("b")]).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(found.iter().map(quantity).collect::<Vec<_>>(), [Some(8), Some(7)]);
    assert!(found[1].info.stale.is_some() && stored(&server, "a").await);
    server.end().await;
}

#[tokio::test]
async fn what_is_past_its_grace_is_loaded_and_held_off_when_that_fails_too() {
    let server = World::start().await;
    let database = Database::with(&[("a", 7)]);
    let builder = expiring(patient(&server.url()).await).grace(Duration::from_secs(1)).hold_off(LONG);
    let stocks = builder.on(&database).await;
    expire(&stocks, &["a"]).await;
    database.down(true);
    assert_eq!(quantity(&get(&stocks, "a").await), Some(7));
    let before = database.loads();
    eventually("its grace ends", || async { matches!(stocks.get(&sku("a")).await, Err(CacheError::Load(_))) }).await;
    assert_eq!(database.loads(), before + 1);
    let refused = stocks.get(&sku("a")).await;
    assert!(matches!(refused, Err(CacheError::HeldOff { retry_after }) if retry_after > LONG / 2), "{refused:?}");
    // A write may have mended the row, so it ends the hold-off.
    database.down(false);
    stocks.invalidate(&sku("a")).await.unwrap();
    assert_eq!(get(&stocks, "a").await.info.source, Source::Load);
    server.end().await;
}

#[tokio::test]
async fn a_load_ahead_of_the_end_that_failed_is_not_repeated_by_each_read() {
    let server = World::start().await;
    let database = Database::with(&[("a", 7)]);
    let ttl = Duration::from_secs(3);
    // With this eagerness each read in the second half of the value's life finds that it is due for a refresh.
    let builder = patient(&server.url()).await.ttl(ttl..=ttl).early_refresh(1e9).hold_off(LONG);
    let stocks = builder.on(&database).await;
    get(&stocks, "a").await;
    database.down(true);
    eventually("it is due", || async {
        get(&stocks, "a").await;
        database.loads() == 2
    })
    .await;
    for _ in 0..200 {
        assert_eq!(quantity(&get(&stocks, "a").await), Some(7));
    }
    assert_eq!(database.loads(), 2);
    server.end().await;
}

#[tokio::test]
async fn who_came_after_a_write_is_not_given_the_value_that_a_failing_load_began_with() {
    let server = World::start().await;
    let database = Database::with(&[("a", 7)]);
    let reader = expiring(patient(&server.url()).await).on(&database).await;
    let writer = patient(&server.url()).await.on(&database).await;
    expire(&reader, &["a"]).await;
    let (gate, mut early) = held_load(&database, &reader, "a").await;
    database.write("a", Some(8));
    writer.invalidate(&sku("a")).await.unwrap();
    // These readers know of the write, and join the load that is held in its query.
    let mut late = JoinSet::new();
    for _ in 0..20 {
        reading(&mut late, &reader, "a");
    }
    database.open();
    caught_up(&reader).await;
    database.down(true);
    gate.add_permits(1);
    assert_eq!(quantity(&early.join_next().await.unwrap().unwrap().unwrap()), Some(7));
    while let Some(found) = late.join_next().await {
        let found = found.unwrap();
        assert!(found.is_err(), "older than the write: {found:?}");
    }
    server.end().await;
}

/// The value from before the clear is still in Redis, where nobody may read it.
#[tokio::test]
async fn a_row_that_fails_after_a_clear_is_held_off_like_any_other() {
    let server = World::start().await;
    let database = Database::with(&[("a", 7)]);
    let stocks = patient(&server.url()).await.hold_off(LONG).early_refresh(0.0).on(&database).await;
    get(&stocks, "a").await;
    stocks.clear().await.unwrap();
    database.spoil("a", Bad::Fails);
    for _ in 0..20 {
        assert!(stocks.get(&sku("a")).await.is_err());
    }
    assert_eq!(database.mend("a"), 2, "loads of a row that fails");
    server.end().await;
}

/// Nobody waits for a refresh, and many of them at once leave the places to those who do.
#[tokio::test]
async fn refreshes_do_not_queue_in_front_of_readers() {
    let server = World::start().await;
    let ids: Vec<_> = (0..300).map(|number| number.to_string()).collect();
    let rows: Vec<_> = ids.iter().map(|id| (id.as_str(), 7)).chain([("cold", 7)]).collect();
    let database = Database::with(&rows);
    let stocks = patient(&server.url()).await.ttl(TTL..=TTL).stale_while_revalidate(LONG).early_refresh(0.0);
    let stocks = stocks.max_loads(1).on(&database).await;
    let skus: Vec<_> = ids.iter().map(|id| sku(id)).collect();
    assert!(stocks.get_many(&skus).await.iter().all(Result::is_ok));
    tokio::time::sleep(TTL).await;
    database.slow(Duration::from_millis(20));
    let loads = database.loads();
    assert!(stocks.get_many(&skus).await.iter().all(|found| found.as_ref().unwrap().info.stale.is_some()));
    assert_eq!(quantity(&get(&stocks, "cold").await), Some(7));
    assert!(database.loads() - loads < 20, "{} refreshes came before a reader", database.loads() - loads);
    server.end().await;
}
