use std::io;

use sqlx::postgres::PgDatabaseError;

use super::sqlstate::{
    DEADLOCK_DETECTED, INVALID_SCHEMA_NAME, LOCK_NOT_AVAILABLE, QUERY_CANCELED, UNDEFINED_COLUMN, UNDEFINED_FUNCTION,
    UNDEFINED_TABLE, sqlstate,
};
use crate::{
    cache::{CacheError, TagError},
    lock::{LossReason, Mode, Token},
    resource::KeyError,
};

/// Why a transaction was not begun under a fence. Nothing was applied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FenceError {
    /// A newer ownership claimed the resource, or the token is below the floor.
    ///
    /// If the guard was still live by its own clock, the lock store had minted a token that is too low. Its tokens have
    /// been raised above `last` by now, so the next acquire is not refused.
    #[error("the fence refused token {token}: {last} has been seen; nothing was applied, acquire the lock again")]
    Rejected {
        /// The token of this ownership.
        token: Token,
        /// The highest token seen.
        last: Token,
    },
    /// Another transaction holds the fence row and did not end within `lock_timeout`.
    #[error("another transaction holds the fence of this resource: nothing was applied, retry later")]
    Busy(#[source] sqlx::Error),
    /// The ownership ended before the transaction began: its lease ended by the local clock, the store said so, or its
    /// guard gave it back.
    #[error("the lock had ended ({0}) before the transaction began: nothing was applied, acquire it again")]
    Lost(LossReason),
    /// A shared ownership can't claim. Two readers are valid together, and so are two permits of a semaphore; a claim
    /// by one of them would refuse the other.
    #[error("{} can't claim the fence: acquire the lock for writing", shared(*.0))]
    Shared(Mode),
    /// The tables are missing or older than this version of the crate.
    #[error("the `stockade` schema is {}: run stockade::postgres::install(&pool) once per database", describe(*found))]
    Schema {
        /// The version found; `None` when there is none.
        found: Option<i32>,
    },
    /// The database failed.
    #[error("the database failed before anything was applied")]
    Sqlx(#[source] sqlx::Error),
}

fn shared(mode: Mode) -> &'static str {
    if mode == Mode::Permit { "a permit of a semaphore" } else { "a shared lock" }
}

fn describe(version: Option<i32>) -> String {
    version.map_or_else(|| "missing".to_owned(), |version| format!("at version {version}, older than this crate needs"))
}

