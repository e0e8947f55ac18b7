use std::{sync::Arc, time::Duration};

use futures_util::future::{join_all, pending, select_all};
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::{
    lock::{Fence, LockError, LossReason, Released, held_lock::HeldLock, shared::Shared},
    store::Ownership,
};

/// The ownerships held so far, in the order of acquisition. Dropping this gives them back in reverse order.
#[derive(Default)]
pub(super) struct HeldSet(Vec<HeldLock>);

impl HeldSet {
    /// Adds an ownership and renews it from now on. A commit under one of them is a commit under all.
    pub(super) fn add(&mut self, shared: &Arc<Shared>, ownership: Arc<Ownership>, counted: TaskTrackerToken) {
        if let Some(first) = self.0.first() {
            ownership.commits.within(&first.fence().ownership.commits);
        }
        self.0.push(HeldLock::new(Arc::clone(shared), ownership, None, counted));
    }

    pub(super) fn fences(&self) -> Arc<[Fence]> {
        self.0.iter().map(|held| held.fence().clone()).collect()
    }

    /// All are held: sets the longest hold, and checks one last time whether all are still held.
    pub(super) fn complete(&self, max_hold: Option<Duration>) -> Result<(), LockError> {
        for held in &self.0 {
            if let Some(max_hold) = max_hold {
                held.limit(max_hold);
            }
            if let Some(reason) = held.fence().loss() {
                return Err(lost(held, reason));
            }
        }
        Ok(())
    }

    /// Resolves when one of them is lost. Never resolves while the set is empty.
    pub(super) async fn lost(&self) -> LockError {
        if self.0.is_empty() {
            return pending().await;
        }
        let (error, ..) =
            select_all(self.0.iter().map(|held| Box::pin(async { lost(held, held.fence().lost().await) }))).await;
        error
    }

    /// Sends all releases at once, and returns the worst outcome.
    pub(super) async fn release(mut self) -> Result<Released, LockError> {
        let released = join_all(std::mem::take(&mut self.0).into_iter().rev().map(HeldLock::release)).await;
        released.into_iter().reduce(|one, other| Ok(worse(one?, other?))).unwrap_or(Ok(Released::Released))
    }
}

impl Drop for HeldSet {
    fn drop(&mut self) {
        while let Some(last) = self.0.pop() {
            drop(last);
        }
    }
}

fn lost(held: &HeldLock, reason: LossReason) -> LockError {
    LockError::Lost { key: held.fence().key().clone(), reason }
}

fn worse(one: Released, other: Released) -> Released {
    let rank = |released| match released {
        Released::Released | Released::StillHeld => 0,
        Released::Unknown => 1,
        Released::Lost => 2,
    };
    if rank(other) > rank(one) { other } else { one }
}
