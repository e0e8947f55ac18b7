//! The statements on `stockade.outbox`.

use std::{borrow::Cow, time::Duration};

use futures_util::StreamExt;
use sqlx::{
    AssertSqlSafe, Either, FromRow, PgConnection, PgExecutor, PgPool, Postgres, Row as _, Transaction, postgres::PgRow,
};

use super::{
    CommitError,
    begin::literal,
    error::{commit_statement, statement_before_commit},
};
use crate::cache::REPEATABLE;

/// How many old rows one statement deletes.
const DELETE_BATCH: i64 = 5_000;

/// How many rows of all caches one statement looks at to find those that are applied again.
const LOOK: i64 = 10_000;

/// The longest pause before a refused row is tried again.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// One invalidation.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) id: i64,
    pub(super) cache: String,
    /// An encoded key, or a tag behind its mark.
    pub(super) resource: String,
    /// The intent that announced the write to a strict cache.
    pub(super) intent: Option<String>,
}

impl FromRow<'_, PgRow> for Row {
    fn from_row(row: &PgRow) -> Result<Self, sqlx::Error> {
        Ok(Self { id: row.try_get(0)?, cache: row.try_get(1)?, resource: row.try_get(2)?, intent: row.try_get(3)? })
    }
}

/// A row that a transaction has just written.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) id: i64,
    pub(super) cache: String,
}

impl Written {
    fn of(row: &PgRow) -> Result<Self, sqlx::Error> {
        Ok(Self { id: row.try_get(0)?, cache: row.try_get(1)? })
    }
}

/// An invalidation to be written.
pub(super) struct New<'a> {
    pub(super) cache: &'a str,
    pub(super) resource: Cow<'a, str>,
    pub(super) intent: Option<&'a str>,
}

/// Adds rows within the writer's transaction. Returns the rows and the id of the transaction.
pub(super) async fn write(
    connection: &mut PgConnection,
    rows: Vec<New<'_>>,
) -> Result<(Vec<Written>, String), sqlx::Error> {
    const SQL: &str = "insert into stockade.outbox (cache, resource, intent)
        select * from unnest($1::text[], $2::text[], $3::text[])
        returning id, cache, pg_current_xact_id()::text";
    let (mut caches, mut resources, mut intents) = (Vec::new(), Vec::new(), Vec::new());
    for New { cache, resource, intent } in rows {
        caches.push(cache);
        resources.push(resource.into_owned());
        intents.push(intent);
    }
    let written = sqlx::query(SQL).bind(caches).bind(resources).bind(intents).fetch_all(connection).await?;
    let transaction = written.first().ok_or(sqlx::Error::RowNotFound)?.try_get(2)?;
    let rows: Result<_, _> = written.iter().map(Written::of).collect();
    Ok((rows?, transaction))
}

