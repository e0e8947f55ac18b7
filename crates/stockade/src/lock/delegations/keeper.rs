use std::sync::Arc;

use super::{delegation::Delegation, joined::Joined, table::Delegations};
use crate::{
    resource::Key,
    store::{Attempt, LockError, Ownership, Recall},
};

/// The task of a delegation, from the attempt of its first readers to its release.
pub(super) struct Keeper {
    delegations: Arc<Delegations>,
    key: Key,
    joined: Arc<Joined>,
    granted: Option<Arc<Delegation>>,
}

impl Keeper {
    /// Starts the attempt on a task of the locks, at home: other readers wait for it, and a writer for its end, while the
    /// runtime of the first reader may stand still.
    pub(super) fn begin(delegations: &Arc<Delegations>, attempt: Attempt, joined: Arc<Joined>) {
        let (delegations, key) = (Arc::clone(delegations), attempt.key.clone());
        let (tasks, home) = (delegations.tasks.clone(), delegations.home.clone());
        drop(tasks.spawn_on(Self { delegations, key, joined, granted: None }.run(attempt), &home));
    }

    /// The attempt waits as long as the most patient of its readers, and ends when the last one has left.
    async fn run(mut self, attempt: Attempt) {
        loop {
            let acquired = tokio::select! {
                biased;
                () = self.delegations.closing.cancelled() => Err(LockError::ShuttingDown),
                () = self.deserted() => return,
                acquired = self.delegations.store.acquire(attempt.clone()) => acquired,
            };
            let error = match acquired {
                Ok(ownership) => return self.keep(ownership).await,
                Err(error) => error,
            };
            // A reader that waits longer may have joined at the moment in which the attempt ended.
            let over = |joined: &Joined| {
                let until = joined.readers.waits_until();
                !matches!(error, LockError::Timeout { .. }) || until.is_some_and(|until| until.remaining().is_zero())
            };
            let Some(waiters) = self.delegations.give_up(&self.key, &self.joined, over) else { continue };
            waiters.into_iter().for_each(|waiter| waiter.answer(Err(error.clone())));
            return;
        }
    }

    /// Resolves when no reader waits for the attempt any more.
    async fn deserted(&self) {
        loop {
            self.joined.deserted().await;
            if self.delegations.give_up(&self.key, &self.joined, Joined::is_empty).is_some() {
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
        // The task has ended, or its runtime drops it.
        match &self.granted {
            Some(delegation) => {
                delegation.recall(Recall::Shutdown);
                self.delegations.forget(delegation);
            }
            None => drop(self.delegations.give_up(&self.key, &self.joined, |_| true)),
        }
    }
}
