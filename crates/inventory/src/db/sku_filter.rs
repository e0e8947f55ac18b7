//! The table `sku_filter`: whether there is a filter that has to be told of new SKUs.

use sqlx::{PgConnection, PgExecutor};

/// Says that there is one. It waits for transactions that were told that there is none, until they have ended.
///
/// # Errors
///
/// Whatever the database answers.
#[tracing::instrument(name = "sql", level = "debug", skip_all, fields(query = "sku_filter.announce"))]
pub async fn announce(executor: impl PgExecutor<'_>) -> Result<(), sqlx::Error> {
    // language=PostgreSQL
    sqlx::query("insert into sku_filter default values on conflict do nothing").execute(executor).await.map(drop)
}

/// Whether there is one. Where there is none, none is announced before this transaction has ended.
///
/// # Errors
///
/// Whatever the database answers.
#[tracing::instrument(name = "sql", level = "debug", skip_all, fields(query = "sku_filter.is_announced"))]
pub async fn is_announced(transaction: &mut PgConnection) -> Result<bool, sqlx::Error> {
    // It conflicts with the insert above, and not with itself. language=PostgreSQL
    sqlx::query("lock table sku_filter in share mode").execute(&mut *transaction).await?;
    // language=PostgreSQL
    sqlx::query_scalar("select exists (select from sku_filter)").fetch_one(transaction).await
}
