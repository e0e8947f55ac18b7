//! A Redis that comes back without writes that it had acknowledged, or a replica that takes over without them.

use std::{sync::Arc, time::Duration};

use stockade::{
    Redis,
    cache::{Loaded, Source},
    postgres::{Relay, Tx},
};
use stockade_testbed::{Fault, Proxy, RedisServer, SentinelGroup};
use tokio::{task::JoinSet, time::Instant};

use super::{
    Sku,
    cached::{World, has, online, read, release, source, stock_at},
    cut_off::vouched_by_hand,
    looked_twice, pending, until,
};
use crate::{log::Log, world::Group};

#[tokio::test]
async fn a_write_that_a_failover_lost_is_not_read_from_before_it() {
    let world = World::patient().await;
    let group = Group::of(SentinelGroup::builder().arg("--min-replicas-to-write").arg("1")).await;
    let cache = online(world.at(&group.url()).await.strict(&world.pool)).await;
    let old = group.primary().await.unwrap();
    vouched_by_hand(old, &cache).await;
    assert_eq!(read(&cache).await, 10);
    let key = old.command(&["KEYS", "*}e:stock:stock:a"]).await.unwrap();
    for server in group.servers() {
        until(async || has(server, &key, "v").await).await;
    }

    // The write is announced, committed and ended on a primary that has lost its replicas. That is possible in the last
    // moments before the primary refuses writes.
    old.command(&["CONFIG", "SET", "min-replicas-to-write", "0"]).await.unwrap();
    group.cut_replication().await.unwrap();
    world.write(&cache, 9).await.commit().await.unwrap();
    let primary = group.failover().await.unwrap();
    group.mend_replication().await.unwrap();
    until(async || !cache.is_degraded()).await;
    assert!(has(primary, &key, "v").await, "the old value did not survive");
    for _ in 0..3 {
        let lookup = cache.get(&Sku("a")).await.unwrap();
        assert_eq!((lookup.value.as_deref(), lookup.info.source), (Some(&9), Source::Load));
    }
    *world.relay.lock().unwrap() = Some(Relay::spawn(world.pool.clone(), [cache.invalidator()]));
    until(async || {
        assert_eq!(read(&cache).await, 9);
        source(&cache).await == Source::Redis
    })
    .await;
    let relay = world.relay.lock().unwrap().take().unwrap();
    relay.shutdown(Duration::from_secs(5)).await;
    group.end().await;
    world.end().await;
}

#[tokio::test]
async fn a_run_that_lost_an_announcement_is_not_believed_before_its_transaction_is_over() {
    let world = World::patient().await;
    let reader = world.cache().await;
    let proxy = Proxy::start(world.redis.addr()).await.unwrap();
    // The writer soon gives up the end of its intent. Otherwise a relay would make up for it before the commit returns.
    let redis = Redis::connect(proxy.url_for(&world.redis.url()).as_str()).await.unwrap();
    let writer = online(stock_at(&redis, &world.pool, &Arc::default()).strict(&world.pool)).await;
    let holder = world.hold_commits().await;
    let tx = world.write(&writer, 9).await;
    let mut commits = JoinSet::new();
    commits.spawn(async move { tx.commit().await.unwrap() });
    world.announced().await;
    assert_ne!(world.keys('i').await, "");

    // The announcement is lost with the run of the server, and the writer can't tell the next run of its commit.
    proxy.set(Fault::Hole);
    world.redis.restart().await.unwrap();
    until(async || !reader.is_degraded()).await;
    looked_twice(&world.pool, async || source(&reader).await == Source::Redis).await;
    release(holder).await;
    commits.join_next().await.unwrap().unwrap();
    until(async || {
        assert_eq!(read(&reader).await, 9, "an answer from before an acknowledged write");
        source(&reader).await == Source::Redis
    })
    .await;
    world.end_behind(proxy).await;
}

