//! One load per key, and no value that outlives a write.

use std::{sync::Arc, time::Duration};

use futures_util::future::join;
use stockade::{
    Cache, Redis,
    cache::{BuildError, CacheError, Limits, Source},
};
use tokio::{
    task::JoinSet,
    time::{Instant, timeout},
};

use super::support::{
    Database, Loading, Sku, Stock, entry_key, eventually, field, get, held_load, one_read, patient, process, quantity,
    reading, sku, stored,
};
use crate::world::World;

const SOON: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_reads_of_a_cold_key_in_three_processes_are_one_load() {
    let server = World::start().await;
    let database = Database::with(&[("a", 7)]);
    database.slow(Duration::from_millis(200));
    for (id, expected) in [("a", Some(7)), ("absent", None)] {
        let before = database.loads();
        let mut processes = Vec::new();
        for _ in 0..3 {
            processes.push(patient(&server.url()).await.on(&database).await);
        }
        let mut tasks = JoinSet::new();
        for stocks in &processes {
            for _ in 0..334 {
                reading(&mut tasks, stocks, id);
            }
        }
        while let Some(found) = tasks.join_next().await {
            assert_eq!(quantity(&found.unwrap().unwrap()), expected);
        }
        assert_eq!(database.loads() - before, 1, "{id}");
        for stocks in &processes {
            let stats = stocks.stats();
            let ended = stats.hits_redis + stats.null + stats.load + stats.collapsed;
            assert_eq!((ended, stats.fetching), (334, 0), "{stats:?}");
        }
    }
    server.end().await;
}

#[tokio::test]
async fn a_hit_says_where_it_came_from() {
    let server = World::start().await;
    let database = Database::with(&[("a", 7)]);
    let stocks = process(&server).await.on(&database).await;
    let first = get(&stocks, "a").await.info;
    assert_eq!((first.source, first.stored, first.collapsed), (Source::Load, true, false));
    let second = get(&stocks, "a").await;
    assert_eq!(quantity(&second), Some(7));
    assert_eq!((second.info.source, second.info.stored, second.info.degraded), (Source::Redis, false, false));
    database.write("a", Some(8));
    stocks.invalidate(&sku("a")).await.unwrap();
    assert_eq!(quantity(&get(&stocks, "a").await), Some(8));
    assert_eq!(database.loads(), 2);
    server.end().await;
}

#[tokio::test]
async fn a_value_loaded_before_a_write_is_not_stored_after_it() {
    let server = World::start().await;
    let database = Database::with(&[("a", 0)]);
    let reader = process(&server).await.on(&database).await;
    let writer = process(&server).await.on(&database).await;

    let (gate, mut slow) = held_load(&database, &reader, "a").await;
    database.write("a", Some(1));
    writer.invalidate(&sku("a")).await.unwrap();
    gate.add_permits(1);
    // The call of this reader began before the write, so either value is right.
    slow.join_next().await.unwrap().unwrap().unwrap();
    assert_eq!(reader.stats().fill_rejected, 1);
    assert!(!stored(&server, "a").await, "the old value was stored");
    database.open();
    assert_eq!(quantity(&get(&reader, "a").await), Some(1));
    assert_eq!(quantity(&get(&writer, "a").await), Some(1));
    server.end().await;
}

#[tokio::test]
async fn a_late_fill_of_the_same_process_does_not_pass_for_the_newer_one() {
    let server = World::start().await;
    let database = Database::with(&[("a", 0)]);
    let stocks = process(&server).await.on(&database).await;

    let (first_gate, mut first) = held_load(&database, &stocks, "a").await;
    database.write("a", Some(1));
    stocks.invalidate(&sku("a")).await.unwrap();
    let (second_gate, mut second) = held_load(&database, &stocks, "a").await;
    // The older load ends while the newer one holds the lease.
    first_gate.add_permits(1);
    first.join_next().await.unwrap().unwrap().unwrap();
    assert!(!stored(&server, "a").await, "the fill of an older attempt passed");
    second_gate.add_permits(1);
    assert_eq!(quantity(&second.join_next().await.unwrap().unwrap().unwrap()), Some(1));
    database.open();
    assert_eq!(quantity(&get(&stocks, "a").await), Some(1));
    assert_eq!((stocks.stats().fill_rejected, database.loads()), (1, 2));
    server.end().await;
}

