use std::{sync::Arc, time::Duration};

use super::{
    limit::WaitLimit,
    mailbox::Mailbox,
    place::QueuePlace,
    state::{Registering, Terms},
};
use crate::{
    clock::Instant,
    redis::{Carrier, Run},
    store::{
        Attempt, LockError, Owner,
        redis::{commands::calls::GRANT, inner::Inner, release::Sendings},
    },
};

/// The most attempts that one process may have at a time, over all resources.
const MOST_ATTEMPTS: usize = 65_536;
/// How long an attempt that does not wait gives the holders, if all of them give way as soon as they are told to.
const RECALL_WAIT: Duration = Duration::from_millis(100);

/// One attempt, from the first command to the ownership. Dropping it undoes what was sent.
pub(crate) struct Waiter {
    pub(super) inner: Arc<Inner>,
    pub(super) attempt: Attempt,
    pub(super) owner: Owner,
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) limit: WaitLimit,
    pub(super) place: QueuePlace,
    pub(super) alarm: Alarm,
    pub(super) sendings: Sendings,
    pub(super) server: Server,
}

/// The server that an attempt asks.
#[derive(Debug, Default)]
pub(super) struct Server {
    pub(super) asked: Run,
    /// The connection that the last question went out on. `None` if messages about the question would not arrive there.
    pub(super) heard_on: Option<Carrier>,
    /// Whether the attempt has asked once without queueing, in a bucket where no message would have reached it.
    pub(super) knocked: bool,
}

/// When a waiter checks whether the queue moves on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alarm {
    pub(super) at: Instant,
    /// When the waiter last began to ask. If it has not asked since it began to wait, when it began to wait.
    pub(super) asked: Instant,
}

impl Waiter {
    pub(crate) fn new(inner: &Arc<Inner>, attempt: Attempt) -> Self {
        let limit = WaitLimit::new(attempt.wait);
        Self {
            owner: inner.new_owner(),
            inner: Arc::clone(inner),
            mailbox: Arc::default(),
            alarm: Alarm { at: limit.since, asked: limit.since },
            limit,
            place: QueuePlace::default(),
            sendings: Sendings::default(),
            server: Server::default(),
            attempt,
        }
    }

    pub(super) fn terms(&self) -> Terms {
        Terms { waits: !self.attempt.wait.is_zero(), permits: self.attempt.permits, lease: self.attempt.lease }
    }

    /// Makes an attempt that waits known to the inbox and to the other waiters.
    pub(super) async fn register(&mut self, registering: Registering) -> Result<(), LockError> {
        if registering == Registering::Recalled {
            self.attempt.wait = RECALL_WAIT;
            self.limit = self.limit.for_recall(RECALL_WAIT);
            // The attempt has asked without queueing already.
            self.server.knocked = true;
        }
        if !self.attempt.wait.is_zero() {
            let waiters = self.inner.waiters.insert(&self.owner, &self.attempt.key, &self.mailbox, MOST_ATTEMPTS);
            if waiters >= MOST_ATTEMPTS {
                let waiters = waiters as u64;
                return Err(LockError::QueueFull { waiters, position: waiters + 1, remaining: Duration::ZERO });
            }
            self.inner.throttle.enter(&self.attempt.key, &self.owner, &self.mailbox);
        }
        // Checked after the attempt is known to the inbox, so that either a shutdown finds the attempt there, or the
        // attempt finds the shutdown here.
        if self.inner.is_closing() {
            return Err(LockError::ShuttingDown);
        }
        if registering == Registering::New {
            self.inner.shards.attempted(self.attempt.key.bucket(), self.inner.timeout).await;
        }
        Ok(())
    }

    /// How long a handed-over grant lasts.
    pub(super) fn grant_lease(&self) -> Duration {
        self.attempt.lease.min(GRANT)
    }

    /// Returns whether readers that have joined since put off the end of the wait.
    pub(super) fn put_off(&mut self) -> bool {
        self.limit.put_off(self.attempt.yields.as_deref())
    }

    pub(super) fn timeout(&self, remaining: Duration) -> LockError {
        let (key, waited, position) = (self.attempt.key.clone(), self.limit.since.elapsed(), self.place.position);
        LockError::Timeout { key, waited, remaining, position }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        // The reply was dropped before this, and a command that was not sent by then is never sent.
        match self.sendings.take() {
            Some(sent) => {
                let queued = self.place.confirmed.is_some();
                self.inner.cancel(self.attempt.key.clone(), self.owner.clone(), sent, queued);
            }
            None if self.attempt.wait.is_zero() => {}
            None => self.inner.waiters.remove(&self.owner),
        }
        if !self.attempt.wait.is_zero() {
            self.inner.throttle.leave(&self.attempt.key, &self.owner);
        }
    }
}
