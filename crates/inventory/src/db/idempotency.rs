//! The table `idempotency`: answers kept for requests that may come again.

use std::time::Duration;

use sqlx::{
    FromRow, PgConnection, PgPool, Row,
    postgres::{PgRow, types::PgInterval},
};

use super::undecodable;

/// SHA-256 of method, path and body.
pub type Fingerprint = [u8; 32];

/// An answer that was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The fingerprint of the request that it answers.
    pub fingerprint: Fingerprint,
    /// Its status.
    pub status: u16,
    /// Its body, to the byte.
    pub body: String,
}

impl FromRow<'_, PgRow> for Stored {
    fn from_row(row: &PgRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            fingerprint: row.try_get::<&[u8], _>("fingerprint")?.try_into().map_err(undecodable)?,
            status: u16::try_from(row.try_get::<i16, _>("status")?).map_err(undecodable)?,
            body: row.try_get("body")?,
        })
    }
}

/// The answer kept under `key`, if any that has not expired.
///
/// # Errors
///
/// The error of the database.
#[tracing::instrument(name = "sql", level = "debug", skip_all, fields(query = "idempotency.find"))]
pub async fn find(connection: &mut PgConnection, key: &str) -> Result<Option<Stored>, sqlx::Error> {
    sqlx::query_as("select fingerprint, status, body from idempotency where key = $1 and expires_at > now()")
        .bind(key)
        .fetch_optional(connection)
        .await
}

/// Keeps an answer under `key` for `ttl`. Returns false when another answer came first: the same key was used for two
/// resources at the same time, which the lock of one resource does not order.
///
/// # Errors
///
/// The error of the database.
#[tracing::instrument(name = "sql", level = "debug", skip_all, fields(query = "idempotency.insert"))]
pub async fn insert(
    connection: &mut PgConnection,
    key: &str,
    answer: &Stored,
    ttl: Duration,
) -> Result<bool, sqlx::Error> {
    // Postgres knows no shorter times than microseconds.
    let microseconds = i64::try_from(ttl.as_micros()).map_err(undecodable)?;
    let ttl = PgInterval { microseconds, ..PgInterval::default() };
    let inserted = sqlx::query(
        "insert into idempotency as i (key, fingerprint, status, body, expires_at)
         values ($1, $2, $3, $4, now() + $5::interval)
         on conflict (key) do update
         set fingerprint = excluded.fingerprint, status = excluded.status, body = excluded.body,
             expires_at = excluded.expires_at
         where i.expires_at <= now()",
    )
    .bind(key)
    .bind(answer.fingerprint.as_slice())
    .bind(i16::try_from(answer.status).map_err(undecodable)?)
    .bind(&answer.body)
    .bind(ttl)
    .execute(connection)
    .await?;
    Ok(inserted.rows_affected() == 1)
}

/// Removes at most `limit` answers that have expired. Returns how many.
///
/// # Errors
///
/// The error of the database.
#[tracing::instrument(name = "sql", level = "debug", skip_all, fields(query = "idempotency.sweep"))]
pub async fn sweep(pool: &PgPool, limit: i64) -> Result<u64, sqlx::Error> {
    // Rows that another instance sweeps, or that are being overwritten, are left alone.
    let swept = sqlx::query(
        "delete from idempotency
         where key in (select key from idempotency where expires_at <= now()
                       order by expires_at limit $1 for update skip locked)",
    )
    .bind(limit)
    .execute(pool)
    .await?;
    Ok(swept.rows_affected())
}
