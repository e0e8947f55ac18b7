use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::Notify;

use super::cadence::Cadence;
use crate::{
    clock::Instant,
    metrics,
    store::{LockStore, LossReason, Ownership, Recall},
};

/// Renewals due within this time of each other go together.
const TOGETHER: Duration = Duration::from_millis(5);
/// What a renewal may take however short the lease is: a slow round trip.
const LEAST_PATIENCE: Duration = Duration::from_millis(50);
/// What readers share is recalled at this age: nobody begins a transaction under a token that is much older than that.
const OLDEST_SHARED: Duration = Duration::from_secs(300);
/// The most in one call, so that one slow call does not hold up many.
const BATCH: usize = 256;

/// The ownerships on one shard of the store, in the order in which something is to be done about them.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) store: Arc<dyn LockStore>,
    cadence: Arc<Cadence>,
    table: Mutex<Table>,
    /// Wakes the task: something is due earlier than what it sleeps for, or nothing is left.
    pub(super) rearm: Notify,
}

#[derive(Debug, Default)]
struct Table {
    next_id: u64,
    entries: HashMap<u64, Entry>,
    /// Every entry by the time it must be looked at next.
    agenda: BTreeSet<(Instant, u64)>,
    /// What the task sleeps for; `None` without a task.
    alarm: Option<Instant>,
    closed: bool,
    /// Another will be made for its shard.
    retired: bool,
}

#[derive(Debug)]
struct Entry {
    ownership: Arc<Ownership>,
    /// Its place in the agenda.
    at: Instant,
    added: Instant,
    /// `None` while a renewal is on its way.
    renew_at: Option<Instant>,
    /// The end of the longest hold that its request allowed.
    ends_at: Option<Instant>,
}

impl Entry {
    /// The next time at which something must happen, whatever becomes of a renewal on its way.
    fn next(&self) -> Instant {
        let deadline = self.ownership.deadline();
        let end = self.ends_at.map_or(deadline, |end| end.min(deadline));
        self.renew_at.map_or(end, |renew| renew.min(end))
    }
}

impl Entry {
    /// Whether it is to be renewed. What readers share is recalled when nobody used it since it was renewed last, and at its
    /// greatest age, from which on only those who are inside keep it.
    fn is_wanted(&self, now: Instant) -> bool {
        let Some(readers) = self.ownership.readers() else { return true };
        if readers.rested() {
            readers.recall(Recall::Unused);
        } else if now.since(self.added) >= OLDEST_SHARED {
            readers.recall(Recall::Old);
        }
        readers.recalled().is_none() || !readers.is_empty()
    }
}

/// What became of an ownership that was to be renewed.
#[derive(Debug)]
pub(super) enum Added {
    /// `idle`: no task looks after it yet.
    Renewed {
        id: u64,
        idle: bool,
    },
    Closed,
    Retired,
}

/// One that is to be renewed now.
#[derive(Clone, Debug)]
struct Due {
    id: u64,
    ownership: Arc<Ownership>,
    /// When it was to be sent; the next is planned from there.
    planned: Instant,
    /// The deadline that a confirmation moves.
    deadline: Instant,
}

/// Renewals on their way, all to one shard.
#[derive(Debug)]
pub(super) struct Batch {
    due: Vec<Due>,
    pub(super) ownerships: Vec<Arc<Ownership>>,
    /// How long it may take: two that hang must leave time for a third.
    pub(super) patience: Duration,
}

impl Batch {
    fn new(due: &[Due]) -> Self {
        let ownerships: Vec<_> = due.iter().map(|due| Arc::clone(&due.ownership)).collect();
        let shortest = ownerships.iter().map(|ownership| ownership.lease).min().unwrap_or_default();
        Self { due: due.to_vec(), ownerships, patience: (shortest / 6).max(LEAST_PATIENCE) }
    }
}

impl Lane {
    pub(super) fn new(store: Arc<dyn LockStore>, cadence: Arc<Cadence>) -> Self {
        Self { store, cadence, table: Mutex::default(), rearm: Notify::new() }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, ownership: &Arc<Ownership>, ends_at: Option<Instant>) -> Added {
        let now = Instant::now();
        let left = ownership.deadline().since(now);
        // A grant that was handed over may have less than its whole lease.
        let period = if left > ownership.lease * 9 / 10 { ownership.lease / 3 } else { left / 3 };
        let renew_at = self.cadence.next(now, period, ownership.key.bucket());
        let mut table = self.table();
        if table.closed {
            return Added::Closed;
        }
        if table.retired {
            return Added::Retired;
        }
        let id = table.next_id;
        table.next_id += 1;
        let entry = Entry { ownership: Arc::clone(ownership), at: now, added: now, renew_at: Some(renew_at), ends_at };
        table.entries.insert(id, entry);
        table.plan(id);
        let next = table.agenda.first().map(|(at, _)| *at);
        let alarm = std::mem::replace(&mut table.alarm, next);
        drop(table);
        if alarm.is_some() && next < alarm {
            self.rearm.notify_one();
        }
        Added::Renewed { id, idle: alarm.is_none() }
    }

    /// The longest hold of an entry.
    pub(super) fn limit(&self, id: u64, ends_at: Instant) {
        let mut table = self.table();
        let Some(entry) = table.entries.get_mut(&id) else { return };
        entry.ends_at = Some(ends_at);
        let at = entry.at;
        table.agenda.remove(&(at, id));
        table.plan(id);
        let next = table.agenda.first().map(|(at, _)| *at);
        // An entry whose task has gone with its runtime waits for the next one to be added, as without a limit.
        if table.alarm.is_some_and(|alarm| next < Some(alarm)) {
            table.alarm = next;
            self.rearm.notify_one();
        }
    }

