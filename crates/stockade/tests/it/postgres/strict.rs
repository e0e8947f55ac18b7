//! Strict caches: no read is older than a write that was acknowledged before it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering},
    },
    time::Duration,
};

use stockade::{
    Cache, Redis,
    cache::{BuildError, Loaded, Source},
    postgres::{CommitError, Relay},
};
use stockade_testbed::RedisServer;
use tokio::task::JoinSet;

use super::{
    Sku,
    cached::{World, online, read, release},
    database, looked_twice, quantity, until,
};
use crate::world;

#[tokio::test]
async fn no_value_is_served_or_stored_while_its_write_commits() {
    let world = World::start().await;
    let (writer, reader) = (world.cache().await, world.cache().await);
    assert_eq!(read(&reader).await, 10);
    assert!(world.is_stored().await);

    let holder = world.hold_commits().await;
    let tx = world.write(&writer, 9).await;
    let committing = async { tx.commit().await.unwrap() };
    let reading = async {
        world.announced().await;
        assert!(!world.is_stored().await, "announced, and the old value is still there");
        for _ in 0..3 {
            let lookup = reader.get(&Sku("a")).await.unwrap();
            assert_eq!((lookup.value.as_deref(), lookup.info.source), (Some(&10), Source::Load));
            assert!(!lookup.info.stored && !world.is_stored().await, "stored while a write commits");
        }
        release(holder).await;
    };
    tokio::join!(committing, reading);
    assert_eq!(read(&reader).await, 9);
    assert_eq!(world.keys('i').await, "", "an intent was left");
    assert!(world.is_stored().await, "nothing is stored after the write either");
    world.end().await;
}

