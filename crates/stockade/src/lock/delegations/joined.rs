use std::{collections::HashMap, mem, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use super::Inside;
use crate::{
    clock::Instant,
    resource::Key,
    store::{Attempt, LockError, Readers},
};

/// The most readers that wait for one attempt together, as many as a process may have attempts.
const MOST: usize = 65_536;

/// The readers of this process that wait for one attempt.
///
/// Readers are added and taken under the lock of the table. A reader may leave without that lock.
#[derive(Debug, Default)]
pub(super) struct Joined {
    waiting: Mutex<Waiters>,
    /// The readers that will share the ownership.
    pub(super) readers: Arc<Readers>,
    /// Wakes the attempt when the last waiting reader has left.
    deserted: Notify,
}

#[derive(Debug, Default)]
struct Waiters {
    next_id: u64,
    by_id: HashMap<u64, Waiter>,
}

/// A waiting reader, as the attempt sees it.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) max_hold: Option<Duration>,
    answer: oneshot::Sender<Result<Inside, LockError>>,
}

impl Waiter {
    /// A reader that has left gives its part back at once.
    pub(super) fn answer(self, answer: Result<Inside, LockError>) {
        drop(self.answer.send(answer));
    }
}

/// A waiting reader's own handle. Dropping it leaves the attempt to the others.
#[derive(Debug)]
pub(in crate::lock) struct Waiting {
    joined: Arc<Joined>,
    id: u64,
    answer: oneshot::Receiver<Result<Inside, LockError>>,
}

impl Waiting {
    /// The outcome of the attempt for this reader. Cancel safe.
    pub(in crate::lock) async fn answer(&mut self) -> Result<Inside, LockError> {
        // Only a runtime that shuts down drops the attempt.
        (&mut self.answer).await.unwrap_or(Err(LockError::ShuttingDown))
    }

    /// The error for a reader whose wait has ended first.
    pub(super) fn timed_out(&self, key: &Key, since: Instant) -> LockError {
        let (position, remaining) = self.joined.readers.place();
        LockError::Timeout { key: key.clone(), waited: since.elapsed(), remaining, position }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut waiting = self.joined.waiting.lock();
        let last = waiting.by_id.remove(&self.id).is_some() && waiting.by_id.is_empty();
        drop(waiting);
        if last {
            self.joined.deserted.notify_one();
        }
    }
}

impl Joined {
    /// Adds a reader, unless as many wait as its attempt allows. Before the store has queued the attempt, the readers
    /// wait for a reply and not for a holder, so the limit of the queue does not count yet.
    pub(super) fn join(self: &Arc<Self>, attempt: &Attempt, max_hold: Option<Duration>) -> Result<Waiting, LockError> {
        let mut waiting = self.waiting.lock();
        let (place, remaining) = self.readers.place();
        let most = if place.is_some() { attempt.max_waiters as usize } else { MOST };
        if waiting.by_id.len() >= most {
            let waiters = waiting.by_id.len() as u64;
            return Err(LockError::QueueFull { waiters, position: waiters + 1, remaining });
        }
        let (id, (sender, answer)) = (waiting.next_id, oneshot::channel());
        waiting.next_id += 1;
        self.readers.wait_until((attempt.wait != Duration::MAX).then(|| Instant::now() + attempt.wait));
        waiting.by_id.insert(id, Waiter { max_hold, answer: sender });
        Ok(Waiting { joined: Arc::clone(self), id, answer })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.lock().by_id.is_empty()
    }

    /// Takes all waiting readers.
    pub(super) fn take(&self) -> Vec<Waiter> {
        mem::take(&mut self.waiting.lock().by_id).into_values().collect()
    }

    /// Resolves when the last reader has left. Another one may have joined since.
    pub(super) async fn deserted(&self) {
        self.deserted.notified().await;
    }
}
