use std::{collections::HashMap, sync::Arc, time::Duration};

use super::{
    effects::Effects,
    floor::Floors,
    leases::Leases,
    lock::{Asker, Holder, Kind, Lock, Place, Waiter},
};
use crate::{
    clock::Instant,
    resource::Key,
    store::{
        Attempt, Force, Forced, Handed, Inspection, LockError, LossReason, Mode, Owner, Ownership, Token, Unavailable,
    },
};

/// The lease of a grant until its waiter has woken and entered. A waiter that is never polled again costs those behind
/// it this long and not its whole lease.
const GRANT_LEASE: Duration = Duration::from_secs(2);

/// What became of an attempt.
#[derive(Debug)]
pub(super) enum Entered {
    Held(Arc<Ownership>),
    Queued(Place),
}

/// What a waiter finds when it looks.
#[derive(Debug)]
pub(super) enum Settled {
    Held(Arc<Ownership>),
    Waiting,
    Closed,
}

/// All locks of a store. No method waits, none reads the clock of leases: `now` comes from the caller.
#[derive(Debug)]
pub(super) struct Table {
    locks: HashMap<Key, Lock>,
    floors: Floors,
    leases: Leases,
    next_seq: u64,
    closed: bool,
    pub(super) effects: Effects,
    /// What the timer task sleeps for; `None` without a task.
    pub(super) alarm: Option<Instant>,
}

impl Table {
    pub(super) fn new() -> Self {
        Self {
            locks: HashMap::new(),
            floors: Floors::new(),
            leases: Leases::default(),
            next_seq: 0,
            closed: false,
            effects: Effects::default(),
            alarm: None,
        }
    }

    /// When the earliest lease ends.
    pub(super) fn next_expiry(&self) -> Option<Instant> {
        self.leases.first()
    }

    /// Ends the leases that are over and serves those behind them.
    pub(super) fn expire(&mut self, now: Instant) {
        while let Some((key, owner)) = self.leases.take_over(now) {
            if let Some(holder) = self.locks.get_mut(&key).and_then(|lock| lock.holders.remove(&owner)) {
                let reason = if holder.runs_out { LossReason::Forced } else { LossReason::Expired };
                self.effects.lost(holder.ownership, reason);
            }
            self.grant(&key, now);
        }
    }

    pub(super) fn enter(&mut self, now: Instant, asker: &Asker, attempt: &Attempt) -> Result<Entered, LockError> {
        if self.closed {
            return Err(LockError::ShuttingDown);
        }
        let kind = Kind::of(attempt);
        let lock = self.locks.get_mut(&attempt.key);
        if let Kind::Permit(asked) = kind
            && let Some(present) = lock.as_ref().and_then(|lock| lock.capacity()).filter(|present| *present != asked)
        {
            return Err(LockError::Capacity { asked, present });
        }
        if let Some(lock) = lock.filter(|lock| !lock.queue.is_empty() || !lock.admits(kind)) {
            let place = lock.enqueue(now, self.next_seq, asker, attempt)?;
            self.next_seq += 1;
            return Ok(Entered::Queued(place));
        }
        let token = self.floors.mint(attempt.key.bucket()).ok_or_else(tokens_exhausted)?;
        let mut holder = Holder::new(asker, token, now, attempt.lease, Arc::clone(&attempt.tag));
        let ownership = owned(asker, attempt, &holder, None);
        holder.ownership = Some(Arc::clone(&ownership));
        self.hold(&attempt.key, kind, asker, holder);
        Ok(Entered::Held(ownership))
    }

