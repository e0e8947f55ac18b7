use std::{sync::Arc, time::Duration};

use super::{MultiFence, held_set::HeldSet};
use crate::{
    lock::{Fence, LockError, LossReason, Released, Token},
    resource::Resource,
};

/// Ownership of several resources, all or nothing: the value is the owner, never the thread or task that has it.
///
/// While it lives their leases are renewed. Once one of them is lost, all count as lost, although the others are given
/// back only when the guard goes. Dropping it releases all in the background, also outside of a runtime;
/// [`MultiGuard::release`] reports what happened. Dropping any of its futures at any point still releases.
#[derive(Debug)]
#[must_use = "dropping the guard releases the locks"]
pub struct MultiGuard {
    held: HeldSet,
    fences: MultiFence,
}

impl MultiGuard {
    pub(super) fn new(held: HeldSet, places: Arc<[usize]>) -> Self {
        let fences = MultiFence::new(held.fences(), places);
        Self { held, fences }
    }

    /// The fencing side of these ownerships. It does not keep the locks.
    #[must_use]
    pub fn fences(&self) -> MultiFence {
        self.fences.clone()
    }

    /// The fence of one of the resources; `None` for one that the request did not name.
    pub fn fence_of<R: Resource + ?Sized>(&self, resource: &R) -> Option<&Fence> {
        self.fences.of(resource)
    }

    /// The fencing tokens in the order in which the request named the resources; one that it named twice comes twice.
    pub fn tokens(&self) -> impl Iterator<Item = Token> + '_ {
        self.fences.tokens()
    }

    /// Whether the holder may still believe in all leases, by the local clock and without asking the store.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.loss().is_none()
    }

    /// Why one of the ownerships ended, if one did; judged as by [`MultiGuard::is_held`].
    #[must_use]
    pub fn loss(&self) -> Option<LossReason> {
        self.fences.loss()
    }

    /// Resolves when the first of them is lost: told by the store, or at the local end of its lease. Cancel safe.
    pub async fn lost(&self) -> LossReason {
        self.fences.lost().await
    }

    /// The time for which the holder may still believe in all of them, the least of all; zero when one is lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.fences.remaining()
    }

    /// Releases all in one go, one command for each sent together, and reports the worst of what the store found: an
    /// error, else [`Released::Lost`], else [`Released::Unknown`].
    ///
    /// Dropping the returned future, or an error, leaves what is not released yet to the background, where it is
    /// repeated for a while.
    ///
    /// # Errors
    ///
    /// [`LockError::Unavailable`] when the store did not answer for one of them; at the latest it ends with its lease.
    pub async fn release(self) -> Result<Released, LockError> {
        self.held.release().await
    }

    /// Sends the releases without waiting for their outcome: dropping, under a name.
    pub fn release_detached(self) {
        drop(self);
    }
}
