use sqlx::{PgConnection, PgPool};

use super::{FenceError, error::own_statement};

/// The tables of this crate, in the schema `stockade`, as idempotent SQL for migration tools. [`install`] runs it.
pub const SCHEMA: &str = include_str!("schema.sql");

/// The oldest schema version that this crate works with.
pub const SCHEMA_VERSION: i32 = 8;

/// An arbitrary number that all instances agree on.
const INSTALL_LOCK: i64 = 0x5354_4f43_4b41_4445;

/// Creates or upgrades the schema. Idempotent. Instances that start together take turns. A schema that is new enough is
/// left alone, so that a start waits for no table that a backup reads.
///
/// Needs the right to create a schema in the database. Cancel safe: the installation is one transaction.
///
/// # Errors
///
/// The error of the database.
pub async fn install(pool: &PgPool) -> Result<(), sqlx::Error> {
    if check(&mut *pool.acquire().await?).await.is_ok() {
        return Ok(());
    }
    let mut tx = pool.begin().await?;
    sqlx::query("select pg_advisory_xact_lock($1)").bind(INSTALL_LOCK).execute(&mut *tx).await?;
    sqlx::raw_sql(SCHEMA).execute(&mut *tx).await?;
    tx.commit().await
}

/// Refuses a database without the schema, or with an older one.
pub(super) async fn check(connection: &mut PgConnection) -> Result<(), FenceError> {
    let found: Option<i32> = sqlx::query_scalar("select version from stockade.schema_version")
        .fetch_optional(connection)
        .await
        .map_err(own_statement)?;
    match found {
        Some(version) if version >= SCHEMA_VERSION => Ok(()),
        found => Err(FenceError::Schema { found }),
    }
}
