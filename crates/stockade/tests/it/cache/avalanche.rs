//! All values are missing at once. The caches load them again within their limits.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures_util::stream;
use stockade::{
    Cache, Redis,
    cache::{CacheBuilder, CacheError, Source},
};
use tokio::{task::JoinSet, time::Instant};

use super::support::{Database, Loading, Sku, Stock, Stocks, eventually, quantity, reading, sku};
use crate::world::{Group, World};

const CALLERS: usize = 2000;
const KEYS: usize = 1000;
/// The limit of one cache.
const MAX_LOADS: usize = 4;
const QUICK: Duration = Duration::from_millis(5);

#[derive(Debug, Default)]
struct Storm {
    hits: usize,
    loaded: usize,
    degraded: usize,
    shed: usize,
    /// Reads that gave up waiting for another reader's load.
    late: usize,
}

/// One read by each caller, all at once. Each of the two caches reads every key.
async fn storm(fleet: &[&Stocks; 2]) -> Storm {
    let mut reads = JoinSet::new();
    for caller in 0..CALLERS {
        reading(&mut reads, fleet[caller / KEYS], &(caller % KEYS).to_string());
    }
    let mut storm = Storm::default();
    while let Some(found) = reads.join_next().await {
        match found.unwrap() {
            Ok(found) => {
                assert_eq!(quantity(&found), Some(7));
                storm.degraded += usize::from(found.info.degraded);
                storm.hits += usize::from(found.info.source == Source::Redis);
                storm.loaded += usize::from(found.info.source == Source::Load);
            }
            Err(CacheError::Shed { retry_after }) => {
                assert!(!retry_after.is_zero());
                storm.shed += 1;
            }
            Err(CacheError::Timeout(_)) => storm.late += 1,
            Err(error) => panic!("{error:?}"),
        }
    }
    storm
}

async fn database() -> Arc<Database> {
    let database = Database::default();
    for number in 0..KEYS {
        database.write(&number.to_string(), Some(7));
    }
    database.slow(QUICK);
    Arc::new(database)
}

/// A cache that does not wait long for Redis.
async fn quick(url: &str) -> CacheBuilder<Sku, Stock> {
    let redis = Redis::builder(url).command_timeout(Duration::from_secs(2)).connect().await.unwrap();
    Cache::builder(&redis.namespace("shop")).max_loads(MAX_LOADS)
}

/// Checks that the database saw no more loads at a time than both caches may run, and that no load is left in memory.
async fn is_over(fleet: &[&Stocks; 2], database: &Database) {
    let most = database.most_running.load(Ordering::SeqCst);
    assert!(most <= 2 * MAX_LOADS, "{most} loads at a time");
    eventually("no flight is left", || async {
        fleet.iter().all(|stocks| stocks.stats().fetching == 0) && database.running.load(Ordering::SeqCst) == 0
    })
    .await;
}

/// Repeats the storm until every read is a hit in Redis.
async fn recovers(fleet: &[&Stocks; 2], database: &Database) {
    let limit = Instant::now() + Duration::from_secs(120);
    while storm(fleet).await.hits < CALLERS {
        assert!(Instant::now() < limit, "not every read is a hit again");
        is_over(fleet, database).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_frozen_and_flushed_redis_never_costs_more_loads_than_allowed() {
    let server = World::start().await;
    let database = database().await;
    let build = async || quick(&server.url()).await.on(&database).await;
    let fleet = &[&build().await, &build().await];
    let known = stream::iter((0..KEYS / 2).map(|number| sku(&number.to_string())));
    let known = fleet[0].warm(known).run().await;
    assert!(known.loaded > 400, "{known:?}");

    server.kill().await.unwrap();
    database.slow(Duration::from_millis(50));
    let gone = storm(fleet).await;
    // A process still serves the values that it had loaded. It loads some of the others, and refuses the rest.
    assert!(gone.degraded > 400 && gone.loaded > 0 && gone.shed > 0, "{gone:?}");
    is_over(fleet, &database).await;
    database.slow(QUICK);
    server.restart().await.unwrap();
    recovers(fleet, &database).await;

    server.pause().unwrap();
    let frozen = storm(fleet).await;
    // Every read that was a hit left its value in the memory of its process.
    assert_eq!((frozen.degraded, frozen.loaded, frozen.shed), (CALLERS, 0, 0), "{frozen:?}");
    is_over(fleet, &database).await;
    server.resume().unwrap();
    recovers(fleet, &database).await;

    server.command(&["FLUSHALL"]).await.unwrap();
    storm(fleet).await;
    is_over(fleet, &database).await;
    recovers(fleet, &database).await;
    server.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_never_costs_more_loads_than_allowed() {
    let group = Group::start().await;
    let database = database().await;
    let build = async || quick(&group.url()).await.on(&database).await;
    let fleet = &[&build().await, &build().await];
    recovers(fleet, &database).await;
    let old = group.primary().await.unwrap();
    old.kill().await.unwrap();
    storm(fleet).await;
    is_over(fleet, &database).await;
    group.until_promoted_after(old).await.unwrap();
    recovers(fleet, &database).await;
    group.end().await;
}