    /// Takes all of these resources when all of them are free, and otherwise none.
    pub(super) fn enter_all(
        &mut self,
        now: Instant,
        askers: &[Asker],
        attempts: &[Attempt],
    ) -> Result<Option<Vec<Arc<Ownership>>>, LockError> {
        // A resource that nobody holds or waits for has no entry.
        if !self.closed && attempts.iter().any(|attempt| self.locks.contains_key(&attempt.key)) {
            return Ok(None);
        }
        let mut entered = Vec::with_capacity(attempts.len());
        for (asker, attempt) in askers.iter().zip(attempts) {
            match self.enter(now, asker, attempt) {
                Ok(Entered::Held(ownership)) => entered.push(ownership),
                // Two attempts on one resource come here: none of them stays.
                Ok(Entered::Queued(place)) => {
                    self.release(now, &attempt.key, &asker.owner, Some(&place));
                    self.leave_all(now, &entered);
                    return Ok(None);
                }
                Err(error) => {
                    self.leave_all(now, &entered);
                    return Err(error);
                }
            }
        }
        Ok(Some(entered))
    }

    fn leave_all(&mut self, now: Instant, entered: &[Arc<Ownership>]) {
        for ownership in entered {
            self.release(now, &ownership.key, &ownership.owner, None);
        }
    }

    /// Enters a grant, if there is one. A grant that lapsed because its waiter slept is asked for again in the old
    /// place.
    pub(super) fn settle(&mut self, now: Instant, asker: &Asker, attempt: &Attempt, place: &Place) -> Settled {
        let holder = self.locks.get_mut(&attempt.key).and_then(|lock| lock.holders.get_mut(&asker.owner));
        if let Some(holder) = holder {
            if !holder.runs_out {
                self.leases.extend(&mut holder.ends, asker.number, now + attempt.lease);
            }
            let ownership = owned(asker, attempt, holder, Some(now.since(holder.granted)));
            holder.ownership = Some(Arc::clone(&ownership));
            return Settled::Held(ownership);
        }
        if self.closed {
            return Settled::Closed;
        }
        let lock = self.locks.entry(attempt.key.clone()).or_insert_with(Lock::new);
        lock.queue.entry(place.seq).or_insert_with(|| Waiter::new(asker, attempt, place));
        self.grant(&attempt.key, now);
        Settled::Waiting
    }

    fn hold(&mut self, key: &Key, kind: Kind, asker: &Asker, holder: Holder) {
        self.leases.insert(holder.ends, asker, key);
        let lock = self.locks.entry(key.clone()).or_insert_with(Lock::new);
        lock.kind = kind;
        lock.holders.insert(asker.owner.clone(), holder);
    }

