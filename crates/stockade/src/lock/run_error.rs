use crate::lock::{LockError, LossReason};

/// Why [`LockRequest::run`](super::LockRequest::run) has no result.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The lock was not granted: the work did not start.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The lock was lost while the work ran. The work was cancelled at its current await.
    #[error("the lock was lost while the work ran ({0}): it was cancelled")]
    Lost(LossReason),
}
