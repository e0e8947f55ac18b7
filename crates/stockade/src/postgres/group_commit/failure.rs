use std::{io, iter};

use super::GroupWrite;
use crate::postgres::{CommitError, FenceError, WriteError};

/// Why a transaction was not committed.
pub(super) enum Failure<W: GroupWrite> {
    /// [`GroupWrite::write`] failed.
    Write(W::Error),
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

    pub(super) fn into(self) -> W::Error {
        match self {
            Self::Write(error) => error,
            Self::Transaction(error) => error.into(),
        }
    }

    /// The error for each of so many callers.
    pub(super) fn of_each(self, callers: usize) -> impl Iterator<Item = W::Error> {
        let others = callers.saturating_sub(1);
        let others: Vec<_> = match &self {
            Self::Transaction(error) => iter::repeat_with(|| of_all(error)).take(others).flatten().collect(),
            Self::Write(_) => Vec::new(),
        };
        others.into_iter().map(W::Error::from).chain([self.into()])
    }

    /// The transaction did not end within the time that it may take. Its COMMIT may have been sent.
    pub(super) fn late() -> Self {
        let late = io::Error::new(io::ErrorKind::TimedOut, "the database did not answer");
        WriteError::from(CommitError::Unknown(late.into())).into()
    }
}

/// The error for each caller of a group, if it does not come from one of the changes: there is no connection, a cache
/// can't be told, or nobody knows whether the group was applied. `None` if each change is to be made by itself.
fn of_all(error: &WriteError) -> Option<WriteError> {
    Some(match error {
        WriteError::Fence(FenceError::Sqlx(sqlx::Error::PoolTimedOut)) => {
            FenceError::Sqlx(sqlx::Error::PoolTimedOut).into()
        }
        WriteError::Fence(FenceError::Sqlx(sqlx::Error::PoolClosed)) => {
            FenceError::Sqlx(sqlx::Error::PoolClosed).into()
        }
        WriteError::Fence(FenceError::Schema { found }) => FenceError::Schema { found: *found }.into(),
        WriteError::Commit(CommitError::Announce(error)) => CommitError::Announce(error.clone()).into(),
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