    /// Hands a resource to the head of its queue: one writer, the run of readers at the head, or permits.
    fn grant(&mut self, key: &Key, now: Instant) {
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
            // Without tokens left nobody can own anything; the waiters end by their waits.
            let Some(token) = self.floors.mint(key.bucket()) else { return };
            let Some((_, waiter)) = lock.queue.pop_first() else { return };
            let holder = Holder::new(&waiter.asker, token, now, waiter.lease.min(GRANT_LEASE), waiter.tag);
            self.hold(key, kind, &waiter.asker, holder);
            self.effects.wake(waiter.wake);
        }
    }

    /// Takes an owner out, from the holders or from its place in the queue; whether it held the resource.
    pub(super) fn release(&mut self, now: Instant, key: &Key, owner: &Owner, place: Option<&Place>) -> bool {
        let Some(lock) = self.locks.get_mut(key) else { return false };
        if let Some(place) = place {
            lock.queue.remove(&place.seq);
        }
        let held = lock.holders.remove(owner);
        if let Some(holder) = &held {
            self.leases.remove(holder.ends, holder.number);
        }
        // Also when only a waiter went: it may have been the writer that kept readers out.
        self.grant(key, now);
        held.is_some()
    }

    pub(super) fn downgrade(&mut self, now: Instant, ownership: &Arc<Ownership>) -> Result<(), LossReason> {
        let lock = self.locks.get_mut(&ownership.key);
        let Some((kind, holder)) =
            lock.and_then(|lock| lock.holders.get_mut(&ownership.owner).map(|h| (&mut lock.kind, h)))
        else {
            let reason = gone(now, ownership);
            self.effects.lost(Some(Arc::clone(ownership)), reason);
            return Err(reason);
        };
        *kind = Kind::Read;
        ownership.set_mode(Mode::Read);
        if !holder.runs_out {
            self.leases.extend(&mut holder.ends, holder.number, now + ownership.lease);
            ownership.extend(holder.ends);
        }
        self.grant(&ownership.key, now);
        Ok(())
    }

    /// Gives what one owner holds to another.
    pub(super) fn adopt(&mut self, now: Instant, asker: &Asker, handed: &Handed) -> Result<Arc<Ownership>, LockError> {
        if self.closed {
            return Err(LockError::ShuttingDown);
        }
        let lock = self.locks.get_mut(&handed.key).filter(|lock| lock.kind.mode() == handed.mode);
        let lock = lock.ok_or(LockError::HandoverVoid)?;
        if lock.holders.get(&handed.owner).is_none_or(|holder| holder.token != handed.token) {
            return Err(LockError::HandoverVoid);
        }
        let mut holder = lock.holders.remove(&handed.owner).ok_or(LockError::HandoverVoid)?;
        self.leases.remove(holder.ends, holder.number);
        holder.number = asker.number;
        if !holder.runs_out {
            holder.ends = now + handed.lease;
        }
        self.leases.insert(holder.ends, asker, &handed.key);
        let ownership = Arc::new(handed.ownership(asker.owner.clone(), holder.ends));
        holder.ownership = Some(Arc::clone(&ownership));
        lock.holders.insert(asker.owner.clone(), holder);
        Ok(ownership)
    }

    pub(super) fn renew(&mut self, now: Instant, ownership: &Arc<Ownership>) {
        let lock = self.locks.get_mut(&ownership.key);
        let reason = match lock.and_then(|lock| lock.holders.get_mut(&ownership.owner)) {
            Some(holder) if !holder.runs_out => {
                self.leases.extend(&mut holder.ends, holder.number, now + ownership.lease);
                ownership.extend(holder.ends);
                return;
            }
            Some(_) => LossReason::Forced,
            None => gone(now, ownership),
        };
        self.effects.lost(Some(Arc::clone(ownership)), reason);
    }

    pub(super) fn seed(&mut self, key: &Key, token: Token) {
        self.floors.raise(key.bucket(), token);
    }

    pub(super) fn force(&mut self, now: Instant, key: &Key, force: Force) -> Result<Forced, LockError> {
        let token = self.floors.mint(key.bucket()).ok_or_else(tokens_exhausted)?;
        let mut holders = 0;
        if let Some(lock) = self.locks.get_mut(key) {
            holders = u64::try_from(lock.holders.len()).unwrap_or(u64::MAX);
            if lock.kind != Kind::Write && force == Force::AfterLeases {
                lock.holders.values_mut().for_each(|holder| holder.runs_out = true);
            } else {
                for (_, holder) in lock.holders.drain() {
                    self.leases.remove(holder.ends, holder.number);
                    self.effects.lost(holder.ownership, LossReason::Forced);
                }
            }
        }
        self.grant(key, now);
        Ok(Forced { holders, token })
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

    /// No more grants: those who wait are told.
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

/// Why an ownership is lost that has no entry any more.
fn gone(now: Instant, ownership: &Ownership) -> LossReason {
    if now >= ownership.deadline() { LossReason::Expired } else { LossReason::Stolen }
}

fn owned(asker: &Asker, attempt: &Attempt, holder: &Holder, handed_off: Option<Duration>) -> Arc<Ownership> {
    let (key, owner) = (attempt.key.clone(), asker.owner.clone());
    Arc::new(Ownership::new(key, owner, attempt.mode, holder.token, attempt.lease, holder.ends, handed_off))
}

/// Only a seed near 2^53 microseconds, the year 2255, leads here.
fn tokens_exhausted() -> LockError {
    LockError::Unavailable { reason: Unavailable::Refused, retry_after: Duration::from_secs(60) }
}

#[cfg(test)]
impl Table {
    pub(super) fn locks(&self) -> &HashMap<Key, Lock> {
        &self.locks
    }

    pub(super) fn leases(&self) -> &Leases {
        &self.leases
    }
}
