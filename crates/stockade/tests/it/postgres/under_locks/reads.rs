//! Which reads are served from memory under a lock.

use std::time::Duration;

use axum::response::IntoResponse;
use stockade::{
    Cache, Locks, Redis,
    cache::Source,
    extract::CACHE_STATUS,
    postgres::{Relay, Tx},
};
use stockade_testbed::{Fault, Proxy};
use tokio::{task::JoinSet, time::Instant};

use super::{behind_a_proxy, visit::Visit};
use crate::postgres::{
    Sku,
    cached::{World, online},
    pending, until,
};

/// Sets the quantity under the lock.
async fn write(world: &World, locks: &Locks, cache: &Cache<Sku, i32>, quantity: i32) {
    let held = locks.write(&Sku("a")).acquire().await.unwrap();
    let mut tx = held.begin(&world.pool).await.unwrap();
    sqlx::query("update stock set quantity = $1").bind(quantity).execute(&mut *tx).await.unwrap();
    tx.invalidate(cache, &Sku("a"));
    tx.commit().await.unwrap();
    held.release().await.unwrap();
}

#[tokio::test]
async fn what_was_asked_for_under_the_lock_is_served_from_memory() {
    let world = World::patient().await;
    let cache = online(world.at(&world.redis.url()).await.under_locks()).await;
    let locks = world.redis.locks().await;
    let mut visit = Visit::begin(&locks, &cache).await;
    let loaded = visit.read().await;
    assert_eq!((*loaded, loaded.info().source), (10, Source::Load));
    let tag = loaded.etag().unwrap();
    for _ in 0..3 {
        let found = visit.read().await;
        assert_eq!((*found, found.info().source, found.info().degraded), (10, Source::Local, false));
        assert_eq!(found.etag(), Some(tag));
        let status = found.into_response().headers()[CACHE_STATUS].to_str().unwrap().to_owned();
        assert!(status.starts_with("stockade; hit; ttl=") && status.ends_with("; detail=local"), "{status}");
    }
    assert_eq!(cache.stats().hits_local, 3);

    visit.leave().await;
    write(&world, &locks, &cache, 9).await;
    let mut visit = Visit::begin(&locks, &cache).await;
    assert_eq!((*visit.read().await, visit.read().await.info().source), (9, Source::Local));
    // Values that another process has loaded, and absences, are also served from memory.
    let other = online(world.at(&world.redis.url()).await.under_locks()).await;
    let (mut beside, loads) = (Visit::begin(&locks, &other).await, world.loads());
    let sources = [beside.read().await.info().source, beside.read().await.info().source];
    assert_eq!((sources, world.loads()), ([Source::Redis, Source::Local], loads));
    let mut absent = Visit::under(Visit::lock(&locks, "none").read(), &cache, "none").await;
    let looks = [absent.look().await, absent.look().await].map(|info| (info.absent, info.source));
    assert_eq!(looks, [(true, Source::Load), (true, Source::Local)]);
    drop((visit, beside, absent));
    world.end().await;
}

#[tokio::test]
async fn without_a_shared_lock_of_its_key_nothing_is_served_from_memory() {
    let world = World::patient().await;
    let cache = online(world.at(&world.redis.url()).await.under_locks()).await;
    let other = online(world.at(&world.redis.url()).await.name("others")).await;
    let locks = world.redis.locks().await;
    // This lock is taken before the value is read into memory. A lock taken later would never allow that value.
    let mut elsewhere = Visit::under(Visit::lock(&locks, "b").read(), &cache, "a").await;
    let mut visit = Visit::begin(&locks, &cache).await;
    visit.read().await;
    assert_eq!(visit.read().await.info().source, Source::Local);
    let unlocked = cache.get(&Sku("a")).await.unwrap();
    assert_eq!(unlocked.info.source, Source::Redis);
    assert_eq!(elsewhere.read().await.info().source, Source::Redis);
    // This cache is built without `under_locks`.
    let mut plain = Visit::begin(&locks, &other).await;
    assert_eq!((plain.read().await.info().source, plain.read().await.info().source), (Source::Load, Source::Redis));
    // The request is over, so a writer may hold the lock.
    visit.leave().await;
    assert_eq!(visit.read().await.info().source, Source::Redis);
    drop(plain);
    let mut writer = Visit::under(Visit::lock(&locks, "a").write(), &cache, "a").await;
    writer.read().await;
    assert_eq!(writer.read().await.info().source, Source::Redis);
    drop((writer, elsewhere));
    world.end().await;
}

#[tokio::test]
async fn under_another_lock_the_first_read_asks_redis_and_the_next_ones_do_not() {
    let world = World::patient().await;
    let cache = online(world.at(&world.redis.url()).await.under_locks()).await;
    let redis = Redis::connect(world.redis.url()).await.unwrap();
    let locks = world.redis.locks_of(Locks::builder().delegate(false), &redis).await;
    let mut visit = Visit::begin(&locks, &cache).await;
    visit.read().await;
    for _ in 0..3 {
        visit.leave().await;
        visit = Visit::begin(&locks, &cache).await;
        let sources = [visit.read().await.info().source, visit.read().await.info().source];
        assert_eq!((sources, world.loads()), ([Source::Redis, Source::Local], 1));
    }
    drop(visit);
    world.end().await;
}

#[tokio::test]
async fn readers_that_share_a_lock_serve_each_other_until_a_writer_comes() {
    let world = World::patient().await;
    let cache = online(world.at(&world.redis.url()).await.under_locks()).await;
    let (here, there) = (world.redis.locks().await, world.redis.locks().await);
    let read = async || {
        let found = Visit::begin(&here, &cache).await.read().await;
        (*found, found.info().source)
    };
    for quantity in [10, 9, 8] {
        if quantity < 10 {
            write(&world, &there, &cache, quantity).await;
        }
        until(async || read().await == (quantity, Source::Local)).await;
        let hits = cache.stats().hits_redis;
        for _ in 0..20 {
            assert_eq!(read().await.0, quantity);
        }
        assert!(cache.stats().hits_redis < hits + 20, "each had a lock of its own");
    }
    world.end().await;
}

