//! A process that is killed between its COMMIT and the invalidation that follows.

use std::sync::Arc;

use stockade::{cache::Source, postgres::Relay};
use stockade_testbed::{Fault, PostgresServer, Proxy};

use super::{
    Sku,
    cached::{World, online, read, release, stock_at, write},
    pool, quantity, until,
};
use crate::{
    child::{Child, say, wait_for_parent},
    world,
};

/// The kind of cache that the child writes to, and the addresses of its servers. Unset in an ordinary test run.
const KIND: &str = "CRASHED";
const REDIS: &str = "CRASHED_REDIS";
const POSTGRES: &str = "CRASHED_POSTGRES";

/// The child, when the tests below start it in a process of its own. In an ordinary run it does nothing.
#[tokio::test]
async fn a_writer() {
    let Ok(kind) = std::env::var(KIND) else { return };
    let pool = pool(&std::env::var(POSTGRES).unwrap()).await;
    let builder = stock_at(&world::patient(&std::env::var(REDIS).unwrap()).await, &pool, &Arc::default());
    let cache = online(if kind == "strict" { builder.strict(&pool) } else { builder }).await;
    let mut tx = write(&pool, &cache, 9).await;
    // The key of this long id is stored by its hash.
    tx.invalidate(&cache, &Sku(str::repeat("x", 600).leak()));
    say("written");
    tx.commit().await.unwrap();
    wait_for_parent().await;
}

/// The child commits, and is killed before it can tell Redis.
async fn crash(world: &World, kind: &str) {
    let holder = world.hold_commits().await;
    let proxy = Proxy::start(world.redis.addr()).await.unwrap();
    let places =
        [(KIND, kind.to_owned()), (REDIS, proxy.url_for(&world.redis.url())), (POSTGRES, world.postgres.url())];
    let mut child = Child::start("postgres::crashed::a_writer", &places);
    child.says("written").await;
    world.committing().await;
    proxy.set(Fault::Hole);
    release(holder).await;
    until(async || quantity(&mut world.pool.acquire().await.unwrap()).await == 9).await;
    child.kill().await;
    // The commands that the child sent into the hole are lost with its connections.
    proxy.set(Fault::Reset);
}

#[tokio::test]
async fn the_relay_of_another_process_makes_the_invalidation_of_one_that_was_killed() {
    let world = World::patient().await;
    let reader = online(world.at(&world.redis.url()).await).await;
    assert_eq!(read(&reader).await, 10);
    crash(&world, "eventual").await;
    assert_eq!(read(&reader).await, 10, "somebody invalidated it: nothing is shown here");
    *world.relay.lock().unwrap() = Some(Relay::spawn(world.pool.clone(), [reader.invalidator()]));
    until(async || read(&reader).await == 9).await;
    world.end().await;
}

#[tokio::test]
async fn what_a_strict_writer_announced_that_was_killed_before_its_commit_is_swept_though_nobody_reads_it() {
    let world = World::patient().await;
    let reader = world.cache().await;
    let _holder = world.hold_commits().await;
    let places = [(KIND, "strict".to_owned()), (REDIS, world.redis.url()), (POSTGRES, world.postgres.url())];
    let mut child = Child::start("postgres::crashed::a_writer", &places);
    child.says("written").await;
    world.announced().await;
    child.kill().await;
    sqlx::query("select pg_terminate_backend(pid, 5000) from pg_stat_activity where wait_event = 'advisory'")
        .execute(&world.pool)
        .await
        .unwrap();
    until(async || world.keys('i').await.is_empty()).await;
    assert_eq!(world.redis.command(&["KEYS", "*}a:*"]).await.unwrap(), "", "it is still looked at");
    assert_eq!(read(&reader).await, 10);
    world.end().await;
}

#[tokio::test]
async fn what_was_announced_of_a_transaction_that_runs_or_is_prepared_is_not_swept() {
    let builder = PostgresServer::builder().setting("max_prepared_transactions", "2");
    let world = World::on(builder.start().await.unwrap()).await;
    let reader = online(world.at(&world.redis.url()).await.strict(&world.pool)).await;
    world.vouched(&reader).await;
    let intents = world.keys('e').await.replace("}e:", "}i:");
    let announcements = "stockade:v1:{265b}a:stock";
    let connection = async || world.pool.acquire().await.unwrap().detach();
    let (mut first, mut second, mut third) = (connection().await, connection().await, connection().await);
    for (connection, intent) in [(&mut first, "a1"), (&mut second, "a2"), (&mut third, "a3")] {
        sqlx::raw_sql("set idle_in_transaction_session_timeout = 0; begin").execute(&mut *connection).await.unwrap();
        let xid: String = sqlx::query_scalar("select pg_current_xact_id()::text").fetch_one(connection).await.unwrap();
        world.redis.command(&["HSET", &intents, intent, &format!("{xid} 1")]).await.unwrap();
        world.redis.command(&["ZADD", announcements, &xid, &format!("{intent} stock:a")]).await.unwrap();
    }
    // Members that no writer announces do not keep the relay from sweeping the others.
    world
        .redis
        .command(&["ZADD", announcements, "0", "foreign", "0.5", "b1 stock:a", "-1", "b2 stock:a"])
        .await
        .unwrap();
    let no_resources = r"redis.call('ZADD', KEYS[1], 0, 'b3 \255', 0, 'b4 ' .. string.rep('x', 513))";
    world.redis.command(&["EVAL", no_resources, "1", announcements]).await.unwrap();
    sqlx::raw_sql("prepare transaction 'held'").execute(&mut first).await.unwrap();
    sqlx::raw_sql("rollback").execute(&mut third).await.unwrap();
    let left = async || world.redis.command(&["HKEYS", &intents]).await.unwrap();
    // The relay looks at the newest announcement last.
    until(async || !left().await.contains("a3")).await;
    assert_eq!((left().await.contains("a1"), left().await.contains("a2")), (true, true), "{}", left().await);
    assert_eq!(world.redis.command(&["ZCARD", announcements]).await.unwrap(), "2");
    sqlx::raw_sql("commit").execute(&mut second).await.unwrap();
    until(async || left().await == "a1").await;
    sqlx::raw_sql("rollback prepared 'held'").execute(&mut first).await.unwrap();
    until(async || left().await.is_empty()).await;
    world.end().await;
}

#[tokio::test]
async fn a_strict_writer_that_was_killed_after_its_commit_leaves_nothing_to_be_read() {
    let world = World::patient().await;
    let reader = world.cache().await;
    assert_eq!(read(&reader).await, 10);
    crash(&world, "strict").await;
    assert_ne!(world.keys('i').await, "", "the intent was ended: nothing is shown here");
    until(async || {
        let lookup = reader.get(&Sku("a")).await.unwrap();
        assert_eq!(lookup.value.as_deref(), Some(&9), "an answer from before the commit");
        lookup.info.source == Source::Redis
    })
    .await;
    assert_eq!(world.keys('i').await, "", "the intent was left");
    world.end().await;
}
