use std::{fmt, sync::Arc, time::Duration};

#[cfg(feature = "axum")]
use tokio::task::futures::TaskLocalFuture;

use crate::{
    lock::{LockError, LossReason, Mode, Token},
    resource::Key,
    store::{LockStore, Ownership},
};

tokio::task_local! {
    /// The innermost route lock of the request that this task handles. A commit that counts for it counts for the locks
    /// further out, too.
    static HANDLED: Option<Fence>;
}

/// The fencing side of an ownership: with it a handler writes safely, and notices when the lock is lost.
///
/// Cheap to clone. It does not keep the lock; the [`Guard`](super::Guard) does.
#[derive(Clone)]
pub struct Fence {
    pub(crate) ownership: Arc<Ownership>,
    pub(crate) store: Arc<dyn LockStore>,
}

impl Fence {
    /// The locked resource.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.ownership.key
    }

    /// Whether the resource is held for reading, for writing or as a permit.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.ownership.mode()
    }

    /// The fencing token of this ownership.
    #[must_use]
    pub fn token(&self) -> Token {
        self.ownership.token
    }

    /// Whether the guard has the lock and may still believe in its lease, by the local clock and without asking the
    /// store.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.loss().is_none()
    }

    /// Why the ownership ended, if it did; judged as by [`Fence::is_held`].
    #[must_use]
    pub fn loss(&self) -> Option<LossReason> {
        self.ownership.end()
    }

    /// Resolves when the ownership ends: when the store reports its loss, at the local end of the lease, even when the
    /// store and the renewal task are silent, or when the guard gives it back. Cancel safe.
    pub async fn lost(&self) -> LossReason {
        loop {
            match self.loss() {
                Some(LossReason::Released) => return LossReason::Released,
                Some(reason) => {
                    self.ownership.lose(reason);
                    return reason;
                }
                None => {}
            }
            // Renewals move the deadline on; a timer may fire late, the check above may not.
            let deadline = self.ownership.deadline().remaining();
            tokio::select! {
                reason = self.ownership.lost() => return reason,
                () = self.ownership.given_back() => {}
                () = tokio::time::sleep(deadline) => {}
            }
        }
    }

    /// Records that a commit under this ownership is about to be sent. `Tx::commit` calls it by itself. `false` means
    /// that the request was already ended and answered as not applied: roll the transaction back.
    ///
    /// It does not stop a downgrade or a handover from overtaking the commit: only commits of `Tx` do.
    ///
    /// Call it before writes that reach a store by other means than `Tx`. A `RouteLock` that ends a handler for holding
    /// too long answers "not applied", unless it was told that a commit may be on its way. In the task of the handler
    /// the fence of any lock tells it. A task that the handler has spawned calls this on the fence of the route lock,
    /// also before a `Tx` under another lock or under none.
    #[must_use = "on `false` roll back"]
    pub fn commit_started(&self) -> bool {
        handler_commits() && self.ownership.commits.start()
    }

    /// Makes all later tokens of this resource higher than `seen`.
    ///
    /// Use it when you claim the fence in a database of your own and the database refuses a live holder: it has seen a
    /// higher token than the lock store remembers. The token of the next acquire is then above `seen`. A lower `seen`
    /// changes nothing.
    ///
    /// # Errors
    ///
    /// [`LockError::Unavailable`], and [`LockError::Foreign`] if another program overwrote the token floor.
    pub async fn seed(&self, seen: Token) -> Result<(), LockError> {
        self.store.seed(self.key(), seen).await
    }

    /// The time for which the holder may still believe in its lease; zero when lost or given back.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        if self.loss().is_some() { Duration::ZERO } else { self.ownership.deadline().remaining() }
    }
}

/// Runs the handler of a request under a route lock. A commit in the task of the handler counts for that lock, under
/// whatever lock it is made, or under none.
#[cfg(feature = "axum")]
pub(crate) fn handling<F: Future>(route: Option<Fence>, handler: F) -> TaskLocalFuture<Option<Fence>, F> {
    HANDLED.scope(route, handler)
}

/// The route lock of the request that this task handles, for another task that commits for it.
#[cfg(feature = "postgres")]
pub(crate) fn handled() -> Option<Fence> {
    HANDLED.try_with(Clone::clone).ok().flatten()
}

/// Records for the request that this task handles, if any, that a commit is about to be sent. `false` if the request
/// was already ended and answered as not applied.
pub(crate) fn handler_commits() -> bool {
    let start = |route: &Option<Fence>| route.as_ref().is_none_or(|fence| fence.ownership.commits.start());
    HANDLED.try_with(start).unwrap_or(true)
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fence")
            .field("key", self.key())
            .field("mode", &self.mode())
            .field("token", &self.token())
            .field("loss", &self.loss())
            .finish()
    }
}
