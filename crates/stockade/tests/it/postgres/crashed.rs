//! A process that is killed between its COMMIT and the invalidation that follows.

use std::sync::Arc;

use rustix::process::Signal;
use stockade::{cache::Source, postgres::Relay};
use stockade_testbed::{Fault, Proxy};

use super::{
    Sku,
    cached::{World, online, read, release, stock_at, write},
    pool, quantity, until,
};
use crate::{
    child::{Child, say, wait_for_parent},
    world,
};

/// The kind of cache that the child writes to, and where its servers are; unset in an ordinary test run.
const KIND: &str = "CRASHED";
const REDIS: &str = "CRASHED_REDIS";
const POSTGRES: &str = "CRASHED_POSTGRES";

/// The child: a process of its own when the tests below start it, nothing in an ordinary run.
#[tokio::test]
async fn a_writer() {
    let Ok(kind) = std::env::var(KIND) else { return };
    let pool = pool(&std::env::var(POSTGRES).unwrap()).await;
    let builder = stock_at(&world::patient(&std::env::var(REDIS).unwrap()).await, &pool, &Arc::default());
    let cache = online(if kind == "strict" { builder.strict(&pool) } else { builder }).await;
    let tx = write(&pool, &cache, 9).await;
    say("written");
    tx.commit().await.unwrap();
    wait_for_parent().await;
}

/// The child commits, and is killed before a word of that reached Redis.
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
    child.signal(Signal::KILL);
    // What it sent into the hole is lost with its connections.
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
    child.signal(Signal::KILL);
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
