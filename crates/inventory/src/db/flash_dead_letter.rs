//! The table `flash_dead_letter`.

use sqlx::PgExecutor;

use crate::domain::Sku;

/// How many dead letters are kept. The oldest are dropped.
const KEPT: i64 = 1000;

/// An entry that can't be stored.
#[derive(Clone, Debug)]
pub struct DeadLetter<'a> {
    /// The SKU of the sale.
    pub sku: &'a Sku,
    /// The entry's id in the stream.
    pub entry: &'a str,
    /// The id of the reservation that the entry makes, if it has one.
    pub reservation: Option<&'a str>,
    /// The entry's fields, as text.
    pub fields: &'a str,
    /// Why it can't be stored.
    pub error: &'a str,
}

/// Keeps a letter, once for each entry, and drops the oldest beyond the newest 1,000. It replaces the letter of another
/// entry with the same id: a stream that was lost may give its ids again.
#[tracing::instrument(name = "sql", level = "debug", skip_all, fields(query = "flash_dead_letter.insert"))]
pub async fn insert(executor: impl PgExecutor<'_>, letter: &DeadLetter<'_>) -> Result<(), sqlx::Error> {
    sqlx::query(
        "with dropped as (
             delete from flash_dead_letter
             where id <= (select id from flash_dead_letter order by id desc offset $6 - 1 limit 1)
         )
         insert into flash_dead_letter (sku, entry, reservation, fields, error) values ($1, $2, $3, $4, $5)
         on conflict (sku, entry) do update
         set reservation = excluded.reservation, fields = excluded.fields, error = excluded.error, created_at = now()
         where flash_dead_letter.fields <> excluded.fields",
    )
    .bind(letter.sku.as_str())
    .bind(letter.entry)
    .bind(letter.reservation)
    .bind(letter.fields)
    .bind(letter.error)
    .bind(KEPT)
    .execute(executor)
    .await?;
    Ok(())
}

/// Whether there is a dead letter for the reservation `id`.
#[tracing::instrument(name = "sql", level = "debug", skip_all, fields(query = "flash_dead_letter.has"))]
pub async fn has(executor: impl PgExecutor<'_>, reservation: &str) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar("select exists (select from flash_dead_letter where reservation = $1)")
        .bind(reservation)
        .fetch_one(executor)
        .await
}
