use std::{collections::BTreeSet, sync::Arc, time::Duration};

use foldhash::HashMap;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{
    batch::{Batch, Due, batches},
    entry::Entry,
    schedule::Schedule,
};
use crate::{
    clock::Instant,
    metrics::{LOCK_RENEWAL_LAG, Times},
    store::{LockStore, LossReason, Ownership},
};

/// Renewals that are due within this time of each other are sent together.
const TOGETHER: Duration = Duration::from_millis(5);

/// The ownerships to renew, ordered by the time of their next event.
#[derive(Debug)]
pub(super) struct RenewalQueue {
    pub(super) store: Arc<dyn LockStore>,
    schedule: Schedule,
    table: Mutex<Table>,
    /// Wakes the task: something is due earlier than its alarm, or nothing is left.
    pub(super) rearm: Notify,
}

#[derive(Debug, Default)]
struct Table {
    next_id: u64,
    entries: HashMap<u64, Entry>,
    /// Every entry, by the time of its next event.
    agenda: BTreeSet<(Instant, u64)>,
    /// The time until which the task sleeps; `None` without a task.
    alarm: Option<Instant>,
    closed: bool,
}

impl RenewalQueue {
    pub(super) fn new(store: Arc<dyn LockStore>) -> Self {
        Self { store, schedule: Schedule::new(), table: Mutex::default(), rearm: Notify::new() }
    }

    /// Returns the id of the entry, and whether the queue needs a task. `None` if the queue is closed.
    pub(super) fn add(&self, ownership: &Arc<Ownership>, ends_at: Option<Instant>) -> Option<(u64, bool)> {
        let now = Instant::now();
        let left = ownership.deadline().since(now);
        // A grant that was handed over may have less than its whole lease left.
        let period = if left > ownership.lease * 9 / 10 { ownership.lease / 3 } else { left / 3 };
        let renew_at = self.schedule.next(now, period, ownership.key.bucket());
        let mut table = self.table.lock();
        if table.closed {
            return None;
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
        Some((id, alarm.is_none()))
    }

    /// Sets the longest hold of an entry.
    pub(super) fn limit(&self, id: u64, ends_at: Instant) {
        let mut table = self.table.lock();
        let Some(entry) = table.entries.get_mut(&id) else { return };
        entry.ends_at = Some(ends_at);
        let at = entry.at;
        table.agenda.remove(&(at, id));
        table.plan(id);
        let next = table.agenda.first().map(|(at, _)| *at);
        // If the task is gone with its runtime, the entry waits until the next one is added, as it would without a
        // limit.
        if table.alarm.is_some_and(|alarm| next < Some(alarm)) {
            table.alarm = next;
            self.rearm.notify_one();
        }
    }

    pub(super) fn remove(&self, id: u64) {
        let mut table = self.table.lock();
        if let Some(entry) = table.entries.remove(&id) {
            table.agenda.remove(&(entry.at, id));
        }
    }

    /// Takes all entries, and accepts no more.
    pub(super) fn close(&self) -> Vec<Arc<Ownership>> {
        let left = {
            let mut table = self.table.lock();
            table.closed = true;
            table.agenda.clear();
            std::mem::take(&mut table.entries)
        };
        self.rearm.notify_one();
        left.into_values().map(|entry| entry.ownership).collect()
    }

    /// Does what is due: reports losses, and takes out the renewals to send. Returns those, and the time of the next
    /// event. `None` means that nothing is left, and that the task must end.
    pub(super) fn due(&self, now: Instant) -> (Vec<Batch>, Option<Instant>) {
        let mut due: Vec<Due> = Vec::new();
        let mut over: Vec<(Arc<Ownership>, bool)> = Vec::new();
        let next = {
            let mut table = self.table.lock();
            let table = &mut *table;
            for id in table.take_agenda(now + TOGETHER) {
                let Some(entry) = table.entries.get_mut(&id) else { continue };
                // Observed of a lock that is lost by now, too: it may be lost because its renewal came too late.
                let planned = entry.renew_at.take_if(|renew_at| *renew_at <= now + TOGETHER);
                if let Some(planned) = planned {
                    Times::of(LOCK_RENEWAL_LAG, &[]).observe(now.since(planned));
                }
                let held_too_long = entry.ends_at.is_some_and(|end| now >= end);
                if held_too_long || entry.ownership.loss().is_some() {
                    over.extend(table.entries.remove(&id).map(|entry| (entry.ownership, held_too_long)));
                    continue;
                }
                if let Some(planned) = planned.filter(|_| entry.is_wanted(now)) {
                    let (ownership, deadline) = (Arc::clone(&entry.ownership), entry.ownership.deadline());
                    due.push(Due { id, ownership, planned: planned.max(now), deadline });
                }
                table.plan(id);
            }
            table.alarm = table.agenda.first().map(|(at, _)| *at);
            table.alarm
        };
        for (ownership, held_too_long) in over {
            ownership.lose(LossReason::Expired);
            // Not if it was given back or handed over meanwhile.
            if held_too_long && ownership.give_back() {
                // The lease still has time left, but those who wait should not have to wait for its end.
                self.store.release_detached(ownership);
            }
        }
        (batches(due, |key| self.store.shard(key)), next)
    }

    /// Plans the next renewal of each entry of a batch that was answered or timed out.
    pub(super) fn renewed(&self, batch: &Batch) {
        let now = Instant::now();
        let mut table = self.table.lock();
        for Due { id, ownership, planned, deadline } in &batch.due {
            let Some(entry) = table.entries.get_mut(id) else { continue };
            let confirmed = ownership.deadline() > *deadline;
            entry.renew_at = Some(if confirmed {
                self.schedule.next(*planned, ownership.lease / 3, ownership.key.bucket())
            } else {
                now + retry_after(ownership.lease)
            });
            let at = entry.at;
            table.agenda.remove(&(at, *id));
            table.plan(*id);
        }
    }

    pub(super) fn alarm(&self) -> Option<Instant> {
        self.table.lock().alarm
    }

    /// The task was dropped before it ended.
    pub(super) fn abandoned(&self) {
        self.table.lock().alarm = None;
    }

    /// Lets another task begin where one was dropped. False if there is a task, or nothing to do.
    pub(super) fn take_over(&self) -> bool {
        let mut table = self.table.lock();
        if table.alarm.is_some() {
            return false;
        }
        table.alarm = table.agenda.first().map(|(at, _)| *at);
        table.alarm.is_some()
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

    /// Puts an entry on the agenda. The entry must not be there already.
    fn plan(&mut self, id: u64) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.at = entry.next();
            self.agenda.insert((entry.at, id));
        }
    }
}

/// The pause before a failed renewal is tried again.
fn retry_after(lease: Duration) -> Duration {
    (lease / 10).clamp(Duration::from_millis(10), Duration::from_secs(1))
}
