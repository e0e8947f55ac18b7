use std::{sync::Arc, time::Duration};

use foldhash::HashMap;
use parking_lot::Mutex;

use super::mailbox::Mailbox;
use crate::{clock::Instant, resource::Key, store::Owner};

/// Keeps the waiters of a process from asking the server more often than is useful.
///
/// A waiter asks from time to time, because a question finds leases that ran out and grants that nobody took up. One
/// question per process and period is enough. Any waiter may send it, so a waiter whose task is stuck does not hinder
/// the others. If a question finds its own place gone, all waiters of the resource ask again, once for each loss.
#[derive(Debug, Default)]
pub(crate) struct ReaskThrottle(Mutex<Table>);

/// Hashed with a secret, since the keys come from requests.
type Table = std::collections::HashMap<Key, Resource>;

/// A resource that attempts of this process wait for.
#[derive(Debug)]
struct Resource {
    waiters: HashMap<Owner, Arc<Mailbox>>,
    /// When one of them last asked.
    last: Instant,
    /// A lock of this process on the resource is gone, and perhaps the queue with it: the next question is due now.
    due: bool,
    /// When all waiters were last told that their places are gone.
    told: Option<Instant>,
}

impl ReaskThrottle {
    /// Enters a waiter. It leaves at the end of its attempt.
    pub(super) fn enter(&self, key: &Key, owner: &Owner, mailbox: &Arc<Mailbox>) {
        let new = || Resource { waiters: HashMap::default(), last: Instant::now(), due: false, told: None };
        let mut table = self.0.lock();
        table.entry(key.clone()).or_insert_with(new).waiters.insert(owner.clone(), Arc::clone(mailbox));
    }

    pub(super) fn leave(&self, key: &Key, owner: &Owner) {
        let mut table = self.0.lock();
        if let Some(resource) = table.get_mut(key) {
            resource.waiters.remove(owner);
            if resource.waiters.is_empty() {
                table.remove(key);
            }
        }
    }

    /// Returns `Ok` if the waiter may ask now, because no waiter of this process has asked for `period`, or because a
    /// question is due. Otherwise returns the time until the waiter may ask.
    pub(super) fn claim(&self, key: &Key, period: Duration) -> Result<(), Duration> {
        let mut table = self.0.lock();
        let Some(resource) = table.get_mut(key) else { return Ok(()) };
        let left = period.saturating_sub(resource.last.elapsed());
        if !left.is_zero() && !resource.due {
            return Err(left);
        }
        (resource.last, resource.due) = (Instant::now(), false);
        Ok(())
    }

    /// Called when a command of this process found its lock on the resource gone. One waiter asks at once whether the
    /// queue is still there.
    pub(crate) fn doubt(&self, key: &Key) {
        if let Some(resource) = self.0.lock().get_mut(key) {
            resource.due = true;
            resource.waiters.values().for_each(|mailbox| mailbox.ask_for_all());
        }
    }

    /// Called when a reply made at server time `now` said that the place of a waiter is gone. All waiters of the
    /// resource in this process whose last answer is older ask again, unless they were told of this loss before.
    ///
    /// `confirmed` is when the question that last found the place was sent. If that was before the last loss that all
    /// waiters were told of, it is the same loss. `None` when the waiter already knew that its own place was gone.
    pub(super) fn place_lost(&self, key: &Key, confirmed: Option<Instant>, now: u64) {
        let mut table = self.0.lock();
        let Some(resource) = table.get_mut(key) else { return };
        if confirmed.is_some_and(|sent| resource.told.is_none_or(|told| told < sent)) {
            resource.told = Some(Instant::now());
            resource.waiters.values().for_each(|mailbox| mailbox.displaced(now));
        }
    }
}
