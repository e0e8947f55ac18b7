use std::{mem::replace, time::Duration};

use futures_util::future::join;
use sqlx::{PgConnection, PgPool, postgres::PgPoolOptions};
use stockade::{
    Locks,
    postgres::{self, FenceError, Pruned, Timeouts, install},
};
use stockade_testbed::PostgresServer;

use super::{
    Sku,
    cached::{World, online, read},
    until,
};
use crate::log::Log;

#[tokio::test]
async fn instances_that_install_at_the_same_time_take_turns() {
    let server = PostgresServer::start().await.unwrap();
    let pool = super::pool(&server.url()).await;
    let all = futures_util::future::join_all((0..8).map(|_| install(&pool))).await;
    assert!(all.iter().all(Result::is_ok), "{all:?}");
    install(&pool).await.unwrap();
    let version: i32 =
        sqlx::query_scalar("select version from stockade.schema_version").fetch_one(&pool).await.unwrap();
    assert_eq!(version, postgres::SCHEMA_VERSION);
}

#[tokio::test]
async fn an_installation_takes_longer_than_a_request_may() {
    let server = PostgresServer::start().await.unwrap();
    let admin = super::pool(&server.url()).await;
    let timeouts = Timeouts::default().statement(Duration::from_millis(200)).lock(Duration::from_millis(200));
    let options = postgres::options(server.url().parse().unwrap(), &timeouts);
    let pool = PgPoolOptions::new().connect_with(options).await.unwrap();
    let slow = "create function slow() returns event_trigger language plpgsql as
            $$ begin perform pg_sleep(0.3); end $$;
        create event trigger slow on ddl_command_start execute function slow()";
    sqlx::raw_sql(slow).execute(&admin).await.unwrap();
    install(&pool).await.unwrap();
}

#[tokio::test]
async fn a_missing_or_old_schema_is_refused_with_the_remedy_in_one_line() {
    let server = PostgresServer::start().await.unwrap();
    let pool = super::pool(&server.url()).await;
    let held = Locks::memory().write(&Sku("a")).acquire().await.unwrap();

    let missing = held.begin(&pool).await.unwrap_err();
    assert_eq!(
        missing.to_string(),
        "the `stockade` schema is missing: run stockade::postgres::install(&pool) once per database"
    );

    install(&pool).await.unwrap();
    sqlx::query("update stockade.schema_version set version = 0").execute(&pool).await.unwrap();
    let old = held.begin(&pool).await.unwrap_err();
    assert!(matches!(old, FenceError::Schema { found: Some(0) }), "{old:?}");

    install(&pool).await.unwrap();
    held.begin(&pool).await.unwrap().commit().await.unwrap();

    sqlx::query("drop schema stockade cascade").execute(&pool).await.unwrap();
    let gone = held.begin(&pool).await.unwrap_err();
    assert!(matches!(gone, FenceError::Schema { found: None }), "also after the check has passed: {gone:?}");
}

#[tokio::test]
async fn a_role_with_the_rights_that_are_documented_can_do_all() {
    let mut world = World::patient().await;
    let rights = include_str!("../../../src/postgres/rights.sql");
    // The administrator is called `stockade`, so the table of the test is in this schema.
    let role = "create role shop login password 'shop'; alter role shop set search_path = stockade;
        grant select, update on stock to shop";
    sqlx::raw_sql(role).execute(&world.pool).await.unwrap();
    sqlx::raw_sql(rights).execute(&world.pool).await.unwrap();
    let url = world.postgres.url();
    let (_, place) = url.split_once('@').unwrap();
    let admin = replace(&mut world.pool, super::pool(&format!("postgres://shop:shop@{place}")).await);

    install(&world.pool).await.unwrap();
    let strict = world.cache().await;
    let eventual = online(world.at(&world.redis.url()).await.name("eventual")).await;
    let locks = Locks::memory();
    let held = locks.write(&Sku("a")).acquire().await.unwrap();
    let mut tx = held.begin(&world.pool).await.unwrap();
    sqlx::query("update stock set quantity = 9").execute(&mut *tx).await.unwrap();
    tx.invalidate(&strict, &Sku("a"));
    tx.invalidate(&eventual, &Sku("a"));
    tx.commit().await.unwrap();
    assert_eq!(read(&strict).await, 9);
    let held = held.downgrade().await.unwrap();
    held.begin(&world.pool).await.unwrap().rollback().await.unwrap();
    postgres::claim_forced(&world.pool, "stock:a", held.token()).await.unwrap();
    postgres::settled(&world.pool).await.unwrap();

    // What a committer left to the relay, which then keeps the applied rows as one.
    let left = "insert into stockade.outbox (cache, resource, created_at)
        select 'stock', 'stock:b', now() - interval '1 min' from generate_series(1, 10)";
    sqlx::query(left).execute(&admin).await.unwrap();
    let waiting = "select count(*) from stockade.outbox where applied_at is null and cache = 'stock'";
    until(async || sqlx::query_scalar::<_, i64>(waiting).fetch_one(&admin).await.unwrap() == 0).await;

    postgres::prune_floor(&world.pool, Duration::ZERO).await.unwrap();
    sqlx::query("update stockade.fence_floor set settled_at = now() - interval '61 s'").execute(&admin).await.unwrap();
    assert_eq!(postgres::prune_rows(&world.pool).await.unwrap(), Pruned::Rows(1));
    drop(held);
    locks.shutdown(Duration::from_secs(5)).await;
    world.end().await;
}