#[tokio::test]
async fn a_commit_that_is_held_up_keeps_its_intent_however_long_it_takes() {
    let world = World::start().await;
    let (writer, reader) = (world.cache().await, world.cache().await);
    let holder = world.hold_commits().await;
    let tx = world.write(&writer, 9).await;
    let committing = async { tx.commit().await.unwrap() };
    let reading = async {
        world.announced().await;
        // This is longer than the age at which readers ask whether the transaction has ended, even twice.
        let since = tokio::time::Instant::now();
        while since.elapsed() < Duration::from_millis(3500) {
            assert_eq!(read(&reader).await, 10);
            assert!(!world.is_stored().await, "stored while a write commits");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        release(holder).await;
    };
    tokio::join!(committing, reading);
    assert_eq!(read(&reader).await, 9);
    world.end().await;
}

#[tokio::test]
async fn the_intent_of_a_writer_that_died_while_it_committed_is_ended_by_a_reader() {
    let world = World::start().await;
    let (writer, reader) = (world.cache().await, world.cache().await);
    // A relay would also end the intent, so there must be none.
    world.end_relay().await;
    let _holder = world.hold_commits().await;
    let tx = world.write(&writer, 9).await;
    let mut dying = JoinSet::new();
    dying.spawn(async move { tx.commit().await });
    world.announced().await;
    dying.shutdown().await;
    sqlx::query("select pg_terminate_backend(pid, 5000) from pg_stat_activity where wait_event = 'advisory'")
        .execute(&world.pool)
        .await
        .unwrap();
    assert_ne!(world.keys('i').await, "");
    until(async || {
        assert_eq!(read(&reader).await, 10);
        world.keys('i').await.is_empty() && world.is_stored().await
    })
    .await;
    world.end().await;
}

#[tokio::test]
async fn a_process_that_was_just_built_has_hits_and_writes_at_once() {
    let world = World::patient().await;
    assert_eq!(read(&world.cache().await).await, 10);
    let built = async || world::cached(world.at(&world.redis.url()).await.strict(&world.pool).build());
    assert_eq!(built().await.get(&Sku("a")).await.unwrap().info.source, Source::Redis);
    let writer = built().await;
    world.write(&writer, 9).await.commit().await.unwrap();
    assert_eq!(read(&writer).await, 9);
    world.end().await;
}

#[tokio::test]
async fn a_write_that_can_not_be_announced_is_not_applied() {
    let world = World::start().await;
    let cache = world.cache().await;
    assert_eq!(read(&cache).await, 10);
    let tx = world.write(&cache, 9).await;
    world.redis.pause().unwrap();
    let refused = tx.commit().await.unwrap_err();
    assert!(matches!(refused, CommitError::Announce(_)), "{refused:?}");
    assert_eq!(refused.applied(), Some(false));
    assert_eq!(quantity(&mut world.pool.acquire().await.unwrap()).await, 10);
    world.redis.resume().unwrap();
    // The server now runs the announcement that was sent while it was frozen. A reader finds the transaction over.
    until(async || {
        assert_eq!(read(&cache).await, 10);
        world.keys('i').await.is_empty() && world.is_stored().await
    })
    .await;
    world.end().await;
}

#[tokio::test]
async fn a_strict_cache_where_announcements_may_be_evicted_is_refused() {
    let (_postgres, pool) = database().await;
    let redis = Redis::builder("redis://127.0.0.1:1").allow_eviction().connect().await.unwrap();
    let build = |redis: &Redis, strict: bool| {
        let builder = Cache::<Sku, i32>::builder(redis).loader(|_| async { Ok::<_, std::io::Error>(None) });
        if strict { builder.strict(&pool) } else { builder }.try_build().map(drop)
    };
    assert!(matches!(build(&redis, true), Err(BuildError::Setting { setting: "strict", .. })));
    build(&redis, false).unwrap();
    let in_memory = Cache::<Sku, i32>::memory().loader(|_| async { Ok::<_, std::io::Error>(None) }).strict(&pool);
    assert!(matches!(in_memory.try_build(), Err(BuildError::Setting { setting: "strict", .. })));
    // Without `allow_eviction`, a server that evicts keys is refused.
    let server = RedisServer::builder().args(["--maxmemory-policy", "allkeys-lru"]).start().await.unwrap();
    let redis = Redis::builder(server.url()).command_timeout(Duration::from_secs(10)).connect().await;
    assert!(redis.is_err(), "{redis:?}");
}

#[tokio::test]
async fn no_value_of_a_strict_cache_outlives_the_outbox() {
    const KEPT: Duration = Duration::from_secs(600);
    let world = World::start().await;
    let url = world.redis.url();
    let long = KEPT + Duration::from_millis(1);
    for (setting, builder) in
        [("ttl", world.at(&url).await.ttl(KEPT..=long)), ("null_ttl", world.at(&url).await.null_ttl(long))]
    {
        let refused = builder.strict(&world.pool).try_build().map(drop).unwrap_err();
        let text = refused.to_string();
        assert!(text.contains(&format!("`{setting}`")) && text.contains("10 minutes"), "{text}");
    }
    let builder = world.at(&url).await.name("eventual").ttl(KEPT..=long).null_ttl(long);
    builder.try_build().map(drop).unwrap();

    // The lifetime that a loader gives is cut, both for a row and for an absence.
    let load = |sku: Sku| async move {
        let row = (sku.0 == "a").then_some(10);
        Ok::<_, sqlx::Error>(Loaded::new(row).ttl(KEPT * 6))
    };
    let builder = world.at(&url).await.ttl(KEPT..=KEPT).null_ttl(KEPT).grace(Duration::ZERO).loader(load);
    let cache = online(builder.strict(&world.pool)).await;
    for id in ["a", "b"] {
        let info = cache.get(&Sku(id)).await.unwrap().info;
        assert!(info.stored && info.ttl <= KEPT && info.ttl > KEPT / 2, "{id}: {info:?}");
    }
    for key in world.keys('e').await.lines() {
        let left: u64 = world.redis.command(&["PTTL", key]).await.unwrap().parse().unwrap();
        assert!(u128::from(left) <= KEPT.as_millis(), "{key} is kept for {left} ms");
    }
    world.end().await;
}

#[tokio::test]
async fn a_rollback_announces_nothing_and_keeps_the_value() {
    let world = World::start().await;
    let cache = world.cache().await;
    assert_eq!(read(&cache).await, 10);
    let tx = world.write(&cache, 9).await;
    tx.rollback().await.unwrap();
    assert_eq!(cache.get(&Sku("a")).await.unwrap().info.source, Source::Redis);
    assert_eq!(world.keys('i').await, "");
    world.end().await;
}

#[tokio::test]
async fn without_redis_every_read_is_a_load_of_its_own_time() {
    let world = World::start().await;
    let cache = world.cache().await;
    assert_eq!(read(&cache).await, 10);
    world.redis.kill().await.unwrap();
    until(async || cache.is_degraded()).await;
    for quantity in [8, 7, 6] {
        sqlx::query("update stock set quantity = $1").bind(quantity).execute(&world.pool).await.unwrap();
        let lookup = cache.get(&Sku("a")).await.unwrap();
        assert_eq!(lookup.value.as_deref(), Some(&quantity));
        assert!(lookup.info.degraded && lookup.info.source == Source::Load);
    }
    world.end().await;
}

#[tokio::test]
async fn while_no_relay_has_vouched_no_process_waits_for_the_load_of_another() {
    let world = World::patient().await;
    let [one, other] = [
        online(world.at(&world.redis.url()).await.strict(&world.pool)).await,
        online(world.at(&world.redis.url()).await.strict(&world.pool)).await,
    ];
    let gate = world.shut();
    let mut readers = JoinSet::new();
    for cache in [one, other] {
        let before = world.loads();
        readers.spawn(async move { assert_eq!(read(&cache).await, 10) });
        world.loaded_after(before).await;
    }
    gate.close();
    readers.join_all().await;
    world.end().await;
}

#[tokio::test]
async fn a_load_without_redis_is_not_shared_with_callers_that_came_after_its_query() {
    let world = World::start().await;
    let cache = world.cache().await;
    world.redis.kill().await.unwrap();
    until(async || cache.is_degraded()).await;
    let gate = world.shut();
    let mut readers = JoinSet::new();
    for quantity in [10, 9] {
        sqlx::query("update stock set quantity = $1").bind(quantity).execute(&world.pool).await.unwrap();
        let (cache, before) = (cache.clone(), world.loads());
        readers.spawn(async move { assert_eq!(read(&cache).await, quantity) });
        world.loaded_after(before).await;
    }
    gate.close();
    readers.join_all().await;
    world.end().await;
}

#[tokio::test]
async fn an_end_that_was_lost_is_made_up_for_by_the_relay() {
    let world = World::start().await;
    let cache = world.cache().await;
    let holder = world.hold_commits().await;
    let tx = world.write(&cache, 9).await;
    let committing = async { tx.commit().await.unwrap() };
    let freezing = async {
        world.announced().await;
        world.redis.pause().unwrap();
        release(holder).await;
    };
    tokio::join!(committing, freezing);
    // This PING waits until it fails. By then the writer has given up the end of its intent. Nobody reads the cache, so
    // the relay has to end the intent.
    world.redis.command(&["PING"]).await.unwrap_err();
    world.redis.resume().unwrap();
    until(async || world.keys('i').await.is_empty()).await;
    assert_eq!(read(&cache).await, 9);
    world.end().await;
}

#[tokio::test]
async fn a_store_that_comes_back_with_old_values_is_not_believed_until_they_are_dropped() {
    let world = World::start().await;
    let cache = world.cache().await;
    assert_eq!(read(&cache).await, 10);
    world.redis.command(&["SAVE"]).await.unwrap();
    world.write(&cache, 9).await.commit().await.unwrap();
    assert_eq!(read(&cache).await, 9);
    let relay = world.relay.lock().unwrap().take().unwrap();
    relay.shutdown(Duration::from_secs(1)).await;

    // The server reads the snapshot, with the value from before the write.
    world.redis.restart().await.unwrap();
    until(async || !cache.is_degraded()).await;
    assert!(world.is_stored().await, "the snapshot was not read");
    for _ in 0..3 {
        let lookup = cache.get(&Sku("a")).await.unwrap();
        assert_eq!((lookup.value.as_deref(), lookup.info.source), (Some(&9), Source::Load));
    }
    *world.relay.lock().unwrap() = Some(Relay::spawn(world.pool.clone(), [cache.invalidator()]));
    until(async || {
        let lookup = cache.get(&Sku("a")).await.unwrap();
        assert_eq!(lookup.value.as_deref(), Some(&9));
        lookup.info.source == Source::Redis
    })
    .await;
    world.end().await;
}

#[tokio::test]
async fn a_store_out_of_memory_is_vouched_for() {
    let world = World::patient().await;
    world.redis.command(&["CONFIG", "SET", "maxmemory", "1"]).await.unwrap();
    let cache = online(world.at(&world.redis.url()).await.strict(&world.pool)).await;
    *world.relay.lock().unwrap() = Some(Relay::spawn(world.pool.clone(), [cache.invalidator()]));
    until(async || {
        let marker = world.redis.command(&["KEYS", "*}j:stock"]).await.unwrap();
        world.redis.command(&["GET", &marker]).await.unwrap().ends_with(" t")
    })
    .await;
    world.redis.command(&["CONFIG", "SET", "maxmemory", "0"]).await.unwrap();
    world.end().await;
}

#[tokio::test]
async fn a_row_does_not_wait_for_the_transaction_that_a_new_run_waits_for() {
    let world = World::start().await;
    let cache = online(world.at(&world.redis.url()).await.strict(&world.pool)).await;
    // A long transaction has written something, and goes on.
    let mut long = world.pool.begin().await.unwrap();
    sqlx::query("set local idle_in_transaction_session_timeout = 0").execute(&mut *long).await.unwrap();
    sqlx::query("insert into stock values ('b', 1)").execute(&mut *long).await.unwrap();
    *world.relay.lock().unwrap() = Some(Relay::spawn(world.pool.clone(), [cache.invalidator()]));
    looked_twice(&world.pool, async || false).await;
    let left = "insert into stockade.outbox (cache, resource, created_at) values ('stock', 'stock:a', now() - interval '1 min')";
    sqlx::raw_sql(left).execute(&world.pool).await.unwrap();
    until(async || {
        let applied = "select count(applied_at) = 1 from stockade.outbox";
        sqlx::query_scalar(applied).fetch_one(&world.pool).await.unwrap()
    })
    .await;
    for _ in 0..3 {
        let source = cache.get(&Sku("a")).await.unwrap().info.source;
        assert_eq!(source, Source::Load, "believed while a transaction from before writes");
    }
    long.rollback().await.unwrap();
    until(async || cache.get(&Sku("a")).await.unwrap().info.source == Source::Redis).await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::print_stdout, reason = "how much was read is a result")]
