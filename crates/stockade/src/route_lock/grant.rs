use axum::http::request::Parts;

use super::RequestLocks;
use crate::lock::{Guard, LossReason, Mode, MultiGuard};

/// What a request was granted: the lock of its route, on one resource or on several.
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

    /// Puts the fences among the extensions of the request.
    pub(crate) fn show(&self, parts: &mut Parts) {
        match self {
            Self::One(guard) => RequestLocks::push(parts, guard.fence()),
            Self::Several(guard) => RequestLocks::push_all(parts, &guard.fences()),
        }
    }

    /// Resolves when a lock is lost.
    pub(crate) async fn lost(&self) -> LossReason {
        match self {
            Self::One(guard) => guard.lost().await,
            Self::Several(guard) => guard.lost().await,
        }
    }

    /// Refuses every later commit. `false` if a commit was started before, so nobody can say that nothing was applied.
    pub(crate) fn close_commits(&self) -> bool {
        match self {
            Self::One(guard) => guard.fence().ownership.commits.close(),
            Self::Several(guard) => guard.fences().close_commits(),
        }
    }

    pub(crate) fn release_detached(self) {
        match self {
            Self::One(guard) => guard.release_detached(),
            Self::Several(guard) => guard.release_detached(),
        }
    }
}
