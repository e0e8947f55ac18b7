//! A cache that is cleared as a whole.

use std::time::Duration;

use stockade::{
    Cache,
    cache::{CacheError, Loaded, Source},
};
use tokio::time::timeout;

use super::support::{
    Database, Loading, Sku, caught_up, crowd, ended, eventually, get, held_load, patient, process, quantity, signed_up,
    sku, stored, warm,
};
use crate::{
    redis_traffic::calls,
    world::{World, cached},
};

#[tokio::test]
async fn every_value_and_every_remembered_absence_is_dropped_in_every_process() {
    let server = World::start().await;
    let database = Database::with(&[("a", 1), ("tagged", 2)]);
    let tagging = || {
        let database = std::sync::Arc::clone(&database);
        move |sku: Sku| {
            let database = std::sync::Arc::clone(&database);
            async move {
                let loaded = Loaded::new(database.query(&sku.0).await?);
                Ok::<_, std::io::Error>(if sku.0 == "tagged" { loaded.tags(["red"]) } else { loaded })
            }
        }
    };
    let one = cached(process(&server).await.loader(tagging()).build());
    let two = cached(process(&server).await.loader(tagging()).build());
    let near = cached(process(&server).await.local(1 << 20).loader(tagging()).build());
    let other = process(&server).await.name("other").on(&database).await;
    for id in ["a", "tagged", "none"] {
        for stocks in [&one, &other] {
            get(stocks, id).await;
        }
        assert_eq!(get(&two, id).await.info.source, Source::Redis);
        warm(&near, id).await;
    }
    database.write("a", Some(10));
    database.write("tagged", Some(20));
    database.write("none", Some(30));
    one.clear().await.unwrap();
    // The first cache finds nothing and loads. The second finds the values that the first has loaded.
    for stocks in [&two, &one] {
        for (id, row) in [("a", 10), ("tagged", 20), ("none", 30)] {
            assert_eq!(quantity(&get(stocks, id).await), Some(row), "{id}");
        }
    }
    eventually("news of it has come", || async { quantity(&get(&near, "a").await) == Some(10) }).await;
    for (id, row) in [("a", 10), ("tagged", 20), ("none", 30)] {
        assert_eq!(quantity(&get(&near, id).await), Some(row), "{id}");
        assert_eq!(get(&other, id).await.info.source, Source::Redis, "a cache of another name was cleared");
    }
    server.end().await;
}

#[tokio::test]
async fn a_load_that_was_running_is_neither_stored_nor_waited_for() {
    let server = World::start().await;
    let database = Database::with(&[("a", 1)]);
    let one = patient(&server.url()).await.on(&database).await;
    let two = patient(&server.url()).await.on(&database).await;
    let gate = database.shut();
    let mut early = crowd(&one, "a");
    database.queried().await;
    database.open();
    let mut waiting = crowd(&two, "a");
    signed_up(&server, "a").await;

    database.write("a", Some(2));
    two.clear().await.unwrap();
    // The read does not wait for the load that will not be stored, although the lease of that load has not expired.
    let first = timeout(Duration::from_secs(20), ended(&mut waiting)).await;
    assert_eq!(quantity(&first.expect("it waits for a load from before")), Some(2));
    gate.add_permits(1);
    assert_eq!(quantity(&ended(&mut early).await), Some(1));
    for stocks in [&one, &two] {
        assert_eq!(quantity(&get(stocks, "a").await), Some(2));
    }
    server.end().await;
}

#[tokio::test]
async fn a_reader_that_came_after_it_does_not_take_the_load_from_before() {
    let server = World::start().await;
    let database = Database::with(&[("a", 1)]);
    let one = patient(&server.url()).await.on(&database).await;
    let two = patient(&server.url()).await.on(&database).await;
    let gate = database.shut();
    let mut early = crowd(&one, "a");
    database.queried().await;
    database.open();
    database.write("a", Some(2));
    two.clear().await.unwrap();
    let mut late = crowd(&one, "a");
    caught_up(&one).await;
    gate.add_permits(1);
    assert_eq!(quantity(&ended(&mut early).await), Some(1));
    assert_eq!(quantity(&ended(&mut late).await), Some(2), "what was read before it is given to a reader after it");
    assert_eq!(quantity(&get(&two, "a").await), Some(2));
    server.end().await;
}

#[tokio::test]
async fn an_expired_value_from_before_is_not_served_in_place_of_a_load_that_fails() {
    let server = World::start().await;
    let database = Database::with(&[("a", 1)]);
    let short = || Duration::from_millis(1)..=Duration::from_millis(1);
    let grace = Duration::from_secs(60);
    let one = process(&server).await.ttl(short()).grace(grace).on(&database).await;
    let two = process(&server).await.ttl(short()).grace(grace).on(&database).await;
    get(&one, "a").await;
    database.down(true);
    // The other process has read the value, too, and kept it.
    eventually("it is served as expired", || async {
        two.get(&sku("a")).await.is_ok_and(|found| found.info.stale.is_some())
    })
    .await;
    one.clear().await.unwrap();
    for stocks in [&one, &two] {
        let found = stocks.get(&sku("a")).await;
        assert!(matches!(found, Err(CacheError::Load(_) | CacheError::Shed { .. })), "{found:?}");
    }
    server.end().await;
}

