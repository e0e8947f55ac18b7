use std::sync::Arc;

use super::{delegation::Delegation, joined::Joined, table::Delegations};
use crate::{
    resource::Key,
    store::{Attempt, LockError, Ownership, Recall},
};

/// The task of a delegation, from the attempt of the readers that asked for it together to its release.
pub(super) struct Keeper {
    delegations: Arc<Delegations>,
    key: Key,
    joined: Arc<Joined>,
    granted: Option<Arc<Delegation>>,
}

impl Keeper {
    /// Begins the attempt on a task of the locks.
    pub(super) fn begin(delegations: &Arc<Delegations>, attempt: Attempt, joined: Arc<Joined>) {
        let (delegations, key) = (Arc::clone(delegations), attempt.key.clone());
        let tasks = delegations.tasks.clone();
        drop(tasks.spawn(Self { delegations, key, joined, granted: None }.run(attempt)));
    }

    /// The attempt waits to the latest end of the waits of those who join it, and ends with the last of them.
    async fn run(mut self, attempt: Attempt) {
        loop {
            let acquired = tokio::select! {
                biased;
                () = self.delegations.closing.cancelled() => Err(LockError::ShuttingDown),
                () = self.deserted() => return,
                acquired = self.delegations.store.acquire(attempt.clone()) => acquired,
            };
            let (waiters, error) = match acquired {
                Ok(ownership) => return self.keep(ownership).await,
                Err(error @ LockError::Timeout { .. }) => {
                    match self.delegations.give_up_in_time(&self.key, &self.joined) {
                        Some(waiters) => (waiters, error),
                        // In the moment in which it ended somebody came who waits for longer.
                        None => continue,
                    }
                }
                Err(error) => (self.delegations.give_up(&self.key, &self.joined), error),
            };
            waiters.into_iter().for_each(|waiter| waiter.answer(Err(error.clone())));
            return;
        }
    }

    /// Resolves when nobody is left to ask for.
    async fn deserted(&self) {
        loop {
            self.joined.deserted().await;
            if self.delegations.give_up_deserted(&self.key, &self.joined) {
                return;
            }
        }
    }

    async fn keep(&mut self, ownership: Arc<Ownership>) {
        let delegation = self.delegations.granted(&self.joined, ownership);
        self.granted = Some(Arc::clone(&delegation));
        delegation.readers.until_recalled().await;
        self.delegations.forget(&delegation);
        delegation.ended().await;
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // It has come to its end, or goes with its runtime.
        match &self.granted {
            Some(delegation) => {
                delegation.recall(Recall::Shutdown);
                self.delegations.forget(delegation);
            }
            None => drop(self.delegations.give_up(&self.key, &self.joined)),
        }
    }
}
