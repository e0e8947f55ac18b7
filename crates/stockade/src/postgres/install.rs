use sqlx::{PgConnection, PgExecutor, PgPool};

use super::{FenceError, error::own_statement};

/// The tables of this crate, in the schema `stockade`, as idempotent SQL for migration tools. [`install`] runs it.
pub const SCHEMA: &str = include_str!("schema.sql");

/// The version of [`SCHEMA`]. This crate works with this version of the schema and with later ones.
pub const SCHEMA_VERSION: i32 = 9;

/// An arbitrary number that all instances agree on.
const INSTALL_LOCK: i64 = 0x5354_4f43_4b41_4445;

/// The time-out of requests is too short for an index over many rows. The `lock_timeout` stays: while an upgrade waits
/// for a table in use, every write to the table waits behind it.
const PATIENT: &str = "set local statement_timeout = '10min'";

/// Creates or upgrades the schema. Idempotent. Instances that start together take turns. A schema that is new enough is
/// left alone, so that a start waits for no table that a backup reads. Each statement of an upgrade may take ten
/// minutes. If it waits longer than `lock_timeout` for another instance or for a table in use, it fails and changes
/// nothing: call `install` again. Warns in the log about a pool without the time-outs of
/// [`options`](super::options).
///
/// Needs the right to create a schema in the database, unless the schema is there already: a role for migrations may
/// have run [`SCHEMA`]. The role of the service, here `shop`, then needs these rights:
///
/// ```sql
#[doc = include_str!("rights.sql")]
/// ```
///
/// Cancel safe: the installation is one transaction.
///
/// # Errors
///
/// The error of the database.
pub async fn install(pool: &PgPool) -> Result<(), sqlx::Error> {
    let mut connection = pool.acquire().await?;
    warn_without_time_outs(&mut connection).await?;
    if is_installed(&mut connection).await? {
        return Ok(());
    }
    drop(connection);
    let mut tx = pool.begin().await?;
    sqlx::raw_sql(PATIENT).execute(&mut *tx).await?;
    sqlx::query("select pg_advisory_xact_lock($1)").bind(INSTALL_LOCK).execute(&mut *tx).await?;
    // Another instance may have installed it meanwhile.
    if !is_installed(&mut tx).await? {
        sqlx::raw_sql(SCHEMA).execute(&mut *tx).await?;
    }
    tx.commit().await
}

/// Says which time-outs the pool does without: a stopped holder then keeps all others waiting.
async fn warn_without_time_outs(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    const SQL: &str = "select name from pg_settings where setting = '0'
        and name in ('statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout')";
    let missing: Vec<String> = sqlx::query_scalar(SQL).fetch_all(connection).await?;
    if !missing.is_empty() {
        tracing::warn!(
            ?missing,
            "these connections have no time-outs, so a transaction that is stopped keeps all others waiting: make the \
             pool with stockade::postgres::options"
        );
    }
    Ok(())
}

/// Asks for the table first: a transaction that reads a missing table has failed.
async fn is_installed(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    const SQL: &str = "select to_regclass('stockade.schema_version') is not null";
    if !sqlx::query_scalar::<_, bool>(SQL).fetch_one(&mut *connection).await? {
        return Ok(false);
    }
    match check(connection).await {
        Err(FenceError::Sqlx(error)) => Err(error),
        found => Ok(found.is_ok()),
    }
}

/// Refuses a database without the schema, or with an older one.
pub(super) async fn check(executor: impl PgExecutor<'_>) -> Result<(), FenceError> {
    let found: Option<i32> = sqlx::query_scalar("select version from stockade.schema_version")
        .fetch_optional(executor)
        .await
        .map_err(own_statement)?;
    match found {
        Some(version) if version >= SCHEMA_VERSION => Ok(()),
        found => Err(FenceError::Schema { found }),
    }
}
