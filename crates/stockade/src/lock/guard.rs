use std::{sync::Arc, time::Duration};

use super::held::Held;
use crate::{
    lock::{Fence, LockError, LossReason, Mode, Released, Token},
    resource::Key,
};

/// Ownership of a resource: the value is the owner, never the thread or task that has it.
///
/// While it lives the lease is renewed at a third of its length. Dropping it releases in the background, also outside of
/// a runtime; [`Guard::release`] reports what happened. Dropping any of its futures at any point still releases.
#[derive(Debug)]
#[must_use = "dropping the guard releases the lock"]
pub struct Guard {
    held: Arc<Held>,
}

impl Guard {
    pub(super) fn new(held: Held) -> Self {
        Self { held: Arc::new(held) }
    }

    /// The fencing side of this ownership. It does not keep the lock.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.held.fence().clone()
    }

    /// The locked resource.
    #[must_use]
    pub fn key(&self) -> &Key {
        self.held.fence().key()
    }

    /// How it is held.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.held.fence().mode()
    }

    /// The fencing token: the same for every guard of this ownership.
    #[must_use]
    pub fn token(&self) -> Token {
        self.held.fence().token()
    }

    /// Whether the holder may still believe in its lease, by the local clock and without asking the store.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.loss().is_none()
    }

    /// Why the ownership ended, if it did; judged as by [`Guard::is_held`].
    #[must_use]
    pub fn loss(&self) -> Option<LossReason> {
        self.held.fence().loss()
    }

    /// Resolves when the ownership is lost: told by the store, or at the local end of the lease. Cancel safe.
    pub async fn lost(&self) -> LossReason {
        self.held.fence().lost().await
    }

    /// The time for which the holder may still believe in its lease; zero when lost. Renewal moves it forward.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.held.fence().remaining()
    }

    /// Another guard of the same ownership with the same token; nothing is sent. The lock goes with the last of them.
    pub fn reenter(&self) -> Self {
        Self { held: Arc::clone(&self.held) }
    }

    /// Releases and reports what the store found.
    ///
    /// [`Released::StillHeld`] when another guard of the same ownership lives. Dropping the returned future, or an
    /// error, leaves the release to the background, where it is repeated for a while.
    ///
    /// # Errors
    ///
    /// [`LockError::Unavailable`] when the store did not answer; at the latest the lock ends with its lease.
    pub async fn release(self) -> Result<Released, LockError> {
        match Arc::into_inner(self.held) {
            Some(held) => held.release().await,
            None => Ok(Released::StillHeld),
        }
    }

    /// Sends the release without waiting for its outcome: dropping, under a name.
    pub fn release_detached(self) {
        drop(self);
    }
}
