use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::mailbox::Mailbox;
use crate::{clock::Instant, resource::Key, store::Owner};

/// The resources that attempts of this process wait for, and when one of them last asked.
///
/// A poke finds leases that ran out and grants that nobody took up. One per process and period is enough, whoever sends
/// it: a waiter whose task is stuck is then no hindrance to the others. A poke that finds its own place gone speaks for
/// all: each of them asks again, once for each loss.
#[derive(Debug, Default)]
pub(crate) struct Pokes(Mutex<HashMap<Key, Poked>>);

#[derive(Debug)]
struct Poked {
    waiters: HashMap<Owner, Arc<Mailbox>>,
    last: Instant,
    /// A lock of this process on the resource is gone, and perhaps the queue with it: the next poke is due now.
    due: bool,
    /// When all waiters were last told that their places are gone.
    told: Option<Instant>,
}

impl Pokes {
    fn table(&self) -> MutexGuard<'_, HashMap<Key, Poked>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `Ok` to poke now, since nobody of this process did for `period`; else the time until then.
    fn claim(&self, key: &Key, period: Duration) -> Result<(), Duration> {
        let mut table = self.table();
        let Some(poked) = table.get_mut(key) else { return Ok(()) };
        let left = period.saturating_sub(poked.last.elapsed());
        if !left.is_zero() && !poked.due {
            return Err(left);
        }
        (poked.last, poked.due) = (Instant::now(), false);
        Ok(())
    }

    /// A command of this process found its lock on the resource gone: one waiter looks at once whether the queue is there.
    pub(crate) fn doubt(&self, key: &Key) {
        if let Some(poked) = self.table().get_mut(key) {
            poked.due = true;
            poked.waiters.values().for_each(|mailbox| mailbox.poke());
        }
    }
}

/// A waiter's part in [`Pokes`].
#[derive(Debug)]
pub(crate) struct Poker {
    pokes: Arc<Pokes>,
    key: Key,
    owner: Owner,
}

impl Poker {
    pub(crate) fn new(pokes: &Arc<Pokes>, key: &Key, owner: &Owner, mailbox: &Arc<Mailbox>) -> Self {
        let new = || Poked { waiters: HashMap::new(), last: Instant::now(), due: false, told: None };
        let mut table = pokes.table();
        table.entry(key.clone()).or_insert_with(new).waiters.insert(owner.clone(), Arc::clone(mailbox));
        drop(table);
        Self { pokes: Arc::clone(pokes), key: key.clone(), owner: owner.clone() }
    }

    pub(crate) fn claim(&self, period: Duration) -> Result<(), Duration> {
        self.pokes.claim(&self.key, period)
    }

    /// This waiter's place is gone, as a reply said that was made at server time `now`. All of the resource in this process
    /// whose last answer is older ask again, unless they were told of this loss before.
    ///
    /// `confirmed` is when the question was sent that last found the place there: before the last loss that all were told
    /// of, it is the same loss. `None` when the waiter knew that its own place was gone.
    pub(crate) fn displaced(&self, confirmed: Option<Instant>, now: u64) {
        let mut table = self.pokes.table();
        let Some(poked) = table.get_mut(&self.key) else { return };
        if confirmed.is_some_and(|sent| poked.told.is_none_or(|told| told < sent)) {
            poked.told = Some(Instant::now());
            poked.waiters.values().for_each(|mailbox| mailbox.displaced(now));
        }
    }
}

impl Drop for Poker {
    fn drop(&mut self) {
        let mut table = self.pokes.table();
        if let Some(poked) = table.get_mut(&self.key) {
            poked.waiters.remove(&self.owner);
            if poked.waiters.is_empty() {
                table.remove(&self.key);
            }
        }
    }
}
