use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::{clock::Instant, resource::Key};

/// The resources that attempts of this process wait for, and when one of them last asked.
///
/// A poke finds leases that ran out and grants that nobody took up. One per process and period is enough, whoever sends
/// it: a waiter whose task is stuck is then no hindrance to the others.
#[derive(Debug, Default)]
pub(super) struct Pokes(Mutex<HashMap<Key, Poked>>);

#[derive(Debug)]
struct Poked {
    waiters: usize,
    last: Instant,
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
        if !left.is_zero() {
            return Err(left);
        }
        poked.last = Instant::now();
        Ok(())
    }
}

/// A waiter's part in [`Pokes`].
#[derive(Debug)]
pub(super) struct Poker {
    pokes: Arc<Pokes>,
    key: Key,
}

impl Poker {
    pub(super) fn new(pokes: &Arc<Pokes>, key: &Key) -> Self {
        let mut table = pokes.table();
        let poked = table.entry(key.clone()).or_insert_with(|| Poked { waiters: 0, last: Instant::now() });
        poked.waiters += 1;
        drop(table);
        Self { pokes: Arc::clone(pokes), key: key.clone() }
    }

    pub(super) fn claim(&self, period: Duration) -> Result<(), Duration> {
        self.pokes.claim(&self.key, period)
    }
}

impl Drop for Poker {
    fn drop(&mut self) {
        let mut table = self.pokes.table();
        if let Some(poked) = table.get_mut(&self.key) {
            poked.waiters -= 1;
            if poked.waiters == 0 {
                table.remove(&self.key);
            }
        }
    }
}
