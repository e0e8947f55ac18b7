use std::{sync::Arc, time::Duration};

use super::{
    alarm::Shared,
    attempts::Settled,
    lock::{Asker, Place},
};
use crate::{
    clock::Instant,
    store::{Attempt, LockError, Ownership},
};

/// An attempt in the queue. Dropping it removes it from the queue, or gives back a grant that came meanwhile.
#[derive(Debug)]
pub(super) struct Waiting<'a> {
    pub(super) shared: &'a Arc<Shared>,
    pub(super) asker: Asker,
    pub(super) attempt: &'a Attempt,
    pub(super) place: Place,
    pub(super) since: Instant,
    pub(super) settled: bool,
}

impl Waiting<'_> {
    pub(super) async fn granted(mut self) -> Result<Arc<Ownership>, LockError> {
        loop {
            // A wake-up that came before this call left its permit in the notifier.
            let woken = self.place.wake.notified();
            let timed_out = match self.place.until {
                Some(until) => tokio::time::timeout(until.remaining(), woken).await.is_err(),
                None => {
                    woken.await;
                    false
                }
            };
            // A grant that came with the end of the wait counts. Only this step decides whether a grant came.
            match self.shared.change(|table, now| table.settle(now, &self.asker, self.attempt, &self.place)) {
                Settled::Held(ownership) => {
                    self.settled = true;
                    return Ok(ownership);
                }
                Settled::Closed => return Err(LockError::ShuttingDown),
                Settled::Waiting if timed_out => return Err(self.timed_out()),
                Settled::Waiting => {}
            }
        }
    }

    fn timed_out(&self) -> LockError {
        let key = &self.attempt.key;
        let (remaining, position) =
            self.shared.change(|table, now| (table.remaining(now, self.attempt), table.position(key, &self.place)));
        let waited: Duration = self.since.elapsed();
        LockError::Timeout { key: key.clone(), waited, remaining, position }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.settled {
            let (key, owner) = (&self.attempt.key, &self.asker.owner);
            self.shared.change(|table, now| table.release(now, key, owner, Some(&self.place)));
        }
    }
}
