//! A migrated database of its own for a test.

use std::path::Path;

use inventory::{
    domain::{Delta, Sku},
    orders::OrderLine,
};
use sqlx::{AssertSqlSafe, PgPool, migrate::Migrator};
use stockade_testbed::PostgresServer;

pub(crate) async fn migrated(server: &PostgresServer, name: &str) -> PgPool {
    let url = server.url();
    execute(&PgPool::connect(&url).await.unwrap(), &format!("create database {name}")).await;
    let pool = PgPool::connect(&url.replace("/postgres", &format!("/{name}"))).await.unwrap();
    let migrations = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../migrations");
    Migrator::new(migrations).await.unwrap().run(&pool).await.unwrap();
    pool
}

/// Statements of a test, separated by semicolons.
pub(crate) async fn execute(pool: &PgPool, sql: &str) {
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(pool).await.unwrap();
}

pub(crate) fn line(number: u64, sku: &str, delta: i64) -> OrderLine {
    OrderLine { number, invoice: "536365".to_owned(), sku: Sku::new(sku).unwrap(), delta: Delta::new(delta).unwrap() }
}