#[tokio::test]
async fn a_load_that_outlived_its_lease_does_not_overwrite_its_successor() {
    let server = World::start().await;
    let database = Database::with(&[("a", 0)]);
    let slow = process(&server).await.on(&database).await;
    let quick = process(&server).await.on(&database).await;

    let (gate, mut late) = held_load(&database, &slow, "a").await;
    database.open();
    // The lease expires, and the row changes without an invalidation, so that only the token can keep the order.
    let key = entry_key(&server, "a").await;
    server.command(&["HSET", &key, &field(&server, &key, "tokx").await.unwrap(), "1"]).await.unwrap();
    database.write("a", Some(1));
    assert_eq!(quantity(&get(&quick, "a").await), Some(1));
    gate.add_permits(1);
    late.join_next().await.unwrap().unwrap().unwrap();
    assert_eq!(slow.stats().fill_rejected, 1);
    assert_eq!(quantity(&get(&quick, "a").await), Some(1));
    assert_eq!(quantity(&get(&slow, "a").await), Some(1));
    server.end().await;
}

#[tokio::test]
async fn an_insert_is_not_hidden_by_the_absence_that_was_read_before_it() {
    let server = World::start().await;
    let database = Database::with(&[]);
    let stocks = process(&server).await.on(&database).await;

    let (gate, mut early) = held_load(&database, &stocks, "new").await;
    database.write("new", Some(5));
    stocks.invalidate(&sku("new")).await.unwrap();
    gate.add_permits(1);
    early.join_next().await.unwrap().unwrap().unwrap();
    database.open();
    assert_eq!(quantity(&get(&stocks, "new").await), Some(5));
    server.end().await;
}

#[tokio::test]
async fn waiters_in_other_processes_are_woken_by_the_fill() {
    let server = World::start().await;
    let database = Database::with(&[("a", 7)]);
    let leader = process(&server).await.on(&database).await;
    let waiter = process(&server).await.on(&database).await;
    let mut quickest = Duration::MAX;
    for _ in 0..5 {
        let (gate, mut tasks) = held_load(&database, &leader, "a").await;
        let key = entry_key(&server, "a").await;
        reading(&mut tasks, &waiter, "a");
        eventually("it has signed up", || async { server.command(&["HKEYS", &key]).await.unwrap().contains("w:") })
            .await;
        let began = Instant::now();
        gate.add_permits(1);
        while let Some(found) = tasks.join_next().await {
            assert_eq!(quantity(&found.unwrap().unwrap()), Some(7));
        }
        quickest = quickest.min(began.elapsed());
        leader.invalidate(&sku("a")).await.unwrap();
    }
    assert_eq!(database.loads(), 5);
    // Without the message the readers would wait for their poll, a quarter of a second.
    assert!(quickest < Duration::from_millis(100), "{quickest:?}");
    server.end().await;
}

#[tokio::test]
async fn a_loader_that_panics_fails_its_callers_and_not_the_next() {
    let server = World::start().await;
    let database = Database::with(&[("a", 7)]);
    let stocks = patient(&server.url()).await.on(&database).await;
    database.panics(true);
    let mut tasks = JoinSet::new();
    for _ in 0..10 {
        reading(&mut tasks, &stocks, "a");
    }
    while let Some(found) = tasks.join_next().await {
        assert!(matches!(found.unwrap(), Err(CacheError::Panicked)));
    }
    database.panics(false);
    let found = timeout(SOON, get(&stocks, "a")).await.expect("the lease was not given back");
    assert_eq!(quantity(&found), Some(7));
    server.end().await;
}

#[tokio::test]
async fn a_caller_that_goes_away_does_not_cancel_the_load() {
    let server = World::start().await;
    let database = Database::with(&[("a", 7)]);
    let stocks = process(&server).await.on(&database).await;
    let (gate, mut tasks) = held_load(&database, &stocks, "a").await;
    let mut other = one_read(&stocks, "a");
    tasks.shutdown().await;
    gate.add_permits(1);
    assert_eq!(quantity(&timeout(SOON, other.join_next()).await.unwrap().unwrap().unwrap().unwrap()), Some(7));
    eventually("the value is stored", || async { stored(&server, "a").await }).await;
    assert_eq!(database.loads(), 1);
    server.end().await;
}

#[test]
fn a_process_that_dies_while_it_loads_hands_over_at_the_end_of_its_lease() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let server = World::start().await;
        let database = Database::with(&[("a", 7)]);
        let dying = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let heir = process(&server).await.on(&database).await;
        let _gate = database.shut();
        let doomed = process(&server).await.load_timeout(Duration::from_millis(500));
        let mut tasks = JoinSet::new();
        let rows = Arc::clone(&database);
        tasks.spawn_on(async move { doomed.on(&rows).await.get(&sku("a")).await }, dying.handle());
        database.queried().await;
        database.open();
        assert!(field(&server, &entry_key(&server, "a").await, "tok").await.is_some());
        dying.shutdown_background();
        let began = Instant::now();
        assert_eq!(quantity(&get(&heir, "a").await), Some(7));
        assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
        assert_eq!(database.loads(), 2);
        server.end().await;
    });
}

