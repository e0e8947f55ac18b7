use std::{collections::HashMap, time::Duration};

use super::{
    effects::Effects,
    floor::minted,
    leases::Leases,
    lock::{Asker, Holder, Kind, Lock, Place},
};
use crate::{
    clock::Instant,
    resource::Key,
    store::{Attempt, Inspection, LossReason, Owner, floors::Floors},
};

/// The lease of a grant until its waiter has woken and entered. If the waiter is never polled again, the next waiter is
/// delayed by this time only, not by the whole lease.
const GRANT_LEASE: Duration = Duration::from_secs(2);

/// All locks of a store. No method waits or reads the monotonic clock: the caller passes `now`.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) locks: HashMap<Key, Lock>,
    pub(super) floors: Floors,
    pub(super) leases: Leases,
    pub(super) next_seq: u64,
    pub(super) closed: bool,
    pub(super) effects: Effects,
    /// The lease end that the timer task waits for. `None` if no timer task runs.
    pub(super) alarm: Option<Instant>,
}

impl Table {
    /// Ends the leases that are over, and grants their resources to the next waiters.
    pub(super) fn expire(&mut self, now: Instant) {
        while let Some((key, owner)) = self.leases.take_over(now) {
            if let Some(holder) = self.locks.get_mut(&key).and_then(|lock| lock.holders.remove(&owner)) {
                let reason = if holder.runs_out { LossReason::Forced } else { LossReason::Expired };
                self.effects.lost(holder.ownership, reason);
            }
            self.grant(&key, now);
        }
    }

    pub(super) fn hold(&mut self, key: &Key, kind: Kind, asker: &Asker, holder: Holder) {
        self.leases.insert(holder.ends, asker, key);
        let lock = self.locks.entry(key.clone()).or_default();
        lock.kind = kind;
        lock.holders.insert(asker.owner.clone(), holder);
    }

    /// Grants a resource to the head of its queue: to one writer, to the run of readers at the head, or to as many
    /// attempts on permits as fit.
    pub(super) fn grant(&mut self, key: &Key, now: Instant) {
        while let Some(lock) = self.locks.get_mut(key) {
            let Some(head) = lock.queue.first_entry() else {
                if lock.holders.is_empty() {
                    self.locks.remove(key);
                }
                return;
            };
            let kind = head.get().wants;
            if !lock.admits(kind) {
                return;
            }
            // Without a token there is no grant. The waiters end when their waits do.
            let Some(token) = minted(&self.floors, key) else { return };
            let Some((_, waiter)) = lock.queue.pop_first() else { return };
            let holder = Holder::new(&waiter.asker, token, now, waiter.lease.min(GRANT_LEASE), waiter.tag);
            self.hold(key, kind, &waiter.asker, holder);
            self.effects.wake(waiter.wake);
        }
    }

    /// Removes an owner from the holders, and from its place in the queue. Returns whether it held the resource.
    pub(super) fn release(&mut self, now: Instant, key: &Key, owner: &Owner, place: Option<&Place>) -> bool {
        let Some(lock) = self.locks.get_mut(key) else { return false };
        if let Some(place) = place {
            lock.queue.remove(&place.seq);
        }
        let held = lock.holders.remove(owner);
        if let Some(holder) = &held {
            self.leases.remove(holder.ends, holder.number);
        }
        // A waiter that leaves may be a writer that kept readers waiting behind it.
        self.grant(key, now);
        held.is_some()
    }

    pub(super) fn inspect(&self, now: Instant, key: &Key) -> Inspection {
        self.locks.get(key).map_or_else(Inspection::default, |lock| lock.inspect(now))
    }

    pub(super) fn remaining(&self, now: Instant, attempt: &Attempt) -> Duration {
        self.locks.get(&attempt.key).map_or(Duration::ZERO, |lock| lock.remaining(now, Kind::of(attempt)))
    }

    pub(super) fn position(&self, key: &Key, place: &Place) -> Option<u64> {
        self.locks.get(key).map(|lock| lock.position(place.seq))
    }

    pub(super) fn list(&self, limit: usize) -> Vec<String> {
        let mut keys: Vec<&str> = self.locks.keys().map(Key::as_str).collect();
        keys.sort_unstable();
        keys.into_iter().take(limit).map(str::to_owned).collect()
    }

    /// Ends all grants to new owners, and wakes the waiters so that they learn of it.
    pub(super) fn close(&mut self) {
        self.closed = true;
        for lock in self.locks.values_mut() {
            for waiter in std::mem::take(&mut lock.queue).into_values() {
                self.effects.wake(waiter.wake);
            }
        }
        self.locks.retain(|_, lock| !lock.holders.is_empty());
    }
}
