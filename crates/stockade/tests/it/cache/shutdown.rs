//! The end of a cache while reads wait.

use std::time::Duration;

use stockade::cache::CacheError;
use tokio::{task::JoinSet, time::Instant};

use super::support::{Database, Loading, held_load, patient, reading, signed_up, sku};
use crate::world::World;

const LIMIT: Duration = Duration::from_millis(300);

#[tokio::test]
async fn a_read_that_waits_for_another_process_does_not_keep_a_cache_from_ending() {
    let server = World::start().await;
    let database = Database::with(&[("a", 7), ("b", 7)]);
    // The lease of a load that may take a minute lasts longer than that.
    let loading = patient(&server.url()).await.on(&database).await;
    let ending = patient(&server.url()).await.on(&database).await;
    let gate = database.shut();
    let (mut loads, mut waiting) = (JoinSet::new(), JoinSet::new());
    for id in ["a", "b"] {
        reading(&mut loads, &loading, id);
        database.queried().await;
    }
    reading(&mut waiting, &ending, "a");
    let reloading = ending.clone();
    waiting.spawn(async move { reloading.reload(&sku("b")).await });
    for id in ["a", "b"] {
        signed_up(&server, id).await;
    }
    let began = Instant::now();
    ending.shutdown(LIMIT).await;
    assert!((LIMIT..LIMIT * 30).contains(&began.elapsed()), "{:?}", began.elapsed());
    while let Some(ended) = waiting.join_next().await {
        let ended = ended.unwrap();
        assert!(matches!(ended, Err(CacheError::ShuttingDown)), "{ended:?}");
    }
    gate.add_permits(2);
    while let Some(loaded) = loads.join_next().await {
        loaded.unwrap().unwrap();
    }
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
