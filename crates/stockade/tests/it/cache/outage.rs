//! Redis or the database down, slow or frozen.

use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use stockade::{
    Redis,
    cache::{CacheError, Limits, Source, Tier},
};
use tokio::{task::JoinSet, time::Instant};

use super::support::{Database, Loading, eventually, get, hasty, process, process_at, quantity, reading, sku, stored};
use crate::world::{World, cached};

#[tokio::test]
async fn while_redis_is_frozen_reads_go_on_marked_and_all_recovers() {
    let server = World::start().await;
    let database = Database::with(&[("warm", 1), ("cold", 2)]);
    let stocks = hasty(&server.url()).await.on(&database).await;
    get(&stocks, "warm").await;
    get(&stocks, "warm").await;

    server.pause().unwrap();
    let before = database.loads();
    let mut waited = 0;
    for i in 0..50 {
        let began = Instant::now();
        let warm = get(&stocks, "warm").await;
        assert_eq!((quantity(&warm), warm.info.degraded, warm.info.source), (Some(1), true, Source::Local));
        if i >= 10 {
            waited += usize::from(began.elapsed() >= Duration::from_millis(250));
        }
    }
    assert_eq!(database.loads(), before);
    // A read may have probed the server, and the machine may have stalled.
    assert!(waited <= 5, "{waited} of 40 reads waited for it");
    let cold = get(&stocks, "cold").await;
    assert_eq!((quantity(&cold), cold.info.degraded, cold.info.source), (Some(2), true, Source::Load));
    assert!(!cold.info.stored);
    assert!(stocks.is_degraded());
    let refused = stocks.invalidate(&sku("warm")).await;
    assert!(matches!(refused, Err(CacheError::Unavailable(_))), "{refused:?}");
    // The process that wrote drops its own copy although Redis was not told.
    database.write("warm", Some(3));
    assert_eq!(quantity(&get(&stocks, "warm").await), Some(3));

    server.resume().unwrap();
    eventually("it is on line again", || async { !stocks.is_degraded() }).await;
    stocks.invalidate(&sku("warm")).await.unwrap();
    eventually("answers are normal again", || async {
        let warm = get(&stocks, "warm").await;
        assert_eq!(quantity(&warm), Some(3));
        !warm.info.degraded && warm.info.source == Source::Redis
    })
    .await;
    server.end().await;
}

#[tokio::test]
async fn while_redis_is_gone_loads_stay_within_their_limit() {
    let server = World::start().await;
    let database = Arc::new(Database::default());
    for i in 0..2000 {
        database.write(&i.to_string(), Some(i));
    }
    database.slow(Duration::from_millis(5));
    let stocks = process(&server).await.max_loads(4).load_timeout(Duration::from_millis(400)).on(&database).await;
    server.kill().await.unwrap();
    let mut tasks = JoinSet::new();
    for i in 0..2000 {
        reading(&mut tasks, &stocks, &i.to_string());
    }
    let (mut served, mut shed) = (0, 0);
    while let Some(found) = tasks.join_next().await {
        match found.unwrap() {
            Ok(found) => {
                assert!(found.info.degraded && found.value.is_some());
                served += 1;
            }
            Err(CacheError::Shed { retry_after }) => {
                assert!(!retry_after.is_zero());
                shed += 1;
            }
            Err(error) => panic!("{error:?}"),
        }
    }
    assert!(served > 0 && shed > 0, "{served} served, {shed} shed");
    assert_eq!(database.most_running.load(Ordering::SeqCst), 4);
    assert_eq!(stocks.stats().shed, shed);

    // Without Redis, too, a process loads a key once at a time.
    let before = database.loads();
    database.slow(Duration::from_millis(100));
    for _ in 0..100 {
        reading(&mut tasks, &stocks, "7");
    }
    while let Some(found) = tasks.join_next().await {
        assert_eq!(quantity(&found.unwrap().unwrap()), Some(7));
    }
    assert!(database.loads() - before <= 2, "{} loads", database.loads() - before);

    server.restart().await.unwrap();
    eventually("it is on line again", || async { !stocks.is_degraded() }).await;
    eventually("values are stored again", || async {
        !get(&stocks, "7").await.info.degraded && stored(&server, "7").await
    })
    .await;
    server.end().await;
}

#[tokio::test]
async fn a_cache_starts_without_redis_and_uses_it_once_it_is_there() {
    let server = World::start().await;
    let url = server.url();
    server.kill().await.unwrap();
    let database = Database::with(&[("a", 7)]);
    let stocks = cached(process_at(&url).await.loading(&database).build());
    let found = get(&stocks, "a").await;
    assert_eq!((quantity(&found), found.info.degraded), (Some(7), true));
    server.restart().await.unwrap();
    eventually("it is on line", || async { !stocks.is_degraded() }).await;
    get(&stocks, "a").await;
    assert!(!get(&stocks, "a").await.info.degraded);
    server.end().await;
}