async fn no_read_is_older_than_a_write_that_was_acknowledged_before_it() {
    const WRITES: i32 = 400;
    let world = World::start().await;
    let writer = world.cache().await;
    let acknowledged = Arc::new(AtomicI32::new(1000));
    let (done, reads, hits) =
        (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let tx = world.write(&writer, 1000).await;
    tx.commit().await.unwrap();
    let mut readers = JoinSet::new();
    for _ in 0..4 {
        let cache = world.cache().await;
        for _ in 0..4 {
            let (cache, acknowledged, done) = (cache.clone(), Arc::clone(&acknowledged), Arc::clone(&done));
            let (reads, hits) = (Arc::clone(&reads), Arc::clone(&hits));
            readers.spawn(async move {
                while !done.load(Ordering::Acquire) {
                    let least = acknowledged.load(Ordering::Acquire);
                    let lookup = cache.get(&Sku("a")).await.unwrap();
                    let seen = *lookup.value.unwrap();
                    assert!(seen >= least, "read {seen} after {least} was acknowledged, from {:?}", lookup.info);
                    reads.fetch_add(1, Ordering::Relaxed);
                    hits.fetch_add(usize::from(lookup.info.source == Source::Redis), Ordering::Relaxed);
                    tokio::task::yield_now().await;
                }
            });
        }
    }
    for number in 1..=WRITES {
        world.write(&writer, 1000 + number).await.commit().await.unwrap();
        acknowledged.store(1000 + number, Ordering::Release);
        if number % 10 == 0 {
            // Let the readers fill the cache, so that there is a value that could become stale.
            let before = hits.load(Ordering::Relaxed);
            until(async || hits.load(Ordering::Relaxed) > before).await;
        }
    }
    done.store(true, Ordering::Release);
    readers.join_all().await;
    let (reads, hits) = (reads.load(Ordering::Relaxed), hits.load(Ordering::Relaxed));
    println!("{WRITES} writes, {reads} reads, {hits} of them hits in Redis");
    assert!(hits > 100, "too few hits to show anything: {hits} of {reads}");
    world.end().await;
}

/// With the default settings, this is more keys than a connection takes at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_of_twenty_thousand_keys_is_announced_and_committed() {
    let world = World::start().await;
    let cache = world.cache().await;
    let mut tx = world.write(&cache, 9).await;
    // Postgres must not end the transaction during the announcement, however busy the machine is.
    sqlx::query("set local idle_in_transaction_session_timeout = '120s'").execute(&mut *tx).await.unwrap();
    for number in 0..20_000 {
        tx.invalidate(&cache, &Sku(number.to_string().leak()));
    }
    tx.commit().await.unwrap();
    assert_eq!(read(&cache).await, 9);
    assert!(!cache.is_degraded());
    until(async || world.keys('i').await.is_empty()).await;
    world.end().await;
}