#[tokio::test]
async fn while_a_writer_commits_nothing_is_stored() {
    let server = World::start().await;
    let database = Database::with(&[("a", 7)]);
    let stocks = process(&server).await.on(&database).await;
    get(&stocks, "a").await;
    let intents = entry_key(&server, "a").await.replace("}e:", "}i:");
    stocks.invalidate(&sku("a")).await.unwrap();
    server.command(&["HSET", &intents, "writer", "777 1700000000000000"]).await.unwrap();
    for _ in 0..2 {
        let found = get(&stocks, "a").await;
        assert_eq!((quantity(&found), found.info.source, found.info.stored), (Some(7), Source::Load, false));
    }
    assert_eq!(entry_key(&server, "a").await, "", "no lease was given either");
    server.command(&["DEL", &intents]).await.unwrap();
    assert!(get(&stocks, "a").await.info.stored);

    // An intent that comes while a load runs makes the store refuse its fill.
    stocks.invalidate(&sku("a")).await.unwrap();
    let (gate, mut tasks) = held_load(&database, &stocks, "a").await;
    server.command(&["HSET", &intents, "writer", "778 1700000000000000"]).await.unwrap();
    gate.add_permits(1);
    assert!(!tasks.join_next().await.unwrap().unwrap().unwrap().info.stored);
    assert!(!stored(&server, "a").await);
    server.command(&["DEL", &intents]).await.unwrap();
    stocks.invalidate(&sku("a")).await.unwrap();
    server.end().await;
}

#[tokio::test]
async fn lifetimes_are_drawn_from_their_range() {
    let server = World::start().await;
    let database = Database::default();
    for i in 0..200 {
        database.write(&i.to_string(), Some(i));
    }
    let database = Arc::new(database);
    let range = Duration::from_secs(100)..=Duration::from_secs(200);
    let stocks = process(&server).await.ttl(range.clone()).null_ttl(Duration::from_secs(30)).grace(Duration::ZERO);
    let stocks = stocks.batching(&database).on(&database).await;
    let began = Instant::now();
    let together: Vec<_> = (0..200).map(|i| sku(&i.to_string())).collect();
    stocks.get_many(&together).await;
    let mut lives = Vec::new();
    for i in 0..200 {
        let id = i.to_string();
        let told = get(&stocks, &id).await.info.ttl;
        let key = entry_key(&server, &id).await;
        let kept = Duration::from_millis(server.command(&["PTTL", &key]).await.unwrap().parse().unwrap());
        let lived = began.elapsed() + Duration::from_secs(2);
        assert!(kept <= *range.end() && kept + lived >= *range.start(), "{kept:?}");
        assert!(told.abs_diff(kept) < Duration::from_secs(2), "{told:?} {kept:?}");
        lives.push(kept);
    }
    lives.sort();
    assert!(lives[150] - lives[50] > Duration::from_secs(25), "not spread: {:?} to {:?}", lives[50], lives[150]);
    get(&stocks, "absent").await;
    let absent = server.command(&["PTTL", &entry_key(&server, "absent").await]).await.unwrap();
    assert!((28_000..=30_000).contains(&absent.parse::<u32>().unwrap()), "{absent}");
    server.end().await;
}

#[tokio::test]
async fn absence_is_kept_for_its_own_time_and_costs_no_load() {
    let server = World::start().await;
    let database = Database::with(&[]);
    let stocks = patient(&server.url()).await.null_ttl(Duration::from_secs(3)).grace(Duration::ZERO);
    let stocks = stocks.on(&database).await;
    assert!(get(&stocks, "absent").await.info.stored);
    for _ in 0..20 {
        let found = get(&stocks, "absent").await;
        assert!(found.value.is_none() && found.info.absent && found.info.source == Source::Redis);
    }
    assert_eq!((database.loads(), stocks.stats().null), (1, 20));
    eventually("the absence expires", || async {
        get(&stocks, "absent").await;
        database.loads() == 2
    })
    .await;
    server.end().await;
}

