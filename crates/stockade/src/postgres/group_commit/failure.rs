use std::{io, iter};

use super::GroupWrite;
use crate::postgres::{
    CommitError, FenceError, WriteError,
    sqlstate::{LOCK_NOT_AVAILABLE, sqlstate},
};

/// Why a transaction was not committed.
pub(super) enum Failure<W: GroupWrite> {
    /// [`GroupWrite::write`] failed.
    Write {
        error: W::Error,
        /// Whether it took as long as it waits for a row. The error itself is the user's.
        waited: bool,
    },
    Transaction(WriteError),
}

impl<W: GroupWrite> From<WriteError> for Failure<W> {
    fn from(error: WriteError) -> Self {
        Self::Transaction(error)
    }
}

impl<W: GroupWrite> Failure<W> {
    pub(super) fn is_of_all(&self) -> bool {
        matches!(self, Self::Transaction(error) if of_all(error).is_some())
    }

    /// The error once more, if there was no connection to the database.
    pub(super) fn away(&self) -> Option<WriteError> {
        match self {
            Self::Transaction(error @ WriteError::Fence(FenceError::Sqlx(_))) => of_all(error),
            _ => None,
        }
    }

    pub(super) fn into(self) -> W::Error {
        match self {
            Self::Write { error, .. } => error,
            Self::Transaction(error) => error.into(),
        }
    }

    /// The error for each of so many callers.
    pub(super) fn of_each(self, callers: usize) -> impl Iterator<Item = W::Error> {
        let others = callers.saturating_sub(1);
        let others: Vec<_> = match &self {
            Self::Transaction(error) => iter::repeat_with(|| of_all(error)).take(others).flatten().collect(),
            Self::Write { .. } => Vec::new(),
        };
        others.into_iter().map(W::Error::from).chain([self.into()])
    }

    /// Whether it may have come from a row that another transaction holds.
    pub(super) fn found_a_row_held(&self) -> bool {
        match self {
            Self::Write { waited, .. } => *waited,
            Self::Transaction(WriteError::Fence(FenceError::Busy(_))) => true,
            Self::Transaction(WriteError::Statement(error) | WriteError::Commit(CommitError::NotApplied(error))) => {
                sqlstate(error) == Some(LOCK_NOT_AVAILABLE)
            }
            Self::Transaction(_) => false,
        }
    }
}

/// The database did not answer within the time that a step of a transaction may take.
pub(super) fn silence() -> sqlx::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the database did not answer").into()
}

/// The error for each caller of a group, if it does not come from one of the changes: there is no connection, the
/// database is silent, or nobody knows whether the group was applied. `None` if each change is to be made by itself.
fn of_all(error: &WriteError) -> Option<WriteError> {
    Some(match error {
        WriteError::Fence(FenceError::Sqlx(sqlx::Error::PoolTimedOut)) => {
            FenceError::Sqlx(sqlx::Error::PoolTimedOut).into()
        }
        WriteError::Fence(FenceError::Sqlx(sqlx::Error::PoolClosed)) => {
            FenceError::Sqlx(sqlx::Error::PoolClosed).into()
        }
        WriteError::Fence(FenceError::Schema { found }) => FenceError::Schema { found: *found }.into(),
        WriteError::Fence(FenceError::Sqlx(sqlx::Error::Io(error))) if error.kind() == io::ErrorKind::TimedOut => {
            FenceError::Sqlx(silence()).into()
        }
        WriteError::Statement(sqlx::Error::Io(error)) if error.kind() == io::ErrorKind::TimedOut => silence().into(),
        WriteError::Commit(CommitError::Ended) => CommitError::Ended.into(),
        WriteError::Commit(CommitError::Unknown(sqlx::Error::Io(error))) => {
            CommitError::Unknown(io::Error::new(error.kind(), error.to_string()).into()).into()
        }
        WriteError::Commit(CommitError::Unknown(error)) => {
            CommitError::Unknown(sqlx::Error::Protocol(error.to_string())).into()
        }
        _ => return None,
    })
}
