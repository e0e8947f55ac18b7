//! A Redis or a database that does not answer is left alone, and probed by one caller at a time.

use std::{sync::atomic::Ordering, time::Duration};

use stockade::{Cache, Redis, cache::CacheError};
use tokio::{task::JoinSet, time::Instant};

use super::support::{Database, Loading, Sku, Stock, Stocks, eventually, get, patient, process, reading, sku};
use crate::world::World;

/// How many of `count` reads at once took `slow` or longer.
async fn slow_reads(stocks: &Stocks, count: usize, slow: Duration) -> usize {
    let mut reads = JoinSet::new();
    for _ in 0..count {
        let stocks = stocks.clone();
        reads.spawn(async move {
            let began = Instant::now();
            assert!(get(&stocks, "a").await.info.degraded);
            began.elapsed() >= slow
        });
    }
    reads.join_all().await.into_iter().filter(|slow| *slow).count()
}

#[tokio::test]
async fn a_redis_that_accepts_and_never_answers_is_left_alone_and_asked_again_by_one() {
    let server = World::start().await;
    let database = Database::with(&[("a", 7)]);
    // The time-out is so long that no read takes as long for another reason.
    let (patience, slow) = (Duration::from_secs(2), Duration::from_millis(1800));
    let redis = Redis::builder(server.url()).command_timeout(patience).connect().await.unwrap().namespace("shop");
    let stocks = Cache::builder(&redis).grace(Duration::from_secs(60)).on(&database).await;
    get(&stocks, "a").await;
    server.pause().unwrap();
    assert_eq!(slow_reads(&stocks, 10, slow).await, 10, "it answered");
    // The breaker is open. Once its time is over, one of all these reads is the probe.
    let began = Instant::now();
    let mut asked = 0;
    while began.elapsed() < Duration::from_secs(5) {
        asked += slow_reads(&stocks, 100, slow).await;
    }
    assert!(asked <= 3, "{asked} reads waited for a server that never answers");
    server.resume().unwrap();
    eventually("it is used again", || async { !get(&stocks, "a").await.info.degraded }).await;
    server.end().await;
}