/// Adds rows within the writer's transaction and commits the transaction, in one round trip. Returns the rows.
///
/// The message has a statement before COMMIT even without rows. After a failed statement Postgres answers COMMIT with a
/// rollback and without an error; a further statement does fail. CHAIN begins an empty transaction, since the driver
/// believes that it is still in one. The empty transaction ends when `tx` is dropped.
pub(super) async fn write_and_commit(
    mut tx: Transaction<'static, Postgres>,
    rows: &[New<'_>],
) -> Result<Vec<Written>, CommitError> {
    let message = AssertSqlSafe(format!("{}; commit and chain", writing_down(rows)));
    let mut replies = sqlx::raw_sql(message).fetch_many(&mut *tx);
    let (mut written, mut committing) = (Vec::new(), false);
    while let Some(reply) = replies.next().await {
        match reply {
            Ok(Either::Left(_)) => committing = true,
            // If a row of the answer can't be read, the relay repeats its invalidation.
            Ok(Either::Right(row)) => written.extend(Written::of(&row)),
            Err(error) if committing => return Err(commit_statement(error)),
            Err(error) => return Err(statement_before_commit(error)),
        }
    }
    Ok(written)
}

/// The statement that adds these rows and returns the id and cache of each.
///
/// The statement is text, so Postgres parses and plans it each time. A prepared statement may be missing behind a
/// pooler, and its failure would end the transaction. It would save little: the text only calls a function.
fn writing_down(rows: &[New<'_>]) -> String {
    match rows {
        [] => "select 1".to_owned(),
        [New { cache, resource, .. }] => {
            let cache = literal(cache);
            format!("select stockade.write_down_one({cache}, {}), {cache}", literal(resource))
        }
        rows => {
            let list = |texts: Vec<String>| format!("array[{}]", texts.join(","));
            let caches = list(rows.iter().map(|row| literal(row.cache)).collect());
            let resources = list(rows.iter().map(|row| literal(&row.resource)).collect());
            format!("select * from stockade.write_down({caches}, {resources})")
        }
    }
}

/// Locks rows of this cache that are older than `older_than` and not applied, and were made after `since`, as [`lag`]
/// returned it. Skips rows that another relay is applying, and refused rows whose pause is not over. If the server's
/// clock was set back, rows and pauses from the time after the present are as good as old.
///
/// The query does not look for ids above the last one seen: a transaction that commits late has lower ids than rows
/// that were applied before.
pub(super) async fn claim(
    connection: &mut PgConnection,
    cache: &'static str,
    older_than: Duration,
    since: f64,
    limit: i64,
) -> Result<Vec<Row>, sqlx::Error> {
    const SQL: &str = "select id, cache, resource, intent from stockade.outbox
        where applied_at is null and cache = $1 and created_at >= to_timestamp($5)
            and created_at not between clock_timestamp() - make_interval(secs => $2) and clock_timestamp()
            and (retry_at is null
                or retry_at not between clock_timestamp() and clock_timestamp() + make_interval(secs => $4))
        order by created_at limit $3 for update skip locked";
    sqlx::query_as(SQL)
        .bind(cache)
        .bind(older_than.as_secs_f64())
        .bind(limit)
        .bind(LONGEST_PAUSE.as_secs_f64())
        .bind(since)
        .fetch_all(connection)
        .await
}

/// Marks rows as applied. The commit does not wait for the disk: if it is lost, the rows are applied a second time.
///
/// All rows of a cache are replaced by one row, which writes a fifth of the WAL that marking each row takes. The new
/// row has a higher id than the rows it replaces, and both happen in one transaction. So [`after`] always finds the
/// rows or their replacement. Rows with an intent are not replaced, since each ends an intent of its own.
///
/// If another relay holds a row, the statement waits for that relay. A row that the other relay marked is left out; if
/// the other relay dies, the row is marked here.
pub(super) async fn mark(executor: impl PgExecutor<'_>, ids: &[i64]) -> Result<(), sqlx::Error> {
    const SQL: &str = "with gone as (
            delete from stockade.outbox where id = any($1) and applied_at is null and intent is null
                and (select set_config('synchronous_commit', 'off', true)) is not null
            returning cache, resource
        ),
        kept as (
            insert into stockade.outbox (cache, resource, resources, applied_at)
            select cache, '#', array_agg(resource), clock_timestamp() from gone group by cache
        )
        update stockade.outbox set applied_at = clock_timestamp()
        where id = any($1) and applied_at is null and intent is not null";
    sqlx::query(SQL).bind(ids).execute(executor).await.map(drop)
}

/// Puts refused rows off, so that other rows do not wait behind them. The first pause is a second, each further pause
/// is twice as long, up to [`LONGEST_PAUSE`]. The rows stay pending and are not deleted.
pub(super) async fn step_over(executor: impl PgExecutor<'_>, ids: &[i64]) -> Result<(), sqlx::Error> {
    const SQL: &str = "update stockade.outbox set attempts = attempts + 1,
            retry_at = clock_timestamp() + make_interval(secs => least($2, power(2, least(attempts, 30))))
        where id = any($1) and set_config('synchronous_commit', 'off', true) is not null";
    sqlx::query(SQL).bind(ids).bind(LONGEST_PAUSE.as_secs_f64()).execute(executor).await.map(drop)
}

/// How many rows of this cache were stepped over and are not applied yet.
pub(super) async fn refused(executor: impl PgExecutor<'_>, cache: &'static str) -> Result<i64, sqlx::Error> {
    const SQL: &str = "select count(*) from stockade.outbox where applied_at is null and attempts > 0 and cache = $1";
    sqlx::query_scalar(SQL).bind(cache).fetch_one(executor).await
}

/// The invalidations of the next kept rows after `id`, applied or not, in the order of the rows. A row that replaces
/// several rows yields all of their invalidations at once. Looks at the next [`LOOK`] rows only: rows of a cache that
/// nobody relays stay, and there may be millions.
pub(super) async fn after(
    executor: impl PgExecutor<'_>,
    caches: &[&'static str],
    id: i64,
    limit: i64,
) -> Result<Vec<Row>, sqlx::Error> {
    const SQL: &str = "select id, cache, unnest(coalesce(resources, array[resource])), intent
        from (
            select * from (select * from stockade.outbox where id > $1 order by id limit $4) looked_at
            where cache = any($2) order by id limit $3
        ) kept
        order by id";
    sqlx::query_as(SQL).bind(id).bind(caches).bind(limit).bind(LOOK).fetch_all(executor).await
}

/// The id of the last of the next [`LOOK`] rows after `id`, if none of them is of these caches, and `id` itself if one
/// is. `None` if there are fewer rows, and none of these caches.
///
/// This is one statement, because other relays delete rows meanwhile. A second look would count other rows.
pub(super) async fn without(
    executor: impl PgExecutor<'_>,
    caches: &[&'static str],
    id: i64,
) -> Result<Option<i64>, sqlx::Error> {
    const SQL: &str = "select case
            when count(*) filter (where cache = any($2)) > 0 then $1
            when count(*) = $3 then max(id) end
        from (select id, cache from stockade.outbox where id > $1 order by id limit $3) looked_at";
    sqlx::query_scalar(SQL).bind(id).bind(caches).bind(LOOK).fetch_one(executor).await
}

/// The highest id of a row, of any cache.
pub(super) async fn newest(executor: impl PgExecutor<'_>) -> Result<i64, sqlx::Error> {
    const SQL: &str = "select coalesce(max(id), 0) from stockade.outbox";
    sqlx::query_scalar(SQL).fetch_one(executor).await
}

/// Whether a row of this cache up to this id is not applied yet.
pub(super) async fn waits(executor: impl PgExecutor<'_>, cache: &'static str, up_to: i64) -> Result<bool, sqlx::Error> {
    const SQL: &str = "select exists (select from (select from stockade.outbox
        where applied_at is null and cache = $1 and id <= $2 order by created_at limit 1) oldest)";
    sqlx::query_scalar(SQL).bind(cache).bind(up_to).fetch_one(executor).await
}

/// Deletes a batch of applied rows that are older than [`REPEATABLE`]. Returns whether the batch was full.
pub(super) async fn delete_old(executor: impl PgExecutor<'_>) -> Result<bool, sqlx::Error> {
    const SQL: &str = "delete from stockade.outbox where id in (
        select id from stockade.outbox where applied_at < clock_timestamp() - make_interval(secs => $1)
        order by applied_at limit $2 for update skip locked)";
    let deleted = sqlx::query(SQL).bind(REPEATABLE.as_secs_f64()).bind(DELETE_BATCH).execute(executor).await?;
    Ok(deleted.rows_affected() >= DELETE_BATCH.unsigned_abs())
}