#[tokio::test]
async fn the_time_outs_are_set_on_every_connection() {
    let server = PostgresServer::start().await.unwrap();
    let of = |statement, lock, idle| Timeouts::default().statement(statement).lock(lock).idle_in_transaction(idle);
    let second = Duration::from_secs(1);
    for (timeouts, expected) in [
        (of(2 * second, 2 * second, second / 2), ["2s", "1800ms", "500ms"]),
        (of(Duration::MAX, Duration::MAX, Duration::MAX), ["2147483647ms"; 3]),
        (of(second, Duration::ZERO, Duration::ZERO), ["1s", "1ms", "1ms"]),
    ] {
        let options = postgres::options(server.url().parse().unwrap(), &timeouts);
        let pool = PgPoolOptions::new().connect_with(options).await.unwrap();
        let names = ["statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"];
        for (name, expected) in names.into_iter().zip(expected) {
            let value = sqlx::query_scalar("select current_setting($1)").bind(name).fetch_one(&pool).await;
            assert_eq!(value.unwrap_or_else(|error| error.to_string()), expected, "{name}");
        }
    }
}

#[tokio::test]
async fn an_instance_that_starts_while_a_backup_reads_waits_for_nothing() {
    let (_server, pool) = super::database().await;
    let mut backup = pool.begin().await.unwrap();
    sqlx::query("lock table stockade.outbox, stockade.fence in access share mode").execute(&mut *backup).await.unwrap();
    install(&pool).await.unwrap();
    backup.rollback().await.unwrap();
}

#[tokio::test]
async fn an_instance_that_has_waited_for_another_to_install_leaves_the_schema_alone() {
    const INSTALL_LOCK: i64 = 0x5354_4f43_4b41_4445;
    let server = PostgresServer::start().await.unwrap();
    let pool = PgPool::connect(&server.url()).await.unwrap();
    let mut first = pool.acquire().await.unwrap();
    let advisory = async |first: &mut PgConnection, sql| {
        sqlx::query(sql).bind(INSTALL_LOCK).execute(first).await.unwrap();
    };
    advisory(&mut first, "select pg_advisory_lock($1)").await;
    let second = async { tokio::time::timeout(Duration::from_secs(20), install(&pool)).await };
    let others = async {
        super::blocked(&pool, 1).await;
        sqlx::raw_sql(postgres::SCHEMA).execute(&mut *first).await.unwrap();
        let mut backup = pool.begin().await.unwrap();
        sqlx::query("lock table stockade.outbox in access share mode").execute(&mut *backup).await.unwrap();
        advisory(&mut first, "select pg_advisory_unlock($1)").await;
        backup
    };
    let (installed, _backup) = join(second, others).await;
    installed.expect("it waits for the backup").unwrap();
}

#[tokio::test]
async fn a_pool_without_time_outs_is_warned_of_and_one_with_them_is_not() {
    let (log, _logging) = Log::start();
    let (server, _pool) = super::database().await;
    assert!(!log.text().contains("no time-outs"), "{}", log.text());
    assert!(!log.text().contains("skipping"), "a new database has nothing to be told of: {}", log.text());
    install(&PgPool::connect(&server.url()).await.unwrap()).await.unwrap();
    let text = log.text();
    let warned: Vec<_> = text.lines().filter(|line| line.contains("no time-outs")).collect();
    assert!(warned.len() == 1 && warned[0].contains("WARN") && warned[0].contains("lock_timeout"), "{text}");
}

#[tokio::test]
async fn a_pool_on_the_primary_takes_no_standby() {
    let server = PostgresServer::start().await.unwrap();
    let pool = || {
        let pool = PgPoolOptions::new().acquire_timeout(Duration::from_secs(1)).max_connections(1);
        postgres::on_primary(pool).connect_lazy(&server.url()).unwrap()
    };
    let pool_of_before = pool();
    pool_of_before.acquire().await.unwrap();
    server.restart_as_standby().await.unwrap();
    for pool in [pool(), pool_of_before] {
        let refused = pool.acquire().await.unwrap_err();
        assert!(matches!(refused, sqlx::Error::PoolTimedOut), "{refused}");
    }
}
