use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use tokio::task::{AbortHandle, JoinSet};

use super::{Ending, Place};
pub(super) use crate::redis::LIMIT;
use crate::{
    redis::retried,
    resource::Key,
    store::{Attempt, Inspection, LockError, LockStore, Mode, Ownership, Released},
};

/// The lease of an attempt that names none: longer than a test waits, so that a lock left behind is seen.
pub(in crate::store) const LASTING: Duration = Duration::from_secs(3 * LIMIT.as_secs());

/// How late a timer may be on a busy machine.
pub(super) const LATE: Duration = Duration::from_secs(2);

/// The stores under test: several stores with the same locks, as several processes have them, and the servers that must
/// live as long.
pub(crate) struct Fixture {
    stores: Vec<Arc<dyn LockStore>>,
    holders_only: bool,
    place: Box<dyn Place>,
}

impl Fixture {
    pub(crate) fn new(stores: Vec<Arc<dyn LockStore>>, place: impl Place) -> Self {
        Self { stores, holders_only: false, place: Box::new(place) }
    }

    /// For stores that keep only the exclusive holder: no queue, no shared holders, and no token in an inspection.
    pub(crate) fn holders_only(self) -> Self {
        Self { holders_only: true, ..self }
    }

    /// Whether the stores have shared holders.
    pub(super) fn shares(&self) -> bool {
        !self.holders_only
    }

    /// Whether an inspection shows the tokens of holders.
    pub(super) fn shows_tokens(&self) -> bool {
        !self.holders_only
    }

    /// The store of the `n`th process; counts round.
    pub(super) fn store(&self, n: usize) -> &Arc<dyn LockStore> {
        &self.stores[n % self.stores.len()]
    }

    /// Acquires at once or panics.
    pub(super) async fn take(&self, n: usize, attempt: Attempt) -> Arc<Ownership> {
        let acquired = tokio::time::timeout(LIMIT, self.store(n).acquire(attempt)).await;
        acquired.expect("the store does not answer").expect("not granted")
    }

    pub(super) async fn release(&self, n: usize, ownership: &Arc<Ownership>) -> Released {
        let released = tokio::time::timeout(LIMIT, self.store(n).release(ownership)).await;
        released.expect("the store does not answer").expect("not released")
    }

    /// Acquires on a task of its own. Returns when the attempt is at this place in the queue, or at once if the store
    /// has no queue.
    pub(super) async fn enqueue(&self, n: usize, attempt: Attempt, place: u64) -> Waiter {
        let (store, key) = (Arc::clone(self.store(n)), attempt.key.clone());
        let mut task = JoinSet::new();
        let handle = task.spawn(async move { store.acquire(attempt).await });
        let waiter = Waiter { task, handle };
        if !self.holders_only {
            self.until(&key, |inspection| inspection.waiting == place).await;
        }
        waiter
    }

    pub(super) async fn inspect(&self, key: &Key) -> Inspection {
        self.store(0).inspect(key).await.expect("not inspected")
    }

    /// Waits until an inspection is as expected.
    pub(super) async fn until(&self, key: &Key, mut wanted: impl FnMut(&Inspection) -> bool) {
        let ask = async || {
            let seen = self.inspect(key).await;
            if wanted(&seen) { Ok(()) } else { Err(format!("{seen:?}")) }
        };
        retried(ask).await;
    }

    /// Whether an attempt that does not wait gets the resource. It is released at once.
    pub(super) async fn is_free(&self, key: &Key, mode: Mode) -> bool {
        match self.store(1).acquire(once(key, mode)).await {
            Ok(ownership) => {
                self.release(1, &ownership).await;
                true
            }
            Err(LockError::Busy { .. }) => false,
            Err(error) => panic!("{error}"),
        }
    }

    /// Waits until nothing is held or waited for.
    pub(super) async fn until_nothing_is_left(&self) {
        let ask = async || {
            let left = self.store(1).list(100).await.expect("not listed");
            if left.is_empty() { Ok(()) } else { Err(format!("{left:?} is left behind")) }
        };
        retried(ask).await;
    }
}

/// Runs a statement, waits until nothing is held or waited for, shuts the stores down, and checks that they leave no
/// keys, subscriptions, connections or tasks.
pub(crate) async fn run(fixture: impl Future<Output = Fixture>, statement: impl AsyncFnOnce(&Fixture)) {
    let ending = Ending::due();
    let fixture = fixture.await;
    statement(&fixture).await;
    fixture.until_nothing_is_left().await;
    let Fixture { stores, place, .. } = fixture;
    join_all(stores.iter().map(|store| store.shutdown(Duration::from_secs(1)))).await;
    drop(stores);
    ending.reach(async || place.leftovers().await).await;
}

/// An attempt that waits on a task of its own.
pub(super) struct Waiter {
    task: JoinSet<Result<Arc<Ownership>, LockError>>,
    handle: AbortHandle,
}

impl Waiter {
    pub(super) async fn result(mut self) -> Result<Arc<Ownership>, LockError> {
        let ended = tokio::time::timeout(LIMIT, self.task.join_next()).await;
        ended.expect("the attempt hangs").expect("one task").expect("the attempt panicked")
    }

    pub(super) async fn granted(self) -> Arc<Ownership> {
        self.result().await.expect("not granted")
    }

    pub(super) fn is_waiting(&self) -> bool {
        !self.handle.is_finished()
    }

    pub(super) async fn cancel(mut self) {
        self.task.shutdown().await;
    }
}

pub(in crate::store) fn key(id: &str) -> Key {
    Key::new("test", id).expect("a key")
}

/// An attempt that waits as long as a test may.
pub(in crate::store) fn attempt(key: &Key, mode: Mode) -> Attempt {
    Attempt {
        key: key.clone(),
        mode,
        permits: 0,
        lease: LASTING,
        wait: LIMIT,
        max_waiters: 1000,
        tag: Arc::from("a tag"),
        yields: None,
    }
}

pub(in crate::store) fn write(key: &Key) -> Attempt {
    attempt(key, Mode::Write)
}

pub(in crate::store) fn read(key: &Key) -> Attempt {
    attempt(key, Mode::Read)
}

/// An attempt on one permit of a semaphore with this capacity.
pub(super) fn permit(key: &Key, permits: u32) -> Attempt {
    Attempt { permits, ..attempt(key, Mode::Permit) }
}

/// An attempt that does not wait.
pub(in crate::store) fn once(key: &Key, mode: Mode) -> Attempt {
    Attempt { wait: Duration::ZERO, ..attempt(key, mode) }
}
