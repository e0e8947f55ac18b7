//! Removes old fence rows in two steps, a minute apart. The first raises the floor, at or below which claims are
//! refused. The second deletes the rows below the floor. In one step, a claim that had read the old floor could pass
//! with an old token once its row is gone.

use std::time::Duration;

use sqlx::PgPool;

use super::{FenceError, error::own_statement};
use crate::lock::Token;

/// The time between raising the floor and deleting rows: longer than any statement that started under the old floor can
/// still run.
pub const PRUNE_PAUSE: Duration = Duration::from_secs(60);

/// How many rows one statement looks at. A statement of this size ends well within its time-out, and claims hardly wait
/// for it.
const BATCH: i64 = 10_000;

/// The outcome of [`prune_rows`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pruned {
    /// The floor has settled, and this many rows were deleted.
    Rows(u64),
    /// The floor was raised less than [`PRUNE_PAUSE`] ago, or never, so nothing was deleted.
    TooEarly,
}

/// First step: for resources without a row, every token older than `age` is refused from now on. Returns the floor.
///
/// A token is the time in microseconds at which it was minted, so an age stands for a token. Choose an `age` longer
/// than any lock is held, renewals included: 24 hours is a good value. A row whose token comes from a clock that ran
/// ahead stays until that time.
///
/// Call [`prune_rows`] at least [`PRUNE_PAUSE`] later. One daily job may call both, [`prune_rows`] first: rows are then
/// deleted a day after their floor was raised.
///
/// If this future is dropped, the floor may be raised and its pause not begun: [`prune_rows`] then says
/// [`Pruned::TooEarly`] until this is called again.
///
/// # Errors
///
/// [`FenceError::Schema`], [`FenceError::Sqlx`].
pub async fn prune_floor(pool: &PgPool, age: Duration) -> Result<Token, FenceError> {
    const RAISE: &str = "update stockade.fence_floor set settled_at = null,
            token = least(trunc(extract(epoch from clock_timestamp()) * 1000000) - $1, 9007199254740991)::bigint
        where token < trunc(extract(epoch from clock_timestamp()) * 1000000) - $1";
    // The pause counts from here: the raised floor has committed by now.
    const SETTLE: &str = "update stockade.fence_floor set settled_at = coalesce(settled_at, clock_timestamp())
        returning token";
    let age = i64::try_from(age.as_micros()).unwrap_or(i64::MAX);
    sqlx::query(RAISE).bind(age).execute(pool).await.map_err(own_statement)?;
    let floor: i64 = sqlx::query_scalar(SETTLE).fetch_one(pool).await.map_err(own_statement)?;
    Ok(u64::try_from(floor).ok().and_then(Token::new).unwrap_or(Token::MAX))
}

/// Second step: deletes the rows at or below a floor that was raised at least [`PRUNE_PAUSE`] ago, in batches. A row
/// that is being claimed is skipped. Cancel safe: the batches that were deleted stay deleted.
///
/// # Errors
///
/// [`FenceError::Schema`], [`FenceError::Sqlx`].
pub async fn prune_rows(pool: &PgPool) -> Result<Pruned, FenceError> {
    const SETTLED: &str = "select token from stockade.fence_floor
        where settled_at <= clock_timestamp() - make_interval(secs => $1)";
    // There is no index by token, which each claim would have to change. So it walks through the primary key. Only with
    // its own bounds is the deletion sure to read no more than the page.
    const DELETE: &str = "with page as materialized (
            select resource from stockade.fence where resource > $2 order by resource limit $3
        ), gone as (
            delete from stockade.fence
            where resource > $2 and resource <= (select max(resource) from page) and token <= $1 and resource in (
                select resource from stockade.fence
                where resource > $2 and resource <= (select max(resource) from page) and token <= $1
                for update skip locked)
            returning 1
        )
        select (select max(resource) from page), (select count(*) from gone)";
    let floor: Option<i64> = sqlx::query_scalar(SETTLED)
        .bind(PRUNE_PAUSE.as_secs_f64())
        .fetch_optional(pool)
        .await
        .map_err(own_statement)?;
    let Some(floor) = floor else { return Ok(Pruned::TooEarly) };
    let (mut rows, mut after) = (0, String::new());
    loop {
        let page = sqlx::query_as(DELETE).bind(floor).bind(&after).bind(BATCH).fetch_one(pool).await;
        let (last, deleted): (Option<String>, i64) = page.map_err(own_statement)?;
        rows += deleted.unsigned_abs();
        match last {
            Some(last) => after = last,
            None => return Ok(Pruned::Rows(rows)),
        }
    }
}
