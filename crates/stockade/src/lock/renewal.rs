use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{runtime::Handle, sync::Notify};
use tokio_util::task::TaskTracker;

use super::renewer::Renewer;
use crate::{
    clock::Instant,
    metrics,
    store::{LockStore, LossReason, Ownership},
};

/// Renewals due within this time of each other go together.
const TOGETHER: Duration = Duration::from_millis(5);
/// What a renewal may take however short the lease is: a slow round trip.
const LEAST_PATIENCE: Duration = Duration::from_millis(50);
/// The most in one call, so that one slow call does not hold up many.
const BATCH: usize = 256;

/// All ownerships that guards of one `Locks` hold, and the one task that renews them and watches their deadlines.
///
/// The task runs while there is something to renew and ends after the last guard; the next one starts another.
#[derive(Debug)]
pub(super) struct Renewals {
    state: Arc<State>,
    tasks: TaskTracker,
    /// The runtime this was made in, for guards made outside of one.
    home: Option<Handle>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) store: Arc<dyn LockStore>,
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
}

#[derive(Debug)]
struct Entry {
    ownership: Arc<Ownership>,
    /// Its place in the agenda.
    at: Instant,
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

/// A renewal on its way.
#[derive(Debug)]
pub(super) struct Batch {
    /// Which entries, and the deadline that a confirmation moves.
    entries: Vec<(u64, Instant)>,
    pub(super) ownerships: Vec<Arc<Ownership>>,
    sent: Instant,
    /// How long it may take: two that hang must leave time for a third.
    pub(super) patience: Duration,
}

impl Batch {
    fn new(sent: Instant, due: &[(u64, Arc<Ownership>)]) -> Self {
        let entries = due.iter().map(|(id, ownership)| (*id, ownership.deadline())).collect();
        let ownerships: Vec<_> = due.iter().map(|(_, ownership)| Arc::clone(ownership)).collect();
        let shortest = ownerships.iter().map(|ownership| ownership.lease).min().unwrap_or_default();
        Self { entries, ownerships, sent, patience: (shortest / 6).max(LEAST_PATIENCE) }
    }
}

impl Renewals {
    pub(super) fn new(store: Arc<dyn LockStore>, home: Option<Handle>) -> Self {
        let state = State { store, table: Mutex::default(), rearm: Notify::new() };
        let tasks = TaskTracker::new();
        tasks.close();
        Self { state: Arc::new(state), tasks, home }
    }

    /// Renews an ownership from now on until it is removed, lost or as old as allowed.
    pub(super) fn add(&self, ownership: Arc<Ownership>, ends_at: Option<Instant>) -> u64 {
        let now = Instant::now();
        // A third of what is left: a grant that was handed over may have less than its whole lease.
        let renew_at = now + ownership.deadline().since(now).min(ownership.lease) / 3;
        let mut table = self.state.table();
        if table.closed {
            drop(table);
            ownership.lose(LossReason::Forced);
            return u64::MAX;
        }
        let id = table.next_id;
        table.next_id += 1;
        table.entries.insert(id, Entry { ownership, at: now, renew_at: Some(renew_at), ends_at });
        table.plan(id);
        let next = table.agenda.first().map(|(at, _)| *at);
        let alarm = std::mem::replace(&mut table.alarm, next);
        drop(table);
        match alarm {
            None => self.start(),
            Some(alarm) if next < Some(alarm) => self.state.rearm.notify_one(),
            Some(_) => {}
        }
        id
    }

    /// The longest hold of an ownership that is renewed already.
    pub(super) fn limit(&self, id: u64, ends_at: Instant) {
        let mut table = self.state.table();
        let Some(entry) = table.entries.get_mut(&id) else { return };
        entry.ends_at = Some(ends_at);
        let at = entry.at;
        table.agenda.remove(&(at, id));
        table.plan(id);
        let next = table.agenda.first().map(|(at, _)| *at);
        // An entry whose task has gone with its runtime waits for the next one to be added, as without a limit.
        if table.alarm.is_some_and(|alarm| next < Some(alarm)) {
            table.alarm = next;
            self.state.rearm.notify_one();
        }
    }

    fn start(&self) {
        let renewer = Renewer::new(Arc::clone(&self.state));
        if let Some(runtime) = Handle::try_current().ok().as_ref().or(self.home.as_ref()) {
            self.tasks.spawn_on(renewer.run(), runtime);
        }
    }

    pub(super) fn remove(&self, id: u64) {
        let mut table = self.state.table();
        if let Some(entry) = table.entries.remove(&id) {
            table.agenda.remove(&(entry.at, id));
        }
    }

    /// Takes all entries and accepts no more, for a shutdown.
    pub(super) fn close(&self) -> Vec<Arc<Ownership>> {
        let left = {
            let mut table = self.state.table();
            table.closed = true;
            table.agenda.clear();
            std::mem::take(&mut table.entries)
        };
        self.state.rearm.notify_one();
        left.into_values().map(|entry| entry.ownership).collect()
    }

    /// Resolves when no task is left.
    pub(super) async fn ended(&self) {
        self.tasks.wait().await;
    }
}

impl Drop for Renewals {
    fn drop(&mut self) {
        self.state.rearm.notify_one();
    }
}

impl State {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does what is due: tells losses, takes out renewals to send. Returns those and when to look again; `None` with
    /// nothing left, after which the task must end.
    pub(super) fn due(&self, now: Instant) -> (Vec<Batch>, Option<Instant>) {
        let mut due: Vec<(u64, Arc<Ownership>)> = Vec::new();
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
                if let Some(renew_at) = entry.renew_at.take_if(|renew_at| *renew_at <= now + TOGETHER) {
                    metrics::observe(metrics::LOCK_RENEWAL_LAG, &[], now.since(renew_at));
                    due.push((id, Arc::clone(&entry.ownership)));
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
        (due.chunks(BATCH).map(|chunk| Batch::new(now, chunk)).collect(), next)
    }

    /// Plans the next renewal of each entry of a batch that came back, or did not in time.
    pub(super) fn renewed(&self, batch: &Batch) {
        let now = Instant::now();
        let mut table = self.table();
        for ((id, before), ownership) in batch.entries.iter().zip(&batch.ownerships) {
            let Some(entry) = table.entries.get_mut(id) else { continue };
            let confirmed = ownership.deadline() > *before;
            entry.renew_at =
                Some(if confirmed { batch.sent + ownership.lease / 3 } else { now + retry_after(ownership.lease) });
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
