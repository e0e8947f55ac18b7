//! The end of a cache while reads wait.

use std::time::Duration;

use stockade::cache::CacheError;
use tokio::time::Instant;

use super::support::{Database, Loading, ended, held_load, one_read, patient, signed_up};
use crate::world::World;

const LIMIT: Duration = Duration::from_millis(300);

#[tokio::test]
async fn a_read_that_waits_for_another_process_does_not_keep_a_cache_from_ending() {
    let server = World::start().await;
    let database = Database::with(&[("a", 7)]);
    // The lease of a load that may take a minute lasts longer than that.
    let loading = patient(&server.url()).await.on(&database).await;
    let ending = patient(&server.url()).await.on(&database).await;
    let (gate, mut loads) = held_load(&database, &loading, "a").await;
    let mut waiting = one_read(&ending, "a");
    signed_up(&server, "a").await;
    let began = Instant::now();
    ending.shutdown(LIMIT).await;
    assert!((LIMIT..LIMIT * 30).contains(&began.elapsed()), "{:?}", began.elapsed());
    let waited = waiting.join_next().await.unwrap().unwrap();
    assert!(matches!(waited, Err(CacheError::ShuttingDown)), "{waited:?}");
    gate.add_permits(1);
    ended(&mut loads).await;
    server.end().await;
}

#[tokio::test]
async fn a_redis_that_does_not_answer_does_not_keep_a_cache_from_ending() {
    let server = World::start().await;
    let database = Database::with(&[("a", 7)]);
    let stocks = patient(&server.url()).await.on(&database).await;
    let (gate, mut reads) = held_load(&database, &stocks, "a").await;
    // The value can't be stored, and commands may take ten seconds.
    server.pause().unwrap();
    gate.add_permits(1);
    let began = Instant::now();
    stocks.shutdown(LIMIT).await;
    assert!(began.elapsed() < LIMIT * 20, "{:?}", began.elapsed());
    server.resume().unwrap();
    reads.join_next().await.unwrap().unwrap().unwrap();
    server.end().await;
}
