use crate::lock::{Guard, LockError};

/// Something could not be done with a guard, which is given back: dropping this releases the lock.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
#[non_exhaustive]
pub struct GuardError {
    /// The guard.
    pub guard: Guard,
    /// Why it could not be done.
    #[source]
    pub error: LockError,
}
