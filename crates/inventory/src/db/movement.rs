//! The table `movement`: the ledger.

use sqlx::{FromRow, PgConnection, PgExecutor, Row, postgres::PgRow};

use super::undecodable;
use crate::domain::{Delta, Kind, Movement, Quantity, Reference, Sku};

/// A line about to be written.
#[derive(Debug)]
pub struct Entry<'a> {
    /// Whose quantity changed.
    pub sku: &'a Sku,
    /// What changed it.
    pub kind: Kind,
    /// By how much.
    pub delta: Delta,
    /// How many are on hand afterwards.
    pub quantity: Quantity,
    /// The version of the stock afterwards.
    pub version: u64,
    /// What the client says it was for.
    pub reference: Option<&'a Reference>,
    /// The token of the ownership it is written under.
    pub fencing_token: u64,
}

impl FromRow<'_, PgRow> for Movement {
    fn from_row(row: &PgRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            id: row.try_get("id")?,
            kind: row.try_get("kind")?,
            delta: row.try_get("delta")?,
            quantity: row.try_get("quantity")?,
            version: row.try_get("version")?,
            reference: row.try_get("reference")?,
            fencing_token: row.try_get("fencing_token")?,
            created_at: row.try_get("created_at")?,
        })
    }
}

/// Writes a line.
///
/// # Errors
///
/// Whatever the database answers.
#[tracing::instrument(name = "sql", level = "debug", skip_all, fields(query = "movement.insert"))]
pub async fn insert(connection: &mut PgConnection, entry: &Entry<'_>) -> Result<(), sqlx::Error> {
    // language=PostgreSQL
    sqlx::query(
        "insert into movement (sku, kind, delta, quantity, version, reference, fencing_token)
         values ($1, $2, $3, $4, $5, $6, $7)",
    )
    .bind(entry.sku.as_str())
    .bind(entry.kind.as_str())
    .bind(entry.delta.get())
    .bind(entry.quantity.get())
    .bind(i64::try_from(entry.version).map_err(undecodable)?)
    .bind(entry.reference.map(Reference::as_str))
    .bind(i64::try_from(entry.fencing_token).map_err(undecodable)?)
    .execute(connection)
    .await?;
    Ok(())
}

/// At most `limit` lines of `sku` older than the line `before`, newest first.
///
/// # Errors
///
/// Whatever the database answers.
#[tracing::instrument(name = "sql", level = "debug", skip_all, fields(query = "movement.page"))]
pub async fn page(
    executor: impl PgExecutor<'_>,
    sku: &Sku,
    before: Option<i64>,
    limit: i64,
) -> Result<Vec<Movement>, sqlx::Error> {
    // language=PostgreSQL
    sqlx::query_as(
        "select id, kind, delta, quantity, version, reference, fencing_token, created_at
         from movement
         where sku = $1 and id < $2
         order by id desc
         limit $3",
    )
    .bind(sku.as_str())
    .bind(before.unwrap_or(i64::MAX))
    .bind(limit)
    .fetch_all(executor)
    .await
}
