use std::time::Duration;

use crate::lock::{Fence, Guard, LockError};

/// A lock about to be asked for.
#[derive(Debug)]
#[must_use = "a request does nothing until acquired"]
pub struct LockRequest {}

impl LockRequest {
    /// How long to wait. Default: without limit.
    pub fn wait(self, _wait: Duration) -> Self {
        todo!()
    }

    /// The lease, renewed at a third while the guard lives. Default 10 s.
    pub fn lease(self, _lease: Duration) -> Self {
        todo!()
    }

    /// Stops renewal after this long. Default: none.
    pub fn max_hold(self, _max: Duration) -> Self {
        todo!()
    }

    /// Who asks, shown by `inspect`. Default empty.
    pub fn tag(self, _tag: impl Into<String>) -> Self {
        todo!()
    }

    /// Waits its turn.
    ///
    /// # Errors
    ///
    /// [`LockError`].
    pub async fn acquire(self) -> Result<Guard, LockError> {
        todo!()
    }

    /// Tries once; `None` when somebody else holds it.
    ///
    /// # Errors
    ///
    /// [`LockError`], never `Busy` or `Timeout`.
    pub async fn try_acquire(self) -> Result<Option<Guard>, LockError> {
        todo!()
    }

    /// Runs `work` under the lock, cancels it on loss, releases.
    ///
    /// # Errors
    ///
    /// Both sides' errors, see the return type.
    pub async fn run<F, Fut, T>(self, _work: F) -> Result<T, LockError>
    where
        F: FnOnce(Fence) -> Fut,
        Fut: Future<Output = T>,
    {
        todo!()
    }
}