#[tokio::test]
async fn what_it_costs_does_not_depend_on_how_much_there_is() {
    let server = World::start().await;
    let rows: Vec<_> = (0..1000).map(|number| number.to_string()).collect();
    let database = Database::with(&rows.iter().map(|id| (id.as_str(), 1)).collect::<Vec<_>>());
    let stocks = process(&server).await.batching(&database).on(&database).await;
    let keys: Vec<_> = rows.iter().map(|id| sku(id)).collect();
    assert!(stocks.get_many(&keys).await.iter().all(Result::is_ok));
    server.command(&["CONFIG", "RESETSTAT"]).await.unwrap();
    stocks.clear().await.unwrap();
    let calls = calls(&server).await;
    // A few heartbeats may be among the calls.
    assert!(calls["evalsha"] <= 5 && calls.values().sum::<u64>() < 100, "{calls:?}");
    let many = stocks.get_many(&keys).await;
    assert!(many.into_iter().all(|found| found.unwrap().info.source == Source::Load));
    server.end().await;
}

#[tokio::test]
async fn a_server_out_of_memory_is_cleared() {
    let server = World::start().await;
    let database = Database::with(&[("a", 1)]);
    let stocks = process(&server).await.on(&database).await;
    get(&stocks, "a").await;
    server.command(&["CONFIG", "SET", "maxmemory", "1"]).await.unwrap();
    database.write("a", Some(2));
    stocks.clear().await.unwrap();
    assert_eq!(quantity(&get(&stocks, "a").await), Some(2));
    server.end().await;
}

#[tokio::test]
async fn a_server_that_comes_back_from_before_it_is_told_again() {
    let server = World::start().await;
    let database = Database::with(&[("a", 1)]);
    let stocks = process(&server).await.on(&database).await;
    get(&stocks, "a").await;
    server.command(&["SAVE"]).await.unwrap();
    database.write("a", Some(2));
    stocks.clear().await.unwrap();
    server.restart().await.unwrap();
    eventually("it is on line again", || async { !stocks.is_degraded() }).await;
    assert!(stored(&server, "a").await, "the server has lost the old value, too");
    // This process never heard of the clear.
    let other = process(&server).await.on(&database).await;
    assert_eq!(quantity(&get(&other, "a").await), Some(2));
    server.end().await;
}

/// The message of the clear was lost on its way.
#[tokio::test]
async fn a_clear_that_a_process_has_missed_reaches_it_with_a_heartbeat() {
    let server = World::start().await;
    let database = Database::with(&[("a", 1)]);
    let reader = process(&server).await.local(1 << 20).on(&database).await;
    warm(&reader, "a").await;
    database.write("a", Some(2));
    let number = server.command(&["KEYS", "*}c:stock"]).await.unwrap();
    server.command(&["INCR", &number]).await.unwrap();
    eventually("it has heard of it", || async { quantity(&get(&reader, "a").await) == Some(2) }).await;
    server.end().await;
}

#[tokio::test]
async fn a_number_that_was_evicted_costs_loads_and_brings_nothing_back() {
    let server = World::start().await;
    let database = Database::with(&[("a", 1), ("b", 1)]);
    let one = process(&server).await.on(&database).await;
    get(&one, "a").await;
    database.write("a", Some(2));
    one.clear().await.unwrap();
    let epoch = server.command(&["KEYS", "*}c:stock"]).await.unwrap();
    for broken in [&["DEL", &epoch][..], &["SET", &epoch, "nonsense"], &["HSET", &epoch, "another", "type"]] {
        server.command(&["DEL", &epoch]).await.unwrap();
        server.command(broken).await.unwrap();
        let two = process(&server).await.on(&database).await;
        assert_eq!(quantity(&get(&two, "a").await), Some(2));
        assert!(get(&two, "b").await.info.stored || get(&two, "b").await.info.source == Source::Redis);
        assert_eq!(quantity(&get(&one, "a").await), Some(2));
    }
    server.end().await;
}

#[tokio::test]
async fn in_memory_the_same_rules_hold() {
    let database = Database::with(&[("a", 1)]);
    let stocks = Cache::<Sku, _>::memory().loading(&database).build();
    get(&stocks, "a").await;
    assert_eq!(get(&stocks, "a").await.info.source, Source::Local);
    database.write("a", Some(2));
    stocks.clear().await.unwrap();
    assert_eq!(quantity(&get(&stocks, "a").await), Some(2));

    stocks.clear().await.unwrap();
    let (gate, mut early) = held_load(&database, &stocks, "a").await;
    database.open();
    database.write("a", Some(3));
    stocks.clear().await.unwrap();
    assert_eq!(quantity(&get(&stocks, "a").await), Some(3));
    gate.add_permits(1);
    assert_eq!(quantity(&ended(&mut early).await), Some(2));
    assert_eq!(quantity(&get(&stocks, "a").await), Some(3));
}
