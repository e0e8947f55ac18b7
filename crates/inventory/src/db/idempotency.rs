//! The table `idempotency`: answers kept for requests that may come again.

use std::{collections::HashMap, time::Duration};

use sqlx::{
    PgConnection, PgPool, Row,
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

/// The answers kept under these keys that have not expired, by key.
#[tracing::instrument(name = "sql", level = "debug", skip_all, fields(query = "idempotency.find"))]
pub async fn find(connection: &mut PgConnection, keys: &[&str]) -> Result<HashMap<String, Stored>, sqlx::Error> {
    let rows = sqlx::query(
        "select key, fingerprint, status, body from idempotency where key = any($1) and expires_at > now()",
    );
    rows.bind(keys).fetch_all(connection).await?.iter().map(kept).collect()
}

fn kept(row: &PgRow) -> Result<(String, Stored), sqlx::Error> {
    let stored = Stored {
        fingerprint: row.try_get::<&[u8], _>("fingerprint")?.try_into().map_err(undecodable)?,
        status: u16::try_from(row.try_get::<i16, _>("status")?).map_err(undecodable)?,
        body: row.try_get("body")?,
    };
    Ok((row.try_get("key")?, stored))
}

/// Keeps answers, each under its key, for `ttl`. Returns false when another answer came first for one of them: the same
/// key was used for two resources at the same time, which the lock of one resource does not order.
///
/// # Errors
///
/// The error of the database, also when a key comes twice.
#[tracing::instrument(name = "sql", level = "debug", skip_all, fields(query = "idempotency.insert"))]
pub async fn insert(
    connection: &mut PgConnection,
    answers: &[(&str, &Stored)],
    ttl: Duration,
) -> Result<bool, sqlx::Error> {
    // Postgres knows no shorter times than microseconds.
    let microseconds = i64::try_from(ttl.as_micros()).map_err(undecodable)?;
    let ttl = PgInterval { microseconds, ..PgInterval::default() };
    let statuses: Result<Vec<_>, _> = answers.iter().map(|(_, answer)| i16::try_from(answer.status)).collect();
    let inserted = sqlx::query(
        "insert into idempotency as i (key, fingerprint, status, body, expires_at)
         select *, now() + $5::interval from unnest($1::text[], $2::bytea[], $3::smallint[], $4::text[])
         on conflict (key) do update
         set fingerprint = excluded.fingerprint, status = excluded.status, body = excluded.body,
             expires_at = excluded.expires_at
         where i.expires_at <= now()",
    )
    .bind(answers.iter().map(|(key, _)| *key).collect::<Vec<_>>())
    .bind(answers.iter().map(|(_, answer)| answer.fingerprint.as_slice()).collect::<Vec<_>>())
    .bind(statuses.map_err(undecodable)?)
    .bind(answers.iter().map(|(_, answer)| answer.body.as_str()).collect::<Vec<_>>())
    .bind(ttl)
    .execute(connection)
    .await?;
    Ok(usize::try_from(inserted.rows_affected()).is_ok_and(|inserted| inserted == answers.len()))
}

/// Removes at most `limit` answers that have expired. Returns how many.
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
