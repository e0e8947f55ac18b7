//! The table `stock`.

use sqlx::{FromRow, PgConnection, PgExecutor, Row, postgres::PgRow};

use super::undecodable;
use crate::domain::{Quantity, Sku, Stock};

impl FromRow<'_, PgRow> for Stock {
    fn from_row(row: &PgRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            sku: Sku::new(row.try_get("sku")?).map_err(undecodable)?,
            quantity: Quantity::new(row.try_get("quantity")?).map_err(undecodable)?,
            version: u64::try_from(row.try_get::<i64, _>("version")?).map_err(undecodable)?,
            updated_at: row.try_get("updated_at")?,
        })
    }
}

/// The row of `sku`.
///
/// # Errors
///
/// Whatever the database answers.
#[tracing::instrument(name = "sql", level = "debug", skip_all, fields(query = "stock.find"))]
pub async fn find(executor: impl PgExecutor<'_>, sku: &Sku) -> Result<Option<Stock>, sqlx::Error> {
    // language=PostgreSQL
    sqlx::query_as("select sku, quantity, version, updated_at from stock where sku = $1")
        .bind(sku.as_str())
        .fetch_optional(executor)
        .await
}

/// The rows of these, in any order. Who has none is left out.
///
/// # Errors
///
/// Whatever the database answers.
#[tracing::instrument(name = "sql", level = "debug", skip_all, fields(query = "stock.find_all"))]
pub async fn find_all(executor: impl PgExecutor<'_>, skus: &[Sku]) -> Result<Vec<Stock>, sqlx::Error> {
    let skus: Vec<_> = skus.iter().map(|sku| sku.as_str().to_owned()).collect();
    // language=PostgreSQL
    sqlx::query_as("select sku, quantity, version, updated_at from stock where sku = any($1)")
        .bind(skus)
        .fetch_all(executor)
        .await
}

/// The SKUs of at most `limit` rows, those that changed last first.
///
/// # Errors
///
/// Whatever the database answers.
#[tracing::instrument(name = "sql", level = "debug", skip_all, fields(query = "stock.latest"))]
pub async fn latest(executor: impl PgExecutor<'_>, limit: i64) -> Result<Vec<Sku>, sqlx::Error> {
    // language=PostgreSQL
    let skus = sqlx::query_scalar("select sku from stock order by version desc limit $1").bind(limit);
    let skus: Vec<String> = skus.fetch_all(executor).await?;
    skus.iter().map(|sku| Sku::new(sku).map_err(undecodable)).collect()
}

/// Creates `sku`, which must not exist.
///
/// # Errors
///
/// Whatever the database answers.
#[tracing::instrument(name = "sql", level = "debug", skip_all, fields(query = "stock.insert"))]
pub async fn insert(connection: &mut PgConnection, sku: &Sku, quantity: Quantity) -> Result<Stock, sqlx::Error> {
    // language=PostgreSQL
    sqlx::query_as("insert into stock (sku, quantity) values ($1, $2) returning sku, quantity, version, updated_at")
        .bind(sku.as_str())
        .bind(quantity.get())
        .fetch_one(connection)
        .await
}

/// Sets the quantity of `sku`, which must exist, and gives it the next version.
///
/// # Errors
///
/// Whatever the database answers; [`sqlx::Error::RowNotFound`] when there is no such row.
#[tracing::instrument(name = "sql", level = "debug", skip_all, fields(query = "stock.update"))]
pub async fn update(connection: &mut PgConnection, sku: &Sku, quantity: Quantity) -> Result<Stock, sqlx::Error> {
    // language=PostgreSQL
    sqlx::query_as(
        "update stock set quantity = $2, version = nextval('stock_version'), updated_at = now()
         where sku = $1
         returning sku, quantity, version, updated_at",
    )
    .bind(sku.as_str())
    .bind(quantity.get())
    .fetch_one(connection)
    .await
}

/// Removes `sku`, which must exist. Returns the version that the removal takes.
///
/// # Errors
///
/// Whatever the database answers; [`sqlx::Error::RowNotFound`] when there is no such row.
#[tracing::instrument(name = "sql", level = "debug", skip_all, fields(query = "stock.delete"))]
pub async fn delete(connection: &mut PgConnection, sku: &Sku) -> Result<u64, sqlx::Error> {
    // language=PostgreSQL
    let version: i64 = sqlx::query_scalar("delete from stock where sku = $1 returning nextval('stock_version')")
        .bind(sku.as_str())
        .fetch_one(connection)
        .await?;
    u64::try_from(version).map_err(undecodable)
}

/// At most `limit` rows after the SKU `after`, ordered by the code points of the SKU.
///
/// # Errors
///
/// Whatever the database answers.
#[tracing::instrument(name = "sql", level = "debug", skip_all, fields(query = "stock.page"))]
pub async fn page(executor: impl PgExecutor<'_>, after: Option<&Sku>, limit: i64) -> Result<Vec<Stock>, sqlx::Error> {
    // No SKU is the empty text, which sorts before every other.
    let after = after.map_or("", Sku::as_str);
    // language=PostgreSQL
    sqlx::query_as(
        r#"select sku, quantity, version, updated_at from stock where sku > $1 order by sku collate "C" limit $2"#,
    )
    .bind(after)
    .bind(limit)
    .fetch_all(executor)
    .await
}
