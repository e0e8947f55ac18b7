use std::{
    collections::HashMap,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::{Notify, oneshot};

use super::Inside;
use crate::{
    clock::Instant,
    resource::Key,
    store::{Attempt, LockError, Readers},
};

/// The readers of this process that wait for one attempt.
///
/// Changed under the lock of the table, but for those who go.
#[derive(Debug, Default)]
pub(super) struct Joined {
    waiting: Mutex<Waiters>,
    /// Those who will share what it leads to.
    pub(super) readers: Arc<Readers>,
    /// Wakes the attempt when the last of them has gone.
    deserted: Notify,
}

#[derive(Debug, Default)]
struct Waiters {
    next_id: u64,
    by_id: HashMap<u64, Waiter>,
}

/// One of them, as the attempt knows it.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) max_hold: Option<Duration>,
    answer: oneshot::Sender<Result<Inside, LockError>>,
}

impl Waiter {
    /// A reader that has gone leaves what it is given at once.
    pub(super) fn answer(self, answer: Result<Inside, LockError>) {
        drop(self.answer.send(answer));
    }
}

/// One of them, as it knows itself: dropping it leaves the attempt to the others.
#[derive(Debug)]
pub(in crate::lock) struct Waiting {
    joined: Arc<Joined>,
    id: u64,
    answer: oneshot::Receiver<Result<Inside, LockError>>,
}

impl Waiting {
    /// What the attempt led to. Cancel safe.
    pub(in crate::lock) async fn answer(&mut self) -> Result<Inside, LockError> {
        // Only a runtime that is shut down drops the attempt.
        (&mut self.answer).await.unwrap_or(Err(LockError::ShuttingDown))
    }
}

impl Waiting {
    /// The end of the wait came first.
    pub(super) fn timed_out(&self, key: &Key, since: Instant) -> LockError {
        let (position, remaining) = self.joined.readers.place();
        LockError::Timeout { key: key.clone(), waited: since.elapsed(), remaining, position }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut waiting = self.joined.waiting();
        let last = waiting.by_id.remove(&self.id).is_some() && waiting.by_id.is_empty();
        drop(waiting);
        if last {
            self.joined.deserted.notify_one();
        }
    }
}

impl Joined {
    fn waiting(&self) -> MutexGuard<'_, Waiters> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more waits, if no more than its attempt allows do then.
    pub(super) fn join(self: &Arc<Self>, attempt: &Attempt, max_hold: Option<Duration>) -> Result<Waiting, LockError> {
        let mut waiting = self.waiting();
        let waiters = waiting.by_id.len() as u64;
        if waiters >= u64::from(attempt.max_waiters) {
            return Err(LockError::QueueFull { waiters, position: waiters + 1, remaining: Duration::ZERO });
        }
        let (id, (sender, answer)) = (waiting.next_id, oneshot::channel());
        waiting.next_id += 1;
        self.readers.wait_until((attempt.wait != Duration::MAX).then(|| Instant::now() + attempt.wait));
        waiting.by_id.insert(id, Waiter { max_hold, answer: sender });
        Ok(Waiting { joined: Arc::clone(self), id, answer })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting().by_id.is_empty()
    }

    /// Takes all who wait.
    pub(super) fn take(&self) -> Vec<Waiter> {
        mem::take(&mut self.waiting().by_id).into_values().collect()
    }

    /// Resolves when the last one has gone; another may have come since.
    pub(super) async fn deserted(&self) {
        self.deserted.notified().await;
    }
}