#[tokio::test]
async fn what_was_asked_for_before_the_lock_is_not_served_under_it() {
    let (world, proxy, [writer, reader], [locks, _]) = behind_a_proxy().await;
    let mut visit = Visit::begin(&locks, &reader).await;
    assert_eq!((*visit.read().await, visit.read().await.info().source), (10, Source::Local));
    visit.leave().await;
    // The message of the write arrives a second later than the lock.
    proxy.set(Fault::Delay(Duration::from_secs(1)));
    write(&world, &locks, &writer, 9).await;
    let mut visit = Visit::begin(&locks, &reader).await;
    assert_eq!(*visit.read().await, 9, "what was there before a write that was acknowledged");
    proxy.set(Fault::None);
    drop(visit);
    world.end_behind(proxy).await;
}

#[tokio::test]
async fn what_was_asked_for_before_the_lock_and_answered_under_it_is_not_served_under_it() {
    let (world, proxy, [writer, reader], [locks, _]) = behind_a_proxy().await;
    writer.get(&Sku("a")).await.unwrap();
    world.redis.command(&["CONFIG", "RESETSTAT"]).await.unwrap();
    proxy.set(Fault::Delay(Duration::from_millis(500)));
    let mut early = JoinSet::new();
    early.spawn({
        let reader = reader.clone();
        async move { reader.get(&Sku("a")).await }
    });
    until(async || world.redis.calls_of("hget").await.unwrap() == 1).await;
    // The answer is on its way. The message of the write arrives long after it.
    proxy.set(Fault::Delay(Duration::from_secs(2)));
    write(&world, &locks, &writer, 9).await;
    let mut visit = Visit::begin(&locks, &reader).await;
    let early = early.join_next().await.unwrap().unwrap().unwrap();
    assert_eq!((early.value.as_deref(), early.info.source), (Some(&10), Source::Redis));
    proxy.set(Fault::None);
    assert_eq!(*visit.read().await, 9, "what was there before a write that was acknowledged");
    drop(visit);
    world.end_behind(proxy).await;
}

#[tokio::test]
async fn what_the_relay_drops_while_it_is_read_is_not_served_after() {
    let world = World::start().await;
    let proxy = Proxy::start(world.redis.addr()).await.unwrap();
    let writer = online(world.at(&proxy.url_for(&world.redis.url())).await.under_locks()).await;
    let reader = online(world.at(&world.redis.url()).await.under_locks()).await;
    let locks = world.redis.locks().await;
    let mut visit = Visit::begin(&locks, &reader).await;
    // A load has read the row, and its value is on the way to the cache.
    let (gate, before) = (world.shut(), world.loads());
    let mut reads = JoinSet::new();
    reads.spawn(async move {
        let early = *visit.read().await;
        (visit, early)
    });
    world.loaded_after(before).await;
    world.open();
    // The writer has lost its lock and can't reach the cache.
    proxy.set(Fault::Hole);
    let mut tx = Tx::unfenced(&world.pool).await.unwrap();
    sqlx::query("update stock set quantity = 9").execute(&mut *tx).await.unwrap();
    tx.invalidate(&writer, &Sku("a"));
    tx.commit().await.unwrap();
    let relay = Relay::spawn(world.pool.clone(), [reader.invalidator()]);
    until(async || pending(&world.pool).await == 0).await;
    gate.close();
    let (mut visit, early) = reads.join_next().await.unwrap().unwrap();
    assert_eq!(early, 10, "it began before the write was known");
    assert_eq!(*visit.read().await, 9);
    relay.shutdown(Duration::from_secs(5)).await;
    drop(visit);
    proxy.set(Fault::None);
    world.end_behind(proxy).await;
}

/// A write without the lock is seen as late as with a cache that does not use locks.
#[tokio::test]
async fn a_write_under_no_lock_is_seen_after_three_seconds_of_silence_at_most() {
    let world = World::start().await;
    let proxy = Proxy::start(world.redis.addr()).await.unwrap();
    let writer = online(world.at(&world.redis.url()).await).await;
    let reader = online(world.at(&proxy.url_for(&world.redis.url())).await.under_locks()).await;
    let locks = world.redis.locks().await;
    let mut visit = Visit::begin(&locks, &reader).await;
    visit.read().await;
    assert_eq!(visit.read().await.info().source, Source::Local);
    proxy.set(Fault::Hole);
    let cut = Instant::now();
    world.write(&writer, 9).await.commit().await.unwrap();
    let mut served = 0;
    while cut.elapsed() < Duration::from_secs(4) {
        let asked = cut.elapsed();
        let found = visit.read().await;
        let info = found.info();
        served += u32::from(info.source == Source::Local && !info.degraded);
        assert!(*found == 9 || info.degraded || asked < Duration::from_millis(3100), "stale after {asked:?}: {info:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(served > 0, "as long as it is live it is believed");
    proxy.set(Fault::None);
    drop(visit);
    world.end_behind(proxy).await;
}

#[tokio::test]
async fn a_strict_cache_refuses_to_serve_from_memory_under_locks() {
    let world = World::start().await;
    let builder = world.at(&world.redis.url()).await.strict(&world.pool).under_locks();
    let error = builder.try_build().unwrap_err().to_string();
    assert!(error.contains("`under_locks`") && error.contains("`strict`"), "{error}");
    world.end().await;
}
