//! Values in the memory of a process.

use std::time::Duration;

use stockade::{
    Cache,
    cache::{CacheError, Source},
};

use super::support::{source, tagged, tagging};
use crate::{
    cache::support::{
        Database, caught_up, ended, eventually, get, held_load, one_read, patient, quantity, race, reading, warm,
    },
    world::World,
};

const TTL: Duration = Duration::from_secs(100);

#[tokio::test]
async fn a_tag_outdates_what_other_processes_hold_in_memory() {
    let server = World::start().await;
    let database = Database::with(&[("a", 0), ("b", 0)]);
    let writer = tagged(patient(&server.url()).await.local(1 << 20), &database).await;
    let reader = tagged(patient(&server.url()).await.local(1 << 20), &database).await;
    for stocks in [&writer, &reader] {
        warm(stocks, "a").await;
        warm(stocks, "b").await;
    }
    database.write("a", Some(1));
    writer.invalidate_tag("a").await.unwrap();
    assert_eq!(quantity(&get(&writer, "a").await), Some(1), "the writer reads what it wrote");
    eventually("the reader sees it", || async { quantity(&get(&reader, "a").await) == Some(1) }).await;
    assert_eq!(source(&reader, "b").await, Source::Local, "another value was dropped");
    warm(&reader, "a").await;
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_that_races_a_tag_leaves_nothing_stale_behind() {
    let server = World::start().await;
    let database = Database::with(&[("a", 0)]);
    let writer = tagged(patient(&server.url()).await, &database).await;
    let reader = tagged(patient(&server.url()).await.local(1 << 20), &database).await;
    race(&database, &reader, Duration::from_secs(2), async || writer.invalidate_tag("a").await.unwrap()).await;
    server.end().await;
}

#[tokio::test]
async fn without_redis_a_tag_drops_the_last_copies_of_this_process() {
    let server = World::start().await;
    let database = Database::with(&[("a", 0), ("b", 0)]);
    let stocks = tagged(patient(&server.url()).await, &database).await;
    get(&stocks, "a").await;
    get(&stocks, "b").await;
    server.kill().await.unwrap();
    eventually("the loss is noticed", || async { stocks.is_degraded() }).await;
    database.write("a", Some(1));
    assert!(matches!(stocks.invalidate_tag("a").await, Err(CacheError::Unavailable(_))));
    let (dropped, kept) = (get(&stocks, "a").await, get(&stocks, "b").await);
    assert_eq!((quantity(&dropped), dropped.info.source), (Some(1), Source::Load));
    assert_eq!((quantity(&kept), kept.info.source, kept.info.degraded), (Some(0), Source::Local, true));

    // A load under way is only for readers that came before the invalidation.
    let (gate, _early) = held_load(&database, &stocks, "a").await;
    database.write("a", Some(2));
    assert!(stocks.invalidate_tag("a").await.is_err());
    database.open();
    let mut late = one_read(&stocks, "a");
    caught_up(&stocks).await;
    gate.add_permits(1);
    assert_eq!(quantity(&ended(&mut late).await), Some(2));
    server.end().await;
}

#[tokio::test]
async fn in_memory_tags_follow_the_same_rules() {
    let database = Database::with(&[("a", 0), ("b", 0)]);
    let stocks = tagging(Cache::memory().ttl(TTL..=TTL), &database).build();
    get(&stocks, "a").await;
    get(&stocks, "b").await;
    database.write("a", Some(1));
    stocks.invalidate_tag("a").await.unwrap();
    assert_eq!(quantity(&get(&stocks, "a").await), Some(1));
    assert_eq!((source(&stocks, "a").await, source(&stocks, "b").await), (Source::Local, Source::Local));

    let gate = database.shut();
    stocks.invalidate_tag("a").await.unwrap();
    let mut tasks = one_read(&stocks, "a");
    database.queried().await;
    database.write("a", Some(2));
    stocks.invalidate_tag("all").await.unwrap();
    database.open();
    reading(&mut tasks, &stocks, "a");
    caught_up(&stocks).await;
    gate.add_permits(1);
    let mut found = tasks.join_all().await.into_iter().map(|found| quantity(&found.unwrap())).collect::<Vec<_>>();
    found.sort();
    assert_eq!(found, [Some(1), Some(2)], "who came after the tag took the load from before it");
    assert_eq!(quantity(&get(&stocks, "a").await), Some(2));
    assert_eq!(stocks.stats().fill_rejected, 1);
}
