//! The table `movement`: the ledger.

use sqlx::{PgConnection, PgExecutor};

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

/// Writes a line.
///
/// # Errors
///
/// Whatever the database answers.
#[tracing::instrument(name = "sql", level = "debug", skip_all, fields(query = "movement.insert"))]
pub async fn insert(connection: &mut PgConnection, entry: &Entry<'_>) -> Result<(), sqlx::Error> {
    // language=PostgreSQL
    sqlx::query!(
        "insert into movement (sku, kind, delta, quantity, version, reference, fencing_token)
         values ($1, $2, $3, $4, $5, $6, $7)",
        entry.sku.as_str(),
        entry.kind.as_str(),
        entry.delta.get(),
        entry.quantity.get(),
        i64::try_from(entry.version).map_err(undecodable)?,
        entry.reference.map(Reference::as_str),
        i64::try_from(entry.fencing_token).map_err(undecodable)?,
    )
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
    sqlx::query_as!(
        Movement,
        "select id, kind, delta, quantity, version, reference, fencing_token, created_at
         from movement
         where sku = $1 and id < $2
         order by id desc
         limit $3",
        sku.as_str(),
        before.unwrap_or(i64::MAX),
        limit
    )
    .fetch_all(executor)
    .await
}
