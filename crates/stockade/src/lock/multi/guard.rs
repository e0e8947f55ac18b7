use std::{fmt, sync::Arc, time::Duration};

use super::{MultiFence, held_set::HeldSet};
use crate::{
    lock::{Fence, LockError, LossReason, Released, Token},
    resource::Resource,
};

/// Ownership of several resources, all or nothing. The owner is this value, not the thread or task that has it.
///
/// While it lives, the leases are renewed. Once one of them is lost, all count as lost; the others are given back when
/// the guard is dropped or released. Dropping the guard releases all in the background, even outside of a runtime.
/// [`MultiGuard::release`] also reports the outcome. Dropping any of its futures at any point still releases.
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

    /// The fence of one of the resources; `None` if the request did not name it.
    pub fn fence_of<R: Resource + ?Sized>(&self, resource: &R) -> Option<&Fence> {
        self.fences.of(resource)
    }

    /// The fencing tokens in the order in which the request named the resources. A resource that it named twice comes
    /// twice.
    pub fn tokens(&self) -> impl Iterator<Item = Token> + '_ {
        self.fences.tokens()
    }

    /// Whether the holder may still believe in all leases, by the local clock and without asking the store.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.loss().is_none()
    }

    /// Why one of the ownerships ended, if one did. Decided like [`MultiGuard::is_held`].
    #[must_use]
    pub fn loss(&self) -> Option<LossReason> {
        self.fences.loss()
    }

    /// Resolves when the first of them is lost: by a message of the store, or at the local end of its lease. Cancel
    /// safe.
    pub async fn lost(&self) -> LossReason {
        self.fences.lost().await
    }

    /// How long the holder may still believe in all of them: the shortest time of all; zero if one is lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.fences.remaining()
    }

    /// Releases all of them, one command for each, all sent together. Returns the worst outcome: an error, or else
    /// [`Released::Lost`], or else [`Released::Unknown`].
    ///
    /// If the returned future is dropped, or an error is returned, the releases that are still missing are repeated in
    /// the background for a while.
    ///
    /// # Errors
    ///
    /// [`LockError::Unavailable`] if the store did not answer for one of them, [`LockError::Foreign`] as for
    /// [`Guard::release`](crate::Guard::release). That lock ends with its lease at the latest.
    pub async fn release(self) -> Result<Released, LockError> {
        self.held.release().await
    }
}

/// Shows its fences, which have all that can be said of it.
impl fmt::Debug for MultiGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MultiGuard").field(&self.fences).finish()
    }
}