#[tokio::test]
async fn two_live_caches_of_one_name_are_refused() {
    let server = World::start().await;
    let redis = Redis::connect(server.url()).await.unwrap();
    let database = Database::with(&[]);
    let build = |redis: &Redis| Cache::<Sku, Stock>::builder(redis).loading(&database).try_build();
    let first = build(&redis).unwrap();
    assert_eq!(build(&redis).unwrap_err(), BuildError::NameTaken("stock"));
    assert!(build(&redis.clone().namespace("other")).is_ok());
    assert!(Cache::<Sku, Stock>::builder(&redis).name("second").loading(&database).try_build().is_ok());
    drop(first);
    assert!(build(&redis).is_ok());
    let nameless = Cache::<Sku, Stock>::memory().name("Not a name").loading(&database).try_build();
    assert!(matches!(nameless, Err(BuildError::Name(_))));
    assert_eq!(Cache::<Sku, Stock>::memory().try_build().unwrap_err(), BuildError::NoLoader("stock"));
    server.end().await;
}

#[tokio::test]
async fn shutdown_waits_for_loads_and_begins_none() {
    let server = World::start().await;
    let database = Database::with(&[("a", 7), ("b", 8)]);
    let stocks = process(&server).await.on(&database).await;
    let (gate, mut tasks) = held_load(&database, &stocks, "a").await;
    let ending = stocks.clone();
    let mut closing = JoinSet::new();
    closing.spawn(async move { ending.shutdown(SOON).await });
    eventually("loads are refused", || async { matches!(stocks.get(&sku("b")).await, Err(CacheError::ShuttingDown)) })
        .await;
    gate.add_permits(1);
    assert_eq!(quantity(&tasks.join_next().await.unwrap().unwrap().unwrap()), Some(7));
    timeout(SOON, closing.join_next()).await.unwrap();
    assert!(stored(&server, "a").await);

    // A load that does not end is given up.
    let stocks = process(&server).await.on(&database).await;
    reading(&mut tasks, &stocks, "b");
    database.queried().await;
    timeout(SOON, stocks.shutdown(Duration::from_millis(50))).await.unwrap();
    assert!(matches!(tasks.join_next().await.unwrap().unwrap(), Err(CacheError::ShuttingDown)));
    server.end().await;
}

#[tokio::test]
async fn a_load_that_waits_for_its_turn_ends_with_the_cache() {
    let database = Database::with(&[("a", 7), ("b", 8)]);
    let limits = Limits::new(1, None);
    let stocks = Cache::memory().limits(&limits).loading(&database).build();
    let (gate, mut tasks) = held_load(&database, &stocks, "a").await;
    let other = sku("b");
    let waiting = stocks.get(&other);
    let (ending, mut closing) = (stocks.clone(), JoinSet::new());
    let shut_down = async {
        eventually("it waits", || async { !format!("{limits:?}").contains("free_in_queue: 8192") }).await;
        closing.spawn(async move { ending.shutdown(SOON).await });
    };
    let (waiting, ()) = timeout(SOON, join(waiting, shut_down)).await.unwrap();
    assert!(matches!(waiting, Err(CacheError::ShuttingDown)), "{waiting:?}");
    gate.add_permits(1);
    assert_eq!(quantity(&tasks.join_next().await.unwrap().unwrap().unwrap()), Some(7));
    timeout(SOON, closing.join_next()).await.unwrap();
    assert_eq!(database.loads(), 1);
}

#[tokio::test]
async fn in_memory_the_same_rules_hold_without_a_server() {
    let database = Database::with(&[("a", 0)]);
    database.slow(Duration::from_millis(50));
    let stocks = Cache::memory().loading(&database).build();
    let mut tasks = JoinSet::new();
    for _ in 0..100 {
        reading(&mut tasks, &stocks, "a");
        reading(&mut tasks, &stocks, "absent");
    }
    while let Some(found) = tasks.join_next().await {
        found.unwrap().unwrap();
    }
    assert_eq!(database.loads(), 2);
    assert_eq!(get(&stocks, "a").await.info.source, Source::Local);
    assert!(get(&stocks, "absent").await.info.absent);
    assert!(!stocks.is_degraded());

    stocks.invalidate(&sku("a")).await.unwrap();
    let gate = database.shut();
    reading(&mut tasks, &stocks, "a");
    database.queried().await;
    database.write("a", Some(1));
    stocks.invalidate(&sku("a")).await.unwrap();
    database.open();
    gate.add_permits(1);
    tasks.join_next().await.unwrap().unwrap().unwrap();
    assert_eq!(quantity(&get(&stocks, "a").await), Some(1));
    assert_eq!(stocks.stats().fill_rejected, 1);
}