    pub(super) fn remove(&self, id: u64) {
        let mut table = self.table();
        if let Some(entry) = table.entries.remove(&id) {
            table.agenda.remove(&(entry.at, id));
        }
    }

    /// Accepts no more if it has neither entries nor a task; whether that is so.
    pub(super) fn retire(&self) -> bool {
        let mut table = self.table();
        table.retired |= table.entries.is_empty() && table.alarm.is_none();
        table.retired
    }

    /// Takes all entries and accepts no more.
    pub(super) fn close(&self) -> Vec<Arc<Ownership>> {
        let left = {
            let mut table = self.table();
            table.closed = true;
            table.agenda.clear();
            std::mem::take(&mut table.entries)
        };
        self.rearm.notify_one();
        left.into_values().map(|entry| entry.ownership).collect()
    }

    /// Does what is due: tells losses, takes out renewals to send. Returns those and when to look again; `None` with
    /// nothing left, after which the task must end.
    pub(super) fn due(&self, now: Instant) -> (Vec<Batch>, Option<Instant>) {
        let mut due: Vec<Due> = Vec::new();
        let mut over: Vec<(Arc<Ownership>, bool)> = Vec::new();
        let next = {
            let mut table = self.table();
            let table = &mut *table;
            for id in table.take_agenda(now + TOGETHER) {
                let Some(entry) = table.entries.get_mut(&id) else { continue };
                let held_too_long = entry.ends_at.is_some_and(|end| now >= end);
                if held_too_long || entry.ownership.loss().is_some() {
                    over.extend(table.entries.remove(&id).map(|entry| (entry.ownership, held_too_long)));
                    continue;
                }
                if let Some(planned) = entry.renew_at.take_if(|renew_at| *renew_at <= now + TOGETHER) {
                    metrics::observe(metrics::LOCK_RENEWAL_LAG, &[], now.since(planned));
                    if entry.is_wanted(now) {
                        let (ownership, deadline) = (Arc::clone(&entry.ownership), entry.ownership.deadline());
                        due.push(Due { id, ownership, planned: planned.max(now), deadline });
                    }
                }
                table.plan(id);
            }
            table.alarm = table.agenda.first().map(|(at, _)| *at);
            table.alarm
        };
        for (ownership, held_too_long) in over {
            ownership.lose(LossReason::Expired);
            if held_too_long {
                // Its lease has time left; those who wait need not.
                self.store.release_detached(ownership);
            }
        }
        (self.batches(due), next)
    }

    /// In the order of their deadlines, each to one shard only: one that hangs must hold up nothing of another.
    fn batches(&self, mut due: Vec<Due>) -> Vec<Batch> {
        due.sort_by_key(|due| due.deadline);
        let mut shards: Vec<(u32, Vec<Due>)> = Vec::new();
        for due in due {
            let shard = self.store.shard(&due.ownership.key);
            match shards.iter_mut().find(|(known, _)| *known == shard) {
                Some((_, renewals)) => renewals.push(due),
                None => shards.push((shard, vec![due])),
            }
        }
        shards.iter().flat_map(|(_, due)| due.chunks(BATCH).map(Batch::new)).collect()
    }

    /// Plans the next renewal of each entry of a batch that came back, or did not in time.
    pub(super) fn renewed(&self, batch: &Batch) {
        let now = Instant::now();
        let mut table = self.table();
        for Due { id, ownership, planned, deadline } in &batch.due {
            let Some(entry) = table.entries.get_mut(id) else { continue };
            let confirmed = ownership.deadline() > *deadline;
            entry.renew_at = Some(if confirmed {
                self.cadence.next(*planned, ownership.lease / 3, ownership.key.bucket())
            } else {
                now + retry_after(ownership.lease)
            });
            let at = entry.at;
            table.agenda.remove(&(at, *id));
            table.plan(*id);
        }
    }

    /// The task is gone without having come to its end.
    pub(super) fn abandoned(&self) {
        self.table().alarm = None;
    }
}

impl Table {
    fn take_agenda(&mut self, until: Instant) -> Vec<u64> {
        let mut ids = Vec::new();
        while let Some((_, id)) = self.agenda.first().copied().filter(|(at, _)| *at <= until) {
            self.agenda.pop_first();
            ids.push(id);
        }
        ids
    }

    /// Puts an entry on the agenda, where it must not be yet.
    fn plan(&mut self, id: u64) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.at = entry.next();
            self.agenda.insert((entry.at, id));
        }
    }
}

/// The pause before a renewal that failed is tried again.
fn retry_after(lease: Duration) -> Duration {
    (lease / 10).clamp(Duration::from_millis(10), Duration::from_secs(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        lock::{Mode, Token},
        resource::Key,
        store::{Owner, Readers},
    };

    #[test]
    fn what_readers_share_is_recalled_when_it_is_old_and_renewed_while_one_is_inside() {
        let readers = Arc::<Readers>::default();
        let (added, lease) = (Instant::now(), Duration::from_secs(2));
        let (key, owner) = (Key::new("stock", "1").unwrap(), Owner::new("a".repeat(28)));
        let ownership = Ownership::new(key, owner, Mode::Read, Token::new(7).unwrap(), lease, added + lease, None);
        let ownership = Arc::new(ownership.shared_by(Some(Arc::clone(&readers))));
        let entry = Entry { ownership, at: added, added, renew_at: None, ends_at: None };
        assert!(readers.enter());
        assert!(entry.is_wanted(added + (OLDEST_SHARED - lease)));
        assert_eq!(readers.recalled(), None);
        assert!(entry.is_wanted(added + OLDEST_SHARED), "somebody is inside");
        assert_eq!(readers.recalled(), Some(Recall::Old));
        readers.leave();
        assert!(!entry.is_wanted(added + OLDEST_SHARED));
    }
}
