//! The table `sku_filter`: whether a filter has to be told of new SKUs.

use sqlx::{PgConnection, PgExecutor};

/// Announces the filter. Waits until all transactions have ended that were told there is none.
#[tracing::instrument(name = "sql", level = "debug", skip_all, fields(query = "sku_filter.announce"))]
pub async fn announce(executor: impl PgExecutor<'_>) -> Result<(), sqlx::Error> {
    sqlx::query("insert into sku_filter default values on conflict do nothing").execute(executor).await.map(drop)
}

/// Whether the filter is announced. If it is not, nobody announces it before this transaction has ended.
#[tracing::instrument(name = "sql", level = "debug", skip_all, fields(query = "sku_filter.is_announced"))]
pub async fn is_announced(transaction: &mut PgConnection) -> Result<bool, sqlx::Error> {
    // The lock conflicts with the insert above, and not with itself. language=PostgreSQL
    sqlx::query("lock table sku_filter in share mode").execute(&mut *transaction).await?;
    sqlx::query_scalar("select exists (select from sku_filter)").fetch_one(transaction).await
}
