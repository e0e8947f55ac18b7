//! Which transactions a relay and a filter wait for, and their warnings meanwhile.

use std::time::Duration;

use sqlx::{PgConnection, PgPool};
use stockade::{
    cache::Source,
    postgres::{Relay, Tx, settled},
};
use stockade_testbed::PostgresServer;
use tokio::time::timeout;

use super::{
    Sku,
    cached::{World, online},
    pool, until,
};
use crate::log::Log;

/// The connection of a transaction that has written, and goes on.
async fn writing(pool: &PgPool) -> PgConnection {
    let mut connection = pool.acquire().await.unwrap().detach();
    sqlx::raw_sql("set idle_in_transaction_session_timeout = 0; begin; select pg_current_xact_id()")
        .execute(&mut connection)
        .await
        .unwrap();
    connection
}

/// Whether a transaction that was writing at the time of this call goes on.
async fn goes_on(pool: &PgPool) -> bool {
    timeout(Duration::from_millis(500), settled(pool)).await.is_err()
}

#[tokio::test]
async fn transactions_of_other_databases_keep_nobody_waiting() {
    let world = World::patient().await;
    sqlx::raw_sql("create database other").execute(&world.pool).await.unwrap();
    let url = world.postgres.url();
    let (server, _) = url.rsplit_once('/').unwrap();
    let other = pool(&format!("{server}/other")).await;
    let mut elsewhere = writing(&other).await;

    settled(&world.pool).await.unwrap();
    let cache = online(world.at(&world.redis.url()).await.strict(&world.pool)).await;
    assert!(!cache.stats().vouched_for, "nobody vouched yet");
    world.vouched(&cache).await;
    assert!(cache.stats().vouched_for);
    // The next run of Redis does not wait for that transaction either.
    world.redis.restart().await.unwrap();
    until(async || cache.get(&Sku("a")).await.unwrap().info.source == Source::Redis).await;
    sqlx::raw_sql("select pg_current_xact_id_if_assigned(); commit").execute(&mut elsewhere).await.unwrap();
    world.end().await;
}

#[tokio::test]
async fn transactions_of_other_users_and_prepared_ones_are_waited_for() {
    let server = PostgresServer::builder().setting("max_prepared_transactions", "2").start().await.unwrap();
    let admin = pool(&server.url()).await;
    sqlx::raw_sql("create role plain login password 'plain'").execute(&admin).await.unwrap();
    let url = server.url();
    let (_, place) = url.split_once('@').unwrap();
    let plain = pool(&format!("postgres://plain:plain@{place}")).await;
    assert!(!goes_on(&plain).await);

    // The session belongs to another user, of whose sessions a plain user sees little.
    let mut session = writing(&admin).await;
    assert!(goes_on(&plain).await, "a session is not waited for");
    sqlx::raw_sql("prepare transaction 'held'").execute(&mut session).await.unwrap();
    assert!(goes_on(&plain).await, "a prepared transaction is not waited for");
    sqlx::raw_sql("commit prepared 'held'").execute(&mut session).await.unwrap();
    assert!(!goes_on(&plain).await);
}

#[tokio::test]
async fn caches_without_a_relay_say_so_once() {
    let (log, _logging) = Log::start();
    let world = World::patient().await;
    let strict = online(world.at(&world.redis.url()).await.strict(&world.pool)).await;
    let eventual = online(world.at(&world.redis.url()).await.name("eventual")).await;
    let told = |of: &str| {
        let (text, cache) = (log.text(), format!(r#"cache="{of}""#));
        let about = |line: &&str| line.contains("no stockade::postgres::Relay runs") && line.contains(&cache);
        text.lines().filter(about).inspect(|line| assert!(line.contains("WARN"), "{line}")).count()
    };
    until(async || {
        let mut tx = Tx::unfenced(&world.pool).await.unwrap();
        tx.invalidate(&eventual, &Sku("a"));
        tx.commit().await.unwrap();
        told("stock") > 0 && told("eventual") > 0
    })
    .await;
    assert!(!strict.stats().vouched_for && !strict.is_degraded());
    *world.relay.lock().unwrap() = Some(Relay::spawn(world.pool.clone(), [strict.invalidator()]));
    until(async || strict.stats().vouched_for).await;
    assert_eq!((told("stock"), told("eventual")), (1, 1), "{}", log.text());
    world.end().await;
}