#[tokio::test]
async fn when_the_database_fails_an_expired_value_is_served_within_its_grace() {
    let server = World::start().await;
    let database = Database::with(&[("a", 7)]);
    let short = Duration::from_millis(100)..=Duration::from_millis(100);
    let stocks = process(&server).await.ttl(short).grace(Duration::from_secs(2)).on(&database).await;
    get(&stocks, "a").await;
    // The other process never had the value, and finds it in Redis.
    let other = process(&server).await.grace(Duration::from_secs(2)).on(&database).await;
    database.down(true);
    eventually("it has expired", || async {
        let tier = stocks.inspect(&sku("a")).await.unwrap().redis;
        matches!(tier, Tier::Kept(kept) if kept.stale.is_some())
    })
    .await;
    for stocks in [&stocks, &other] {
        let found = get(stocks, "a").await;
        assert_eq!(quantity(&found), Some(7));
        assert!(found.info.stale.is_some_and(|stale| stale < Duration::from_secs(2)), "{:?}", found.info);
    }
    assert_eq!(stocks.stats().stale, 1);
    assert!(matches!(stocks.get(&sku("b")).await, Err(CacheError::Load(error)) if error.to_string().contains("down")));
    eventually("its grace ends", || async { stocks.get(&sku("a")).await.is_err() }).await;
    // After more failures the breaker of the database opens. Its refusals tell when the next attempt is allowed.
    let rows = AtomicUsize::new(0);
    eventually("loads are shed", || async {
        let row = sku(&format!("c{}", rows.fetch_add(1, Ordering::SeqCst)));
        matches!(stocks.get(&row).await, Err(CacheError::Shed { .. }))
    })
    .await;
    let before = database.loads();
    assert!(stocks.get(&sku("a")).await.is_err());
    assert_eq!(database.loads(), before);
    database.down(false);
    eventually("it recovers", || async { stocks.get(&sku("a")).await.is_ok_and(|found| found.info.stale.is_none()) })
        .await;
    server.end().await;
}

#[tokio::test]
async fn a_value_that_was_invalidated_is_not_served_as_stale() {
    let server = World::start().await;
    let database = Database::with(&[("a", 7)]);
    let stocks = process(&server).await.on(&database).await;
    get(&stocks, "a").await;
    get(&stocks, "a").await;
    stocks.invalidate(&sku("a")).await.unwrap();
    database.down(true);
    assert!(matches!(stocks.get(&sku("a")).await, Err(CacheError::Load(_))));
    server.end().await;
}

#[tokio::test]
async fn the_rate_of_loads_is_limited_over_all_caches_that_share_limits() {
    let server = World::start().await;
    let database = Database::with(&[("a", 1), ("b", 2)]);
    let limits = Limits::new(8, NonZeroU32::new(1));
    let redis = Redis::connect(server.url()).await.unwrap().namespace("shop");
    let build = |name| stockade::Cache::builder(&redis).name(name).limits(&limits).on(&database);
    let (first, second) = (build("first").await, build("second").await);
    let second_load = Duration::from_secs(1);
    let began = Instant::now();
    get(&first, "a").await;
    let refused = second.get(&sku("b")).await;
    let is_refused = matches!(refused, Err(CacheError::Shed { retry_after }) if retry_after <= second_load);
    // On a machine that stood still for so long, the next load may begin.
    assert!(is_refused || began.elapsed() >= second_load, "{refused:?}");
    eventually("its turn comes", || async { second.get(&sku("b")).await.is_ok() }).await;
    assert_eq!(database.loads(), 2);
    server.end().await;
}

#[tokio::test]
async fn the_loads_at_one_time_are_limited_over_all_caches_that_share_limits() {
    let server = World::start().await;
    let database = Database::with(&[("a", 1)]);
    let limits = Limits::new(2, None);
    let redis = Redis::connect(server.url()).await.unwrap().namespace("shop");
    let build = |name| stockade::Cache::builder(&redis).name(name).limits(&limits).on(&database);
    let caches = [build("first").await, build("second").await];
    let gate = database.shut();
    let mut reads = JoinSet::new();
    for number in 0..4 {
        for stocks in &caches {
            reading(&mut reads, stocks, &number.to_string());
        }
    }
    eventually("both places are taken", || async { database.running.load(Ordering::SeqCst) == 2 }).await;
    eventually("the others wait", || async { caches.each_ref().map(|stocks| stocks.stats().fetching) == [4, 4] }).await;
    database.open();
    gate.add_permits(8);
    while let Some(found) = reads.join_next().await {
        found.unwrap().unwrap();
    }
    assert_eq!((database.loads(), database.most_running.load(Ordering::SeqCst)), (8, 2));
    server.end().await;
}