#[tokio::test]
async fn loads_that_never_end_open_the_breaker_and_one_finds_out_when_they_do() {
    let server = World::start().await;
    let database = Database::with(&[("a", 7)]);
    let limit = Duration::from_millis(100);
    let stocks = process(&server).await.load_timeout(limit).on(&database).await;
    let gate = database.shut();
    for number in 0..5 {
        let found = stocks.get(&sku(&number.to_string())).await;
        assert!(matches!(found, Err(CacheError::Timeout(_))), "{found:?}");
    }
    let mut loads = 5;
    // On a busy machine a read may come after the breaker's pause. It is let through, and the next pause is longer.
    let retry_after = loop {
        match stocks.get(&sku("a")).await {
            Err(CacheError::Shed { retry_after }) => break retry_after,
            found => assert!(matches!(found, Err(CacheError::Timeout(_))) && loads < 8, "it is still tried: {found:?}"),
        }
        loads += 1;
    };
    assert_eq!(database.loads(), loads);
    tokio::time::sleep(retry_after).await;
    // All these reads come when the breaker lets one through. The load of that read is held.
    let mut reads = JoinSet::new();
    for number in 0..50 {
        reading(&mut reads, &stocks, &format!("late{number}"));
    }
    let mut failed = [0, 0];
    while let Some(found) = reads.join_next().await {
        match found.unwrap() {
            Err(CacheError::Timeout(_)) => failed[0] += 1,
            Err(CacheError::Shed { .. }) => failed[1] += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((failed, database.loads()), ([1, 49], loads + 1));
    database.open();
    gate.close();
    eventually("it closes", || async { stocks.get(&sku("a")).await.is_ok() }).await;
    server.end().await;
}

#[tokio::test]
async fn a_database_of_which_only_a_few_keys_are_wanted_is_left_alone_too() {
    let load = async |_: Sku| Err::<Option<Stock>, _>(std::io::Error::other("the database is down"));
    let stocks = Cache::memory().hold_off(Duration::ZERO).loader(load).build();
    let mut keys = (0..5).map(|number| sku(&number.to_string())).cycle();
    let mut next = async || stocks.get(&keys.next().unwrap()).await;
    // Each key fails, which opens the breaker. From then on no key is the first to fail.
    for _ in 0..2 {
        let retry_after = loop {
            match next().await {
                Err(CacheError::Shed { retry_after }) => break retry_after,
                found => assert!(matches!(found, Err(CacheError::Load(_))), "{found:?}"),
            }
        };
        tokio::time::sleep(retry_after).await;
        let found = next().await;
        assert!(matches!(found, Err(CacheError::Load(_))), "one finds out: {found:?}");
        let found = next().await;
        assert!(matches!(found, Err(CacheError::Shed { .. })), "the others are told at once: {found:?}");
    }
}

#[tokio::test]
async fn batches_are_held_by_the_same_limits() {
    let server = World::start().await;
    let database = Database::with(&[("a", 7)]);
    let builder = patient(&server.url()).await.max_loads(3).batching(&database);
    let stocks = builder.on(&database).await;
    let gate = database.shut();
    let mut reads = JoinSet::new();
    // Some keys are loaded in batches and some alone. Each batch is one load.
    for number in 0..10 {
        reading(&mut reads, &stocks, &format!("alone{number}"));
        let (stocks, keys) = (stocks.clone(), ["x", "y"].map(|id| sku(&format!("{id}{number}"))));
        reads.spawn(async move { stocks.get_many(&keys).await.pop().unwrap() });
    }
    eventually("the places are taken", || async { database.running.load(Ordering::SeqCst) == 3 }).await;
    eventually("the others wait", || async { stocks.stats().fetching == 30 }).await;
    database.open();
    gate.add_permits(20);
    while let Some(found) = reads.join_next().await {
        found.unwrap().unwrap();
    }
    assert_eq!((database.loads(), database.most_running.load(Ordering::SeqCst)), (20, 3));
    // The same breaker also counts batches.
    database.down(true);
    for number in 0..2 {
        let keys = ["p", "q"].map(|id| sku(&format!("{id}{number}")));
        let failed = stocks.get_many(&keys).await;
        assert!(failed.iter().any(|found| matches!(found, Err(CacheError::Load(_)))), "{failed:?}");
    }
    let refused = stocks.get_many(&[sku("p"), sku("q")]).await;
    assert!(refused.iter().all(|found| matches!(found, Err(CacheError::Shed { .. }))), "{refused:?}");
    // After a batch has failed, its keys are loaded one by one, until there were five failures.
    let loads = database.loads();
    assert!((25..=26).contains(&loads), "{loads}");
    server.end().await;
}

/// How many loads wait.
const WAITING: usize = 8_192;

#[tokio::test]
async fn so_many_wait_for_the_database_and_the_rest_is_told_at_once() {
    let database = Database::with(&[]);
    let stocks = Cache::memory().max_loads(2).load_timeout(Duration::from_secs(120)).loading(&database).build();
    let gate = database.shut();
    let mut reads = JoinSet::new();
    for number in 0..2 + WAITING + 70 {
        reading(&mut reads, &stocks, &number.to_string());
    }
    // Two loads run, and so many wait.
    let began = Instant::now();
    for _ in 0..70 {
        let found = reads.join_next().await.unwrap().unwrap();
        assert!(matches!(found, Err(CacheError::Shed { retry_after }) if !retry_after.is_zero()), "{found:?}");
    }
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    assert_eq!((database.loads(), stocks.stats().fetching), (2, 2 + WAITING));
    database.open();
    gate.add_permits(2);
    while let Some(found) = reads.join_next().await {
        found.unwrap().unwrap();
    }
    assert_eq!((database.loads(), stocks.stats().fetching), (2 + WAITING, 0));
}

/// With default settings, as the first requests to a process that has just started.
#[tokio::test]
async fn a_thousand_callers_of_a_thousand_cold_keys_are_all_answered() {
    let server = World::start().await;
    let database = Database::with(&[]);
    database.slow(Duration::from_millis(1));
    let stocks = process(&server.shared()).await.on(&database).await;
    let mut reads = JoinSet::new();
    for number in 0..1_000 {
        reading(&mut reads, &stocks, &number.to_string());
    }
    while let Some(found) = reads.join_next().await {
        found.unwrap().unwrap();
    }
    assert_eq!((database.loads(), database.most_running.load(Ordering::SeqCst)), (1_000, 8));
    server.end().await;
}