#[tokio::test]
async fn the_relay_tells_once_for_which_transactions_it_waits() {
    let world = World::patient().await;
    let (log, _logging) = Log::start();
    let cache = online(world.at(&world.redis.url()).await.strict(&world.pool)).await;
    let mut writing = world.pool.begin().await.unwrap();
    sqlx::query("set local idle_in_transaction_session_timeout = 0").execute(&mut *writing).await.unwrap();
    let xid: String = sqlx::query_scalar("select pg_current_xact_id()::text").fetch_one(&mut *writing).await.unwrap();
    let since = Instant::now();
    *world.relay.lock().unwrap() = Some(Relay::spawn(world.pool.clone(), [cache.invalidator()]));
    let told = || log.text().lines().filter(|line| line.contains("pg_stat_activity")).count();
    until(async || told() > 0).await;
    assert!(since.elapsed() >= Duration::from_secs(10), "told after {:?}", since.elapsed());
    // The warning names a transaction id above that of the transaction, and the cache that waits.
    let text = log.text();
    let line = text.lines().find(|line| line.contains("pg_stat_activity")).unwrap();
    let below = line.split("below ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    assert!(xid.parse::<u64>().unwrap() < below.parse().unwrap(), "{xid} is not named by {line}");
    assert!(line.contains("WARN") && line.contains(r#"cache="stock""#), "{line}");
    looked_twice(&world.pool, async || false).await;
    assert_eq!(told(), 1, "{}", log.text());
    writing.rollback().await.unwrap();
    until(async || source(&cache).await == Source::Redis).await;
    world.end().await;
}

#[tokio::test]
async fn a_run_is_not_believed_because_it_has_served_for_long() {
    let world = World::patient().await;
    let pool = world.pool.clone();
    // The loader gives its values a much longer life than the cache would.
    let load = move |sku: Sku| {
        let pool = pool.clone();
        async move {
            let select = sqlx::query_scalar("select quantity from stock where sku = $1");
            let row: Option<i32> = select.bind(sku.0).fetch_optional(&pool).await?;
            Ok::<_, sqlx::Error>(Loaded::new(row).ttl(Duration::from_secs(600)))
        }
    };
    let brief = Duration::from_millis(1)..=Duration::from_millis(1);
    let builder = world.at(&world.redis.url()).await.ttl(brief).grace(Duration::ZERO).loader(load);
    let cache = online(builder.strict(&world.pool)).await;
    world.vouched(&cache).await;
    assert_eq!(read(&cache).await, 10);
    let relay = world.relay.lock().unwrap().take().unwrap();
    relay.shutdown(Duration::from_secs(1)).await;
    world.redis.command(&["SAVE"]).await.unwrap();
    world.write(&cache, 9).await.commit().await.unwrap();
    world.redis.restart().await.unwrap();
    until(async || !cache.is_degraded()).await;
    assert!(world.is_stored().await, "the snapshot was not read");
    // For a second the cache asks again and again, and nobody vouches for the run. The reads are of another row, since
    // a read of `a` would store its new value.
    let since = Instant::now();
    until(async || {
        let other = cache.get(&Sku("b")).await.unwrap().info.source;
        other == Source::Redis || since.elapsed() > Duration::from_secs(1)
    })
    .await;
    assert_eq!(read(&cache).await, 9, "an answer from before an acknowledged write");
    world.end().await;
}

#[tokio::test]
async fn whoever_comes_after_a_flush_is_vouched_for_by_the_relay_of_another_process() {
    let world = World::patient().await;
    let with_relay = world.cache().await;
    assert_eq!(read(&with_relay).await, 10);
    world.redis.command(&["FLUSHALL"]).await.unwrap();
    let newcomer = online(world.at(&world.redis.url()).await.strict(&world.pool)).await;
    until(async || source(&newcomer).await == Source::Redis).await;
    until(async || source(&with_relay).await == Source::Redis).await;
    world.end().await;
}

/// As a backup by `redis-cli --rdb` does, a replica comes and goes: the server has another replication id since then.
#[tokio::test]
async fn whoever_comes_after_a_backup_is_vouched_for_by_the_relay_of_another_process() {
    let world = World::patient().await;
    let with_relay = world.cache().await;
    let replica = RedisServer::start().await.unwrap();
    let port = world.redis.addr().port().to_string();
    replica.command(&["REPLICAOF", "127.0.0.1", &port]).await.unwrap();
    until(async || replica.command(&["INFO"]).await.unwrap().contains("master_link_status:up")).await;
    replica.command(&["REPLICAOF", "NO", "ONE"]).await.unwrap();
    drop(replica);
    let newcomer = online(world.at(&world.redis.url()).await.strict(&world.pool)).await;
    until(async || source(&newcomer).await == Source::Redis).await;
    until(async || source(&with_relay).await == Source::Redis).await;
    world.end().await;
}

/// The relay that drops the value belongs to a process that never saw the run before. The snapshot may lack the marker
/// of that run, because it was evicted.
async fn dropped_by_who_came_after(marker_is_evicted: bool) {
    let world = World::patient().await;
    let witness = online(world.at(&world.redis.url()).await).await;
    let relay = Relay::spawn(world.pool.clone(), [witness.invalidator()]);
    assert_eq!(read(&witness).await, 10);
    if marker_is_evicted {
        let marker = world.redis.command(&["KEYS", "*}j:stock"]).await.unwrap();
        assert_eq!(world.redis.command(&["DEL", &marker]).await.unwrap(), "1");
    }
    world.redis.command(&["SAVE"]).await.unwrap();
    world.write(&witness, 9).await.commit().await.unwrap();
    // No process is left that saw the server go, and no row waits to be applied.
    relay.shutdown(Duration::from_secs(1)).await;
    witness.shutdown(Duration::from_secs(1)).await;
    assert_eq!(pending(&world.pool).await, 0);
    world.redis.restart().await.unwrap();
    let cache = online(world.at(&world.redis.url()).await).await;
    assert_eq!(read(&cache).await, 10, "the snapshot was not read");
    *world.relay.lock().unwrap() = Some(Relay::spawn(world.pool.clone(), [cache.invalidator()]));
    until(async || read(&cache).await == 9).await;
    world.end().await;
}

#[tokio::test]
async fn a_value_that_a_restart_brought_back_is_dropped_by_the_relay_of_who_came_after_it() {
    dropped_by_who_came_after(false).await;
}

#[tokio::test]
async fn a_value_that_a_restart_brought_back_without_the_marker_of_the_run_is_dropped() {
    dropped_by_who_came_after(true).await;
}

#[tokio::test]
async fn a_value_that_a_restart_brought_back_is_dropped_by_the_relay() {
    let world = World::patient().await;
    let cache = online(world.at(&world.redis.url()).await).await;
    let relay = Relay::spawn(world.pool.clone(), [cache.invalidator()]);
    assert_eq!(read(&cache).await, 10);
    assert_eq!(source(&cache).await, Source::Redis);
    world.redis.command(&["SAVE"]).await.unwrap();
    world.write(&cache, 9).await.commit().await.unwrap();
    assert_eq!(read(&cache).await, 9);
    relay.shutdown(Duration::from_secs(1)).await;
    assert_eq!(pending(&world.pool).await, 0, "nothing is left to do");

    // A strict cache would wait for this transaction, perhaps until the row is deleted.
    let mut writing = world.pool.begin().await.unwrap();
    sqlx::raw_sql("set local idle_in_transaction_session_timeout = 0; select pg_current_xact_id()")
        .execute(&mut *writing)
        .await
        .unwrap();
    world.redis.restart().await.unwrap();
    until(async || !cache.is_degraded()).await;
    assert_eq!(read(&cache).await, 10, "the snapshot was not read");
    *world.relay.lock().unwrap() = Some(Relay::spawn(world.pool.clone(), [cache.invalidator()]));
    until(async || read(&cache).await == 9).await;
    writing.rollback().await.unwrap();
    world.end().await;
}

#[tokio::test]
async fn an_absence_that_a_restart_brought_back_is_dropped_although_no_value_is_left() {
    let world = World::patient().await;
    let brief = Duration::from_millis(1)..=Duration::from_millis(1);
    let cache = online(world.at(&world.redis.url()).await.ttl(brief).grace(Duration::ZERO)).await;
    let relay = Relay::spawn(world.pool.clone(), [cache.invalidator()]);
    let found = async || cache.get(&Sku("new")).await.unwrap().value.is_some();
    assert!(!found().await);
    world.redis.command(&["SAVE"]).await.unwrap();
    let mut tx = Tx::unfenced(&world.pool).await.unwrap();
    sqlx::query("insert into stock values ('new', 3)").execute(&mut *tx).await.unwrap();
    tx.invalidate(&cache, &Sku("new"));
    tx.commit().await.unwrap();
    assert!(found().await);
    relay.shutdown(Duration::from_secs(1)).await;
    assert_eq!(pending(&world.pool).await, 0, "nothing is left to do");
    world.redis.restart().await.unwrap();
    until(async || !cache.is_degraded()).await;
    assert!(!found().await, "the snapshot was not read");
    // The cache asks each second whether the run is trusted by now.
    let since = Instant::now();
    until(async || since.elapsed() > Duration::from_secs(2)).await;
    *world.relay.lock().unwrap() = Some(Relay::spawn(world.pool.clone(), [cache.invalidator()]));
    until(found).await;
    world.end().await;
}