/// The age in seconds of the oldest row that is not applied; zero if all are. If the server's clock was set back, how
/// far it was. It looks at two rows of each cache, since very many may wait for a cache that nobody relays.
///
/// Only at rows made after `since`, in seconds of the server's clock. The second answer is the `since` of the next
/// look: a minute before the oldest row, or before now. While a long transaction such as that of a backup runs, the
/// server keeps the index entries of all rows that were applied meanwhile, and a look from the beginning reads them
/// all. A row whose transaction took longer than a minute is found only by such a look.
pub(super) async fn lag(
    executor: impl PgExecutor<'_>,
    caches: &[&'static str],
    since: f64,
) -> Result<(f64, f64), sqlx::Error> {
    const SQL: &str = "select coalesce(max(abs(extract(epoch from clock_timestamp() - created_at))), 0)::float8,
            extract(epoch from least(min(created_at), clock_timestamp()))::float8 - 60
        from unnest($1::text[]) wanted cross join lateral (
            (select created_at from stockade.outbox where applied_at is null and cache = wanted
                and created_at >= to_timestamp($2) order by created_at limit 1)
            union all
            (select created_at from stockade.outbox where applied_at is null and cache = wanted
                and created_at >= to_timestamp($2) order by created_at desc limit 1)
        ) ends";
    sqlx::query_as(SQL).bind(caches).bind(since).fetch_one(executor).await
}

/// As [`lag`], of all rows. It may take longer than other statements.
pub(super) async fn lag_of_all(
    pool: &PgPool,
    caches: &[&'static str],
    limit: Duration,
) -> Result<(f64, f64), sqlx::Error> {
    const SQL: &str = "select set_config('statement_timeout', $1, true)";
    let mut tx = pool.begin().await?;
    sqlx::query(SQL).bind(limit.as_millis().to_string()).execute(&mut *tx).await?;
    let found = lag(&mut *tx, caches, 0.0).await?;
    tx.commit().await?;
    Ok(found)
}
