//! The table `movement`: the ledger.

use sqlx::{FromRow, PgExecutor, Row, postgres::PgRow};

use crate::domain::{Delta, Kind, Movement, Reference, Sku};

/// The columns of a movement that the row of the stock does not have. Statements on the table `stock` write them.
#[derive(Debug)]
pub struct Line<'a> {
    /// The kind of the change.
    pub kind: Kind,
    /// The change of the quantity; `None`: there is none, and no line is written.
    pub delta: Option<Delta>,
    /// The reference that the client gave.
    pub reference: Option<&'a Reference>,
    /// The fencing token that it is written under.
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

/// At most `limit` lines of `sku` older than the line `before`, newest first.
#[tracing::instrument(name = "sql", level = "debug", skip_all, fields(query = "movement.page"))]
pub async fn page(
    executor: impl PgExecutor<'_>,
    sku: &Sku,
    before: Option<i64>,
    limit: i64,
) -> Result<Vec<Movement>, sqlx::Error> {
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
