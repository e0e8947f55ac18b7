//! The table `stock`.

use sqlx::{PgConnection, PgExecutor};
use time::OffsetDateTime;

use super::undecodable;
use crate::domain::{Quantity, Sku, Stock};

struct Row {
    sku: String,
    quantity: i64,
    version: i64,
    updated_at: OffsetDateTime,
}

impl TryFrom<Row> for Stock {
    type Error = sqlx::Error;

    fn try_from(row: Row) -> Result<Self, sqlx::Error> {
        Ok(Self {
            sku: Sku::new(&row.sku).map_err(undecodable)?,
            quantity: Quantity::new(row.quantity).map_err(undecodable)?,
            version: u64::try_from(row.version).map_err(undecodable)?,
            updated_at: row.updated_at,
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
    sqlx::query_as!(Row, "select sku, quantity, version, updated_at from stock where sku = $1", sku.as_str())
        .fetch_optional(executor)
        .await?
        .map(Stock::try_from)
        .transpose()
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
    sqlx::query_as!(Row, "select sku, quantity, version, updated_at from stock where sku = any($1)", &skus)
        .fetch_all(executor)
        .await?
        .into_iter()
        .map(Stock::try_from)
        .collect()
}

/// The SKUs of at most `limit` rows, those that changed last first.
///
/// # Errors
///
/// Whatever the database answers.
#[tracing::instrument(name = "sql", level = "debug", skip_all, fields(query = "stock.latest"))]
pub async fn latest(executor: impl PgExecutor<'_>, limit: i64) -> Result<Vec<Sku>, sqlx::Error> {
    // language=PostgreSQL
    let skus = sqlx::query_scalar!("select sku from stock order by version desc limit $1", limit);
    let skus = skus.fetch_all(executor).await?;
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
    sqlx::query_as!(
        Row,
        "insert into stock (sku, quantity) values ($1, $2) returning sku, quantity, version, updated_at",
        sku.as_str(),
        quantity.get()
    )
    .fetch_one(connection)
    .await?
    .try_into()
}

/// Sets the quantity of `sku`, which must exist, and gives it the next version.
///
/// # Errors
///
/// Whatever the database answers; [`sqlx::Error::RowNotFound`] when there is no such row.
#[tracing::instrument(name = "sql", level = "debug", skip_all, fields(query = "stock.update"))]
pub async fn update(connection: &mut PgConnection, sku: &Sku, quantity: Quantity) -> Result<Stock, sqlx::Error> {
    // language=PostgreSQL
    sqlx::query_as!(
        Row,
        "update stock set quantity = $2, version = nextval('stock_version'), updated_at = now()
         where sku = $1
         returning sku, quantity, version, updated_at",
        sku.as_str(),
        quantity.get()
    )
    .fetch_one(connection)
    .await?
    .try_into()
}

/// Removes `sku`, which must exist. Returns the version that the removal takes.
///
/// # Errors
///
/// Whatever the database answers; [`sqlx::Error::RowNotFound`] when there is no such row.
#[tracing::instrument(name = "sql", level = "debug", skip_all, fields(query = "stock.delete"))]
pub async fn delete(connection: &mut PgConnection, sku: &Sku) -> Result<u64, sqlx::Error> {
    // language=PostgreSQL
    let version = sqlx::query_scalar!(
        r#"delete from stock where sku = $1 returning nextval('stock_version') as "version!""#,
        sku.as_str()
    )
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
    sqlx::query_as!(
        Row,
        r#"select sku, quantity, version, updated_at from stock where sku > $1 order by sku collate "C" limit $2"#,
        after,
        limit
    )
    .fetch_all(executor)
    .await?
    .into_iter()
    .map(Stock::try_from)
    .collect()
}
