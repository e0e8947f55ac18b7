use crate::lock::{Fence, Guard, LossReason, Mode, MultiGuard, handling};

/// What a request was granted: the lock of its route, on one resource or on several. Dropping it releases the lock,
/// unless a layer further in has another one of the same.
#[derive(Debug)]
pub(crate) enum Grant {
    One(Guard),
    Several(MultiGuard),
}

impl Grant {
    pub(crate) fn mode(&self) -> Mode {
        match self {
            Self::One(guard) => guard.mode(),
            Self::Several(_) => Mode::Write,
        }
    }

    /// Resolves when a lock is lost.
    pub(crate) async fn lost(&self) -> LossReason {
        match self {
            Self::One(guard) => guard.lost().await,
            Self::Several(guard) => guard.lost().await,
        }
    }

    /// The fence of the lock, of several the first.
    pub(crate) fn fence(&self) -> Option<Fence> {
        match self {
            Self::One(guard) => Some(guard.fence()),
            Self::Several(guard) => guard.fences().in_lock_order().first().cloned(),
        }
    }

    /// Runs the handler. Its commits count for this grant, under whatever lock they are made, or under none.
    pub(crate) fn handling<F: Future>(&self, handler: F) -> impl Future<Output = F::Output> + use<F> {
        handling(self.fence(), handler)
    }

    /// Refuses every later commit. `false` if a commit was started before, so nobody can say that nothing was applied.
    pub(crate) fn close_commits(&self) -> bool {
        match self {
            Self::One(guard) => guard.fence().ownership.commits.close(),
            Self::Several(guard) => guard.fences().close_commits(),
        }
    }
}
