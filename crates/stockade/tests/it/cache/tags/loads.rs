//! Loads under way while their tag is invalidated.

use std::{sync::atomic::Ordering, time::Duration};

use stockade::cache::Source;
use tokio::time::Instant;

use super::support::{source, tagged};
use crate::{
    cache::support::{
        Database, caught_up, crowd, ended, eventually, get, held_load, one_read, patient, quantity, signed_up, sku,
        stored,
    },
    world::World,
};

#[tokio::test]
async fn a_value_loaded_before_its_tag_was_invalidated_is_not_stored_after_it() {
    let server = World::start().await;
    let database = Database::with(&[("a", 0)]);
    let reader = tagged(patient(&server.url()).await, &database).await;
    let writer = tagged(patient(&server.url()).await, &database).await;
    let (gate, mut slow) = held_load(&database, &reader, "a").await;
    database.write("a", Some(1));
    writer.invalidate_tag("a").await.unwrap();
    database.open();
    gate.add_permits(1);
    // The call of this reader began before the write, so either value is right.
    let found = ended(&mut slow).await;
    assert_eq!((found.info.stored, found.info.ttl), (false, Duration::ZERO));
    assert_eq!(reader.stats().fill_rejected, 1);
    assert!(!stored(&server, "a").await, "the old value was stored");
    assert_eq!(quantity(&get(&writer, "a").await), Some(1));
    assert_eq!(quantity(&get(&reader, "a").await), Some(1));
    server.end().await;
}

#[tokio::test]
async fn an_early_load_under_way_does_not_bring_back_what_a_tag_has_dropped() {
    let server = World::start().await;
    let database = Database::with(&[("a", 0)]);
    let ttl = Duration::from_secs(3);
    // With this eagerness a value is due for a refresh as soon as half of its life is over.
    let eager = tagged(patient(&server.url()).await.ttl(ttl..=ttl).early_refresh(1e9), &database).await;
    let writer = tagged(patient(&server.url()).await, &database).await;
    get(&eager, "a").await;
    let gate = database.shut();
    // Another tag is invalidated, so that the lease of the early load has another stamp than the value.
    writer.invalidate_tag("other").await.unwrap();
    eventually("it is loaded early", || async {
        assert_eq!(source(&eager, "a").await, Source::Redis);
        database.running.load(Ordering::SeqCst) == 1
    })
    .await;
    database.queried().await;
    database.write("a", Some(1));
    writer.invalidate_tag("a").await.unwrap();
    database.open();
    let mut late = one_read(&writer, "a");
    signed_up(&server, "a").await;
    gate.add_permits(1);
    assert_eq!(quantity(&ended(&mut late).await), Some(1));
    assert_eq!(eager.stats().fill_rejected, 1);
    assert_eq!(quantity(&get(&eager, "a").await), Some(1));
    server.end().await;
}

#[tokio::test]
async fn who_waits_for_the_load_of_an_outdated_value_is_given_what_it_loads() {
    let server = World::start().await;
    let database = Database::with(&[("a", 0)]);
    let stocks = tagged(patient(&server.url()).await, &database).await;
    get(&stocks, "a").await;
    database.write("a", Some(1));
    stocks.invalidate_tag("a").await.unwrap();
    // The load is held. It has the lease, and the old value has gone.
    let (gate, mut first) = held_load(&database, &stocks, "a").await;
    assert!(!stored(&server, "a").await);
    let other = tagged(patient(&server.url()).await, &database).await;
    let mut second = one_read(&other, "a");
    signed_up(&server, "a").await;
    database.open();
    gate.add_permits(1);
    assert_eq!(quantity(&ended(&mut first).await), Some(1));
    assert_eq!(quantity(&ended(&mut second).await), Some(1));
    server.end().await;
}

#[tokio::test]
async fn a_reader_that_came_after_a_tag_was_invalidated_does_not_take_the_load_from_before_it() {
    let server = World::start().await;
    let database = Database::with(&[("a", 0)]);
    let stocks = tagged(patient(&server.url()).await, &database).await;
    let other = tagged(patient(&server.url()).await, &database).await;
    for writer in [&stocks, &other] {
        database.write("a", Some(0));
        stocks.invalidate(&sku("a")).await.unwrap();
        let loads = database.loads();
        let (gate, mut early) = held_load(&database, &stocks, "a").await;
        database.write("a", Some(1));
        writer.invalidate_tag("a").await.unwrap();
        let mut late = crowd(&stocks, "a");
        database.open();
        caught_up(&stocks).await;
        gate.add_permits(1);
        ended(&mut early).await;
        while let Some(found) = late.join_next().await {
            assert_eq!(quantity(&found.unwrap().unwrap()), Some(1));
        }
        assert_eq!(
            database.loads() - loads,
            3,
            "one of theirs beside the first, and that of what was read to catch up"
        );
    }
    server.end().await;
}

#[tokio::test]
async fn who_waits_for_a_load_that_a_tag_has_voided_is_told() {
    let server = World::start().await;
    let database = Database::with(&[("a", 0)]);
    let leader = tagged(patient(&server.url()).await.load_timeout(Duration::from_secs(10)), &database).await;
    let waiter = tagged(patient(&server.url()).await.load_timeout(Duration::from_secs(10)), &database).await;
    let (gate, mut tasks) = held_load(&database, &leader, "a").await;
    database.write("a", Some(1));
    leader.invalidate_tag("a").await.unwrap();
    database.open();
    let mut late = one_read(&waiter, "a");
    signed_up(&server, "a").await;
    let began = Instant::now();
    gate.add_permits(1);
    assert_eq!(quantity(&ended(&mut late).await), Some(1));
    assert!(began.elapsed() < Duration::from_secs(5), "waited for the end of the lease: {:?}", began.elapsed());
    ended(&mut tasks).await;
    server.end().await;
}