/// Why a commit did not succeed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// A key given to [`Tx::invalidate`](super::Tx::invalidate) can't be encoded. Rolled back: nothing was applied.
    #[error("an invalidation has no key: nothing was applied")]
    Key(#[source] KeyError),
    /// A tag given to [`Tx::invalidate_tag`](super::Tx::invalidate_tag) is refused. Rolled back: nothing was applied.
    #[error("an invalidation has no tag: nothing was applied")]
    Tag(#[source] TagError),
    /// The request that holds the lock was answered as "not applied" before this commit. Rolled back.
    #[error("the holder of the lock was ended before the commit: nothing was applied")]
    Closed,
    /// The lock was downgraded or handed over after the transaction began, so others may have read since. Rolled back.
    #[error("the lock was downgraded to shared, or handed over, before the commit: nothing was applied")]
    Downgraded,
    /// The store of a strict cache, or a filter of existing ids, did not confirm that it was told of the write. Rolled
    /// back: nothing was applied.
    #[error("a cache could not be told of the write: nothing was applied, retry later")]
    Announce(#[source] CacheError),
    /// An earlier statement failed, the commit was refused (a constraint, a serialization failure), or the database
    /// ended the session before COMMIT. Rolled back: nothing was applied.
    #[error("the transaction was rolled back: nothing was applied")]
    NotApplied(#[source] sqlx::Error),
    /// The driver had ended the transaction: a savepoint failed to begin, or was dropped while it began. What ran before
    /// it was rolled back, and each statement since was applied by itself, without a fence. The invalidations were made.
    #[error(
        "a savepoint that failed or was dropped had ended the transaction, and later statements were applied one by \
         one: read back what was applied before trying again"
    )]
    Ended,
    /// The connection ended after COMMIT was sent and before its answer: the transaction may have been applied.
    #[error("the database did not answer COMMIT: read back whether it was applied before trying again")]
    Unknown(#[source] sqlx::Error),
}

impl CommitError {
    /// Whether the transaction was applied: `Some(false)`, or `None` when nobody can say.
    #[must_use]
    pub fn applied(&self) -> Option<bool> {
        match self {
            Self::Key(_) | Self::Tag(_) | Self::Closed | Self::Downgraded | Self::Announce(_) | Self::NotApplied(_) => {
                Some(false)
            }
            Self::Ended | Self::Unknown(_) => None,
        }
    }
}

/// Why a write under a fence failed: what `?` makes of the errors of a handler that begins, changes rows and commits.
///
/// It speaks of one transaction. If a handler commits several, and one was applied before another fails, the handler
/// has to say so itself.
///
/// With the feature `axum` it is a response: problem+json with the status of its
/// [`Problem`](crate::route_lock::Problem), and an entry in the log. The response reveals nothing internal.
///
/// ```no_run
/// # use stockade::{Fence, postgres::WriteError};
/// async fn close(fence: Fence, pool: sqlx::PgPool) -> Result<&'static str, WriteError> {
///     let mut tx = fence.begin(&pool).await?;
///     sqlx::query("update orders set closed = true where id = 7").execute(&mut *tx).await?;
///     tx.commit().await?;
///     Ok("closed")
/// }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The transaction was not begun.
    #[error(transparent)]
    Fence(#[from] FenceError),
    /// A statement of the transaction failed. Dropping its [`Tx`](super::Tx) rolls it back.
    ///
    /// Do not make this of an error of a statement outside of a [`Tx`](super::Tx): it may have been applied although
    /// its answer was lost. Nor after a savepoint of the [`Tx`](super::Tx) failed to begin, or was dropped while it
    /// began: statements before this one may have been applied one by one. [`Tx::commit`](super::Tx::commit) says so.
    #[error("a statement failed: nothing was applied")]
    Statement(
        #[from]
        #[source]
        sqlx::Error,
    ),
    /// The transaction was not committed, or nobody knows whether it was.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

impl WriteError {
    /// Whether the transaction was applied: `Some(false)`, or `None` when nobody can say.
    #[must_use]
    pub fn applied(&self) -> Option<bool> {
        match self {
            Self::Fence(_) | Self::Statement(_) => Some(false),
            Self::Commit(error) => error.applied(),
        }
    }
}

/// Why the relay could not apply invalidations. They stay in the outbox.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RelayError {
    /// The database failed.
    #[error("the outbox can't be read or written")]
    Sqlx(#[source] sqlx::Error),
    /// A cache did not take them.
    #[error("cache `{cache}` did not take its invalidations")]
    Cache {
        /// Its name.
        cache: &'static str,
        /// What it said.
        #[source]
        source: CacheError,
    },
}

/// An error of a statement that is this crate's own: a missing table is then a missing schema.
pub(super) fn own_statement(error: sqlx::Error) -> FenceError {
    match sqlstate(&error) {
        Some(UNDEFINED_FUNCTION | UNDEFINED_TABLE | UNDEFINED_COLUMN | INVALID_SCHEMA_NAME) => {
            FenceError::Schema { found: None }
        }
        _ => FenceError::Sqlx(error),
    }
}

/// An error of the claim, which waits for a row lock and for nothing else.
///
/// `statement_timeout` and a deadlock are reported as busy too: both mean that another transaction holds the row.
pub(super) fn claim_statement(error: sqlx::Error) -> FenceError {
    match sqlstate(&error) {
        Some(LOCK_NOT_AVAILABLE | QUERY_CANCELED | DEADLOCK_DETECTED) => FenceError::Busy(error),
        _ => own_statement(error),
    }
}

/// What an error in answer to COMMIT says about the transaction.
///
/// An error answer means rolled back, except for those that end the session (class 57P: a shutdown can arrive when the
/// commit record is already written), statement completion unknown, connection exceptions and internal errors.
pub(super) fn commit_statement(error: sqlx::Error) -> CommitError {
    let rolled_back = sqlstate(&error).is_some_and(|code| {
        !(code.starts_with("57P") || code.starts_with("08") || code.starts_with("XX") || code.starts_with("58"))
            && code != "40003"
    });
    if rolled_back { CommitError::NotApplied(error) } else { CommitError::Unknown(error) }
}

/// What an error of the message `statement; COMMIT` says about the transaction, if the first statement has not ended.
///
/// The server runs statements in order and replies in order. If it answers with an error of the first statement, COMMIT
/// has not begun. If it does not answer at all, nobody can say how far it came, unless the message was not sent.
///
/// A pooler that gives up the server's connection answers in its place, while the server may commit. Its errors are
/// connection exceptions or end the session; unlike those of Postgres they do not name a routine of the server.
pub(super) fn statement_before_commit(error: sqlx::Error) -> CommitError {
    let unsent = matches!(&error, sqlx::Error::Io(error) if error.kind() == io::ErrorKind::BrokenPipe);
    let of_server = error
        .as_database_error()
        .and_then(|error| error.try_downcast_ref::<PgDatabaseError>())
        .is_some_and(|error| error.routine().is_some());
    if unsent || of_server { CommitError::NotApplied(error) } else { commit_statement(error) }
}
