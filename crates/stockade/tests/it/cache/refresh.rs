//! Loading again before or right after a value expires, so that nobody waits.

use std::{sync::atomic::Ordering, time::Duration};

use stockade::{
    Cache,
    cache::{BuildError, Loaded, Source},
};

use super::support::{Database, Loading, Stock, Stocks, entry_key, eventually, get, process, quantity, sku};
use crate::world::{World, online};

#[tokio::test]
async fn a_value_in_use_is_loaded_again_before_it_expires_by_one_process() {
    let server = World::start().await;
    let database = Database::with(&[("a", 7)]);
    let ttl = Duration::from_secs(3);
    // With this eagerness a value is due for a refresh as soon as half of its life is over.
    let one = process(&server).await.ttl(ttl..=ttl).early_refresh(1e9).on(&database).await;
    let two = process(&server).await.ttl(ttl..=ttl).early_refresh(1e9).on(&database).await;
    get(&one, "a").await;
    assert_eq!(database.loads(), 1);
    // The load is held in its query, so that all other readers find the lease taken.
    let gate = database.shut();
    database.write("a", Some(8));
    let reads = async {
        loop {
            for stocks in [&one, &two] {
                let lookup = get(stocks, "a").await;
                assert_eq!((quantity(&lookup), lookup.info.source, lookup.info.stale), (Some(7), Source::Redis, None));
            }
            if database.running.load(Ordering::SeqCst) == 1 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    reads.await;
    for _ in 0..20 {
        assert_eq!(quantity(&get(&two, "a").await), Some(7));
    }
    assert_eq!(database.loads(), 2, "more than one process loads it");
    database.open();
    gate.add_permits(1);
    eventually("the new value is stored", || async { quantity(&get(&two, "a").await) == Some(8) }).await;
    server.end().await;
}

#[tokio::test]
async fn a_value_that_one_process_has_loaded_again_is_taken_by_those_that_still_have_the_old_one() {
    let server = World::start().await;
    let database = Database::with(&[("a", 7)]);
    let ttl = Duration::from_secs(3);
    // With this eagerness a value is due for a refresh as soon as half of its life is over.
    let one = process(&server).await.ttl(ttl..=ttl).local(1 << 20).early_refresh(1e9).on(&database).await;
    let two = process(&server).await.ttl(ttl..=ttl).local(1 << 20).early_refresh(1e9).on(&database).await;
    for stocks in [&one, &two] {
        eventually("it is in the process", || async { get(stocks, "a").await.info.source == Source::Local }).await;
    }
    database.write("a", Some(8));
    for stocks in [&one, &two] {
        eventually("it is the new value", || async { quantity(&get(stocks, "a").await) == Some(8) }).await;
    }
    assert_eq!(database.loads(), 2, "each process loaded it again");
    server.end().await;
}

/// Reads a value in the process, which is to be refreshed, for a second.
async fn asks_now_and_then(server: &World, caches: &[&Stocks]) {
    server.command(&["CONFIG", "RESETSTAT"]).await.unwrap();
    let (mut reads, since) = (0_u64, tokio::time::Instant::now());
    while since.elapsed() < Duration::from_secs(1) {
        for stocks in caches {
            assert_eq!(get(stocks, "a").await.info.source, Source::Local);
            reads += 1;
        }
        tokio::task::yield_now().await;
    }
    let stats = server.command(&["INFO", "commandstats"]).await.unwrap();
    let scripts = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:"));
    let calls = |count: &str| {
        ["calls=", "rejected_calls="].iter().find_map(|name| count.strip_prefix(name)).map_or(0, |n| n.parse().unwrap())
    };
    let scripts: u64 = scripts.unwrap_or_default().split(',').map(calls).sum();
    assert!(scripts < 30 && scripts < reads / 10, "{scripts} scripts for {reads} reads");
}

#[tokio::test]
async fn a_refresh_that_redis_refuses_is_asked_for_now_and_then() {
    let server = World::start().await;
    let database = Database::with(&[("a", 7)]);
    let ttl = Duration::from_secs(10);
    let stocks = process(&server).await.ttl(ttl..=ttl).local(1 << 20).early_refresh(1e9).on(&database).await;
    eventually("it is in the process", || async { get(&stocks, "a").await.info.source == Source::Local }).await;
    server.command(&["CONFIG", "SET", "maxmemory", "1"]).await.unwrap();
    eventually("half of its life is over", || async { get(&stocks, "a").await.info.age >= ttl / 2 }).await;
    asks_now_and_then(&server, &[&stocks]).await;
    assert_eq!(database.loads(), 1, "it was loaded again");
    server.command(&["CONFIG", "SET", "maxmemory", "0"]).await.unwrap();
    eventually("it is asked for again", || async {
        assert_ne!(get(&stocks, "a").await.info.source, Source::Load, "it expired");
        database.loads() == 2
    })
    .await;
    server.end().await;
}

#[tokio::test]
async fn a_refresh_that_another_process_makes_is_asked_for_now_and_then() {
    let server = World::start().await;
    let database = Database::with(&[("a", 7)]);
    let ttl = Duration::from_secs(20);
    let one = process(&server).await.ttl(ttl..=ttl).local(1 << 20).early_refresh(1e9).on(&database).await;
    let two = process(&server).await.ttl(ttl..=ttl).local(1 << 20).early_refresh(1e9).on(&database).await;
    for stocks in [&one, &two] {
        eventually("it is in the process", || async { get(stocks, "a").await.info.source == Source::Local }).await;
    }
    let gate = database.shut();
    database.write("a", Some(8));
    eventually("one of them loads it again", || async {
        get(&one, "a").await;
        database.running.load(Ordering::SeqCst) == 1
    })
    .await;
    asks_now_and_then(&server, &[&one, &two]).await;
    database.open();
    gate.add_permits(1);
    eventually("the other asks again, and takes the new value", || async {
        let found = get(&two, "a").await;
        assert_eq!(found.info.source, Source::Local, "it expired");
        quantity(&found) == Some(8)
    })
    .await;
    server.end().await;
}

#[tokio::test]
async fn an_expired_value_is_served_at_once_while_it_is_loaded_again() {
    let server = World::start().await;
    let database = Database::with(&[("a", 7)]);
    let ttl = Duration::from_millis(50);
    let stocks = process(&server)
        .await
        .ttl(ttl..=ttl)
        .early_refresh(0.0)
        .stale_while_revalidate(Duration::from_secs(60))
        .on(&database)
        .await;
    get(&stocks, "a").await;
    let gate = database.shut();
    database.write("a", Some(8));
    eventually("it expires", || async { get(&stocks, "a").await.info.stale.is_some() }).await;
    database.queried().await;
    for _ in 0..5 {
        let lookup = get(&stocks, "a").await;
        assert_eq!((quantity(&lookup), lookup.info.source), (Some(7), Source::Redis));
    }
    assert_eq!(database.loads(), 2, "each stale answer began a load");
    database.open();
    gate.add_permits(1);
    eventually("the new value is served", || async { quantity(&get(&stocks, "a").await) == Some(8) }).await;
    server.end().await;
}

#[tokio::test]
async fn a_write_drops_a_value_that_is_served_stale() {
    let server = World::start().await;
    let database = Database::with(&[("a", 7)]);
    let ttl = Duration::from_millis(20);
    let builder = process(&server).await.ttl(ttl..=ttl).stale_while_revalidate(Duration::from_secs(60));
    let stocks = builder.on(&database).await;
    get(&stocks, "a").await;
    let gate = database.shut();
    eventually("it expires", || async { get(&stocks, "a").await.info.stale.is_some() }).await;
    // Read again, since the first background load may find that the server, by its own clock, still has a fresh value.
    let read = || async {
        get(&stocks, "a").await;
        database.loads() == 2
    };
    eventually("a background load has read the old row", read).await;
    database.write("a", Some(8));
    stocks.invalidate(&sku("a")).await.unwrap();
    database.open();
    gate.add_permits(1);
    let lookup = get(&stocks, "a").await;
    assert_eq!(quantity(&lookup), Some(8));
    assert!(lookup.info.stale.is_none(), "stale after a write: {:?}", lookup.info);
    server.end().await;
}

#[tokio::test]
async fn a_loader_may_say_version_and_lifetime() {
    let server = World::start().await;
    let builder = process(&server).await.loader(|_| async {
        let loaded = Loaded::new(Some(Stock { quantity: 7 })).version(42).ttl(Duration::from_secs(30));
        Ok::<_, std::convert::Infallible>(loaded)
    });
    let stocks = online(builder).await;
    let (first, second) = (get(&stocks, "a").await, get(&stocks, "a").await);
    assert_eq!((first.info.source, second.info.source), (Source::Load, Source::Redis));
    assert_eq!((first.info.version, second.info.version), (Some(42), Some(42)));
    assert!(second.info.ttl > Duration::from_secs(10) && second.info.ttl <= Duration::from_secs(30));
    let left: u64 = server.command(&["PTTL", &entry_key(&server, "a").await]).await.unwrap().parse().unwrap();
    assert!(left <= 90_000, "kept for {left} ms: lifetime and grace are 90 s");
    server.end().await;
}

#[tokio::test]
async fn settings_that_contradict_each_other_are_refused() {
    let build = |builder: stockade::cache::CacheBuilder<super::support::Sku, Stock>| {
        let loader = |_| async { Ok::<_, std::convert::Infallible>(None::<Stock>) };
        builder.loader(loader).try_build().err()
    };
    let setting = |error: Option<BuildError>| match error {
        Some(BuildError::Setting { setting, .. }) => setting,
        other => panic!("{other:?}"),
    };
    let too_long = Cache::memory().grace(Duration::from_secs(1)).stale_while_revalidate(Duration::from_secs(2));
    assert_eq!(setting(build(too_long)), "stale_while_revalidate");
    assert_eq!(setting(build(Cache::memory().early_refresh(-1.0))), "early_refresh");
    assert_eq!(setting(build(Cache::memory().early_refresh(f64::NAN))), "early_refresh");
    assert!(build(Cache::memory().load_timeout(Duration::MAX)).is_none(), "a load may take for ever");
}
