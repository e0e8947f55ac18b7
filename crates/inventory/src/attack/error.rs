use stockade::{
    cache::{BuildError, CacheError},
    lock::LockError,
    postgres::FenceError,
};

use crate::lab::LabError;

/// Why an attack was not begun, or broke off.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum AttackError {
    /// Another attack is under way.
    #[error("an attack is under way")]
    Running,
    /// The attack needs something that this instance does not have.
    #[error("{0}")]
    Elsewhere(&'static str),
    /// A statement failed.
    #[error("the database of the attack failed")]
    Sql(#[from] sqlx::Error),
    /// Redis failed, or the Redis of the attack did not start.
    #[error("the Redis of the attack failed")]
    Redis(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The lab did not sell.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// A lock was not granted.
    #[error("a lock of the attack was not granted")]
    Lock(#[from] LockError),
    /// The fence refused a holder.
    #[error(transparent)]
    Fence(#[from] FenceError),
    /// There is no runtime for the holder that is stopped.
    #[error("a holder can't be run")]
    Runtime(#[source] std::io::Error),
    /// The process to be killed did not start, or did not get the locks.
    #[error("the process that was to be killed does not hold its locks")]
    #[cfg(feature = "demo")]
    Holder(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// `inventory lab` did not play the schemes that need servers of their own.
    #[error("`inventory lab` did not end with its table")]
    #[cfg(feature = "demo")]
    Schemes(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The holder that is stopped broke off.
    #[error("a holder broke off")]
    Thread,
    /// The guarded side can't be set up.
    #[error("the cache of the attack can't be set up")]
    Build(#[from] BuildError),
    /// The guarded side can't be prepared.
    #[error("the cache of the attack failed")]
    Cache(#[from] CacheError),
}

#[cfg(feature = "demo")]
impl AttackError {
    pub(super) fn holder(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Holder(error.into())
    }
}
