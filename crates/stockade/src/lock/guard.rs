use crate::lock::{Fence, LockError, Released};

/// Ownership of a resource. Dropping it releases in the background; [`Guard::release`] reports what happened.
#[derive(Debug)]
#[must_use = "dropping the guard releases the lock"]
pub struct Guard {
    fence: Fence,
}

impl Guard {
    /// The fencing side of this ownership.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.fence.clone()
    }

    /// Another guard of the same ownership with the same token; the lock is released when the last one goes.
    pub fn reenter(&self) -> Self {
        todo!()
    }

    /// Releases and reports.
    ///
    /// # Errors
    ///
    /// [`LockError::Unavailable`] when the store did not answer; the lease then ends by itself.
    pub async fn release(self) -> Result<Released, LockError> {
        todo!()
    }

    /// Sends the release without waiting for its outcome.
    pub fn release_detached(self) {
        todo!()
    }
}
