//! Pruning takes two steps, a minute apart: the floor below which claims are refused is raised, then rows under it are
//! deleted. In one step a claim between reading and deleting could pass with an old token.

use std::time::Duration;

use sqlx::PgPool;

use super::{FenceError, error::own_statement};
use crate::lock::Token;

/// How long a raised floor settles before rows below it may go: longer than any statement that started under the old
/// floor can still run.
pub const PRUNE_PAUSE: Duration = Duration::from_secs(60);

/// Rows that one statement deletes: it ends well within its time-out, and keeps nobody waiting who claims one of them.
const BATCH: i64 = 10_000;

/// What [`prune_rows`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pruned {
    /// The floor has settled; this many rows went.
    Rows(u64),
    /// The floor was raised less than [`PRUNE_PAUSE`] ago, or never: nothing was deleted.
    TooEarly,
}

/// First phase: refuses from now on every token older than `age` for resources without a row. Returns the floor.
///
/// Tokens are the microseconds at which they were minted, so an age is a token. No lock may be held, renewals included,
/// for as long as `age`: 24 hours is a good value. Rows whose tokens come from a clock that ran ahead stay until time
/// has caught up.
///
/// Call [`prune_rows`] at least [`PRUNE_PAUSE`] later, or call both from one daily job, rows first: they then go a day
/// after their floor. Deleting in the same transaction as raising would be wrong: a claim that waits for the row being
/// deleted has already read the old floor, and gets in with a token that was refused a moment before.
///
/// # Errors
///
/// [`FenceError::Schema`], [`FenceError::Sqlx`].
pub async fn prune_floor(pool: &PgPool, age: Duration) -> Result<Token, FenceError> {
    const RAISE: &str = "update stockade.fence_floor set settled_at = null,
            token = least(trunc(extract(epoch from clock_timestamp()) * 1000000) - $1, 9007199254740991)::bigint
        where token < trunc(extract(epoch from clock_timestamp()) * 1000000) - $1";
    // Settled only now: the raise has committed, whatever time that took.
    const SETTLE: &str = "update stockade.fence_floor set settled_at = coalesce(settled_at, clock_timestamp())
        returning token";
    let age = i64::try_from(age.as_micros()).unwrap_or(i64::MAX);
    sqlx::query(RAISE).bind(age).execute(pool).await.map_err(own_statement)?;
    let floor: i64 = sqlx::query_scalar(SETTLE).fetch_one(pool).await.map_err(own_statement)?;
    Ok(u64::try_from(floor).ok().and_then(Token::new).unwrap_or(Token::MAX))
}

/// Second phase: deletes the rows at or below a floor that has settled for [`PRUNE_PAUSE`], a batch at a time. Rows
/// that somebody claims meanwhile stay.
///
/// # Errors
///
/// [`FenceError::Schema`], [`FenceError::Sqlx`].
pub async fn prune_rows(pool: &PgPool) -> Result<Pruned, FenceError> {
    const SETTLED: &str = "select token from stockade.fence_floor
        where settled_at <= clock_timestamp() - make_interval(secs => $1)";
    const DELETE: &str = "delete from stockade.fence where token <= $1 and resource in (
        select resource from stockade.fence where token <= $1 limit $2 for update skip locked)";
    let floor: Option<i64> = sqlx::query_scalar(SETTLED)
        .bind(PRUNE_PAUSE.as_secs_f64())
        .fetch_optional(pool)
        .await
        .map_err(own_statement)?;
    let Some(floor) = floor else { return Ok(Pruned::TooEarly) };
    let mut rows = 0;
    loop {
        let deleted = sqlx::query(DELETE).bind(floor).bind(BATCH).execute(pool).await.map_err(own_statement)?;
        rows += deleted.rows_affected();
        if deleted.rows_affected() < BATCH.unsigned_abs() {
            return Ok(Pruned::Rows(rows));
        }
    }
}
