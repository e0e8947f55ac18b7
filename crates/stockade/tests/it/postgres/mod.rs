//! Fences, commits, the relay and pruning, each test on a Postgres of its own.

mod bloom;
mod cached;
mod claim;
mod clear;
mod commit;
mod crashed;
mod cut_off;
mod cut_off_filter;
mod downgrade;
mod in_tx;
mod install;
mod kinds;
mod late;
mod lost;
mod pooler;
mod prune;
mod refused_rows;
mod relay;
mod replay;
mod returned_primary;
mod round_trips;
mod snapshot;
mod strict;
mod tags;
mod traffic;
mod transfer;
mod under_locks;
mod writing;

use std::time::Duration;
use std::{collections::HashSet, sync::Mutex};

use sqlx::{PgConnection, PgPool, postgres::PgPoolOptions};
use stockade::{
    Fence,
    postgres::{self, Timeouts},
};
use stockade_testbed::{PostgresServer, eventually};

pub(crate) use crate::resources::Sku;

/// A server with the schema and a table `stock` of ten units of `a`, and a pool with short time-outs.
pub(crate) async fn database() -> (PostgresServer, PgPool) {
    let server = PostgresServer::start().await.unwrap();
    let pool = with_tables(&server).await;
    (server, pool)
}

/// The schema and the table of the tests, on this server.
async fn with_tables(server: &PostgresServer) -> PgPool {
    let pool = pool(&server.url()).await;
    postgres::install(&pool).await.unwrap();
    sqlx::raw_sql(include_str!("../../sql/fence_watch.sql")).execute(&pool).await.unwrap();
    sqlx::raw_sql(
        "create table stock (sku text primary key, quantity int not null); insert into stock values ('a', 10)",
    )
    .execute(&pool)
    .await
    .unwrap();
    pool
}

pub(crate) async fn pool(url: &str) -> PgPool {
    let timeouts = Timeouts::default().statement(Duration::from_secs(10)).lock(Duration::from_millis(400));
    let options = postgres::options(url.parse().unwrap(), &timeouts);
    PgPoolOptions::new().max_connections(16).connect_with(options).await.unwrap()
}

/// Claims by hand, as another process would. Returns whether the claim was accepted.
async fn claim(connection: &mut PgConnection, resource: &str, token: i64, owner: &str) -> bool {
    let claimed: Option<i64> = sqlx::query_scalar(Fence::CLAIM_SQL)
        .bind(resource)
        .bind(token)
        .bind(owner)
        .fetch_optional(connection)
        .await
        .unwrap();
    claimed.is_some()
}

async fn quantity(connection: &mut PgConnection) -> i32 {
    sqlx::query_scalar("select quantity from stock where sku = 'a'").fetch_one(connection).await.unwrap()
}

/// How many rows of the outbox wait to be applied.
async fn pending(pool: &PgPool) -> i64 {
    sqlx::query_scalar("select count(*) from stockade.outbox where applied_at is null").fetch_one(pool).await.unwrap()
}

/// Waits until `count` sessions wait for a lock.
async fn blocked(pool: &PgPool, count: i64) {
    until(async || {
        let waiting: i64 = sqlx::query_scalar("select count(*) from pg_stat_activity where wait_event_type = 'Lock'")
            .fetch_one(pool)
            .await
            .unwrap();
        waiting == count
    })
    .await;
}

/// Waits until a process asks for the second time whether the transactions that were running have ended, or until
/// `over` holds.
#[expect(clippy::future_not_send, reason = "the condition stays with the test that waits for it")]
async fn looked_twice(pool: &PgPool, over: impl AsyncFn() -> bool) {
    const LOOKS: &str = "select query_start::text from pg_stat_activity
        where query like '%snapshot_xmin%' and query not like '%pg_stat_activity%' and query_start > $1::timestamptz";
    let since: String = sqlx::query_scalar("select clock_timestamp()::text").fetch_one(pool).await.unwrap();
    let seen = Mutex::new(HashSet::<String>::new());
    until(async || {
        let looks = sqlx::query_scalar(LOOKS).bind(&since).fetch_all(pool).await.unwrap();
        let times = {
            let mut seen = seen.lock().unwrap();
            seen.extend(looks);
            seen.len()
        };
        times > 1 || over().await
    })
    .await;
}

/// Waits until `condition` holds. If a primary may have a rival, a relay takes thirteen seconds before it trusts the
/// primary.
pub(crate) async fn until(condition: impl AsyncFn() -> bool) {
    eventually("the condition comes true", condition).await;
}
