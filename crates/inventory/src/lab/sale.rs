use deadpool_redis::redis::RedisError;
use stockade::{
    lock::LockError,
    postgres::{CommitError, FenceError},
};

use super::Failure;

/// The outcome of an attempt to buy one unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sale {
    Sold,
    SoldOut,
}

/// Why an attempt to buy one unit broke off.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SaleError {
    /// A statement failed.
    #[error(transparent)]
    Sql(#[from] sqlx::Error),
    /// A command to Redis failed.
    #[error(transparent)]
    Redis(#[from] RedisError),
    /// Stockade's lock was not granted.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The fence let no transaction begin.
    #[error(transparent)]
    Fence(#[from] FenceError),
    /// A transaction under the fence was not committed.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// Others had the lock, or were faster, for the whole patience of the buyer.
    #[error("{0}")]
    Busy(&'static str),
    /// Anything else.
    #[error(transparent)]
    Other(#[from] Failure),
}
