use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use tokio::sync::Notify;

use super::{
    floor::Floors,
    lock::{Holder, Lock, Waiter},
};
use crate::{
    clock::Instant,
    resource::Key,
    store::{Attempt, Force, Forced, Inspection, LockError, LossReason, Mode, Owner, Ownership, Token, Unavailable},
};

/// The lease of a grant until its waiter has woken and entered. A waiter that is never polled again costs those behind
/// it this long and not its whole lease.
const GRANT_LEASE: Duration = Duration::from_secs(2);

/// Who asks: the owner text that leaves the store, and the number that orders and indexes inside it.
#[derive(Clone, Debug)]
pub(super) struct Asker {
    pub(super) owner: Owner,
    pub(super) number: u64,
}

/// What became of an attempt.
#[derive(Debug)]
pub(super) enum Entered {
    Held(Arc<Ownership>),
    Queued(Place),
}

/// A place in a queue and how to wake its waiter.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) seq: u64,
    pub(super) until: Option<Instant>,
    pub(super) wake: Arc<Notify>,
}

/// What a waiter finds when it looks.
#[derive(Debug)]
pub(super) enum Settled {
    Held(Arc<Ownership>),
    Waiting,
    Closed,
}

/// Whom to tell once the mutex is free: a waker is foreign code and must not run under it.
#[derive(Debug, Default)]
pub(super) struct Effects {
    lost: Vec<(Arc<Ownership>, LossReason)>,
    wakes: Vec<Arc<Notify>>,
}

impl Effects {
    /// Tells the losers first, so that they know before their successors start.
    pub(super) fn apply(self) {
        for (ownership, reason) in self.lost {
            ownership.lose(reason);
        }
        for wake in self.wakes {
            wake.notify_one();
        }
    }
}

/// All locks of a store. No method waits, none reads a clock for leases: `now` comes from the caller.
#[derive(Debug)]
pub(super) struct Table {
    locks: HashMap<Key, Lock>,
    floors: Floors,
    /// Every lease by its end.
    expiries: BTreeMap<(Instant, u64), (Key, Owner)>,
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
            expiries: BTreeMap::new(),
            next_seq: 0,
            closed: false,
            effects: Effects::default(),
            alarm: None,
        }
    }

    /// When the earliest lease ends.
    pub(super) fn next_expiry(&self) -> Option<Instant> {
        self.expiries.first_key_value().map(|((at, _), _)| *at)
    }

    /// Ends the leases that are over and serves those behind them.
    pub(super) fn expire(&mut self, now: Instant) {
        while let Some(entry) = self.expiries.first_entry() {
            if entry.key().0 > now {
                break;
            }
            let (key, owner) = entry.remove();
            if let Some(holder) = self.locks.get_mut(&key).and_then(|lock| lock.holders.remove(&owner)) {
                let reason = if holder.runs_out { LossReason::Forced } else { LossReason::Expired };
                self.effects.lost.extend(holder.ownership.map(|ownership| (ownership, reason)));
            }
            self.grant(&key, now);
        }
    }

    pub(super) fn enter(&mut self, now: Instant, asker: &Asker, attempt: &Attempt) -> Result<Entered, LockError> {
        if self.closed {
            return Err(LockError::ShuttingDown);
        }
        if let Some(lock) = self.locks.get(&attempt.key) {
            if !lock.queue.is_empty() || !lock.admits(attempt.mode) {
                return self.enqueue(now, asker, attempt);
            }
        }
        let token = self.floors.mint(attempt.key.bucket()).ok_or_else(tokens_exhausted)?;
        self.hold(now, &attempt.key, asker, attempt.mode, token, Arc::clone(&attempt.tag), attempt.lease);
        match self.confirm(now, asker, attempt, None) {
            Some(ownership) => Ok(Entered::Held(ownership)),
            None => self.enqueue(now, asker, attempt),
        }
    }

    fn enqueue(&mut self, now: Instant, asker: &Asker, attempt: &Attempt) -> Result<Entered, LockError> {
        let lock = self.locks.entry(attempt.key.clone()).or_insert_with(Lock::new);
        let remaining = lock.remaining(now);
        if attempt.wait.is_zero() {
            return Err(LockError::Busy { remaining });
        }
        let waiters = lock.waiting();
        if waiters >= u64::from(attempt.max_waiters) {
            return Err(LockError::QueueFull { waiters, remaining });
        }
        let seq = self.next_seq;
        self.next_seq += 1;
        let until = (attempt.wait != Duration::MAX).then(|| now + attempt.wait);
        let place = Place { seq, until, wake: Arc::new(Notify::new()) };
        lock.queue.insert(seq, Waiter::new(asker, attempt, &place));
        Ok(Entered::Queued(place))
    }

    /// Enters a grant, if there is one. A grant that lapsed because its waiter slept is asked for again in the old place.
    pub(super) fn settle(&mut self, now: Instant, asker: &Asker, attempt: &Attempt, place: &Place) -> Settled {
        let granted = self
            .locks
            .get(&attempt.key)
            .and_then(|lock| lock.holders.get(&asker.owner))
            .map(|holder| now.since(holder.granted));
        if let Some(ownership) = self.confirm(now, asker, attempt, granted) {
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

    /// The ownership of a holder, with a whole lease from now.
    fn confirm(
        &mut self,
        now: Instant,
        asker: &Asker,
        attempt: &Attempt,
        handed_off: Option<Duration>,
    ) -> Option<Arc<Ownership>> {
        let holder = self.locks.get_mut(&attempt.key)?.holders.get_mut(&asker.owner)?;
        let expires = now + attempt.lease;
        let expiry = self.expiries.remove(&(holder.expires, holder.number))?;
        self.expiries.insert((expires, holder.number), expiry);
        holder.expires = expires;
        let ownership = Arc::new(Ownership::new(
            attempt.key.clone(),
            asker.owner.clone(),
            attempt.mode,
            holder.token,
            attempt.lease,
            expires,
            handed_off,
        ));
        holder.ownership = Some(Arc::clone(&ownership));
        Some(ownership)
    }

    fn hold(
        &mut self,
        now: Instant,
        key: &Key,
        asker: &Asker,
        mode: Mode,
        token: Token,
        tag: Arc<str>,
        lease: Duration,
    ) {
        let expires = now + lease;
        self.expiries.insert((expires, asker.number), (key.clone(), asker.owner.clone()));
        let lock = self.locks.entry(key.clone()).or_insert_with(Lock::new);
        lock.mode = mode;
        let number = asker.number;
        let holder = Holder { number, token, granted: now, expires, tag, ownership: None, runs_out: false };
        lock.holders.insert(asker.owner.clone(), holder);
    }

    /// Hands a resource to the head of its queue: one writer, or the whole run of readers at the head.
    fn grant(&mut self, key: &Key, now: Instant) {
        loop {
            let Some(lock) = self.locks.get_mut(key) else { return };
            let Some(head) = lock.queue.first_entry().map(|entry| entry.get().mode) else {
                if lock.holders.is_empty() {
                    self.locks.remove(key);
                }
                return;
            };
            if !lock.admits(head) {
                return;
            }
            // Without tokens left nobody can own anything; the waiters end by their waits.
            let Some(token) = self.floors.mint(key.bucket()) else { return };
            let Some((_, waiter)) = lock.queue.pop_first() else { return };
            self.hold(now, key, &waiter.asker, waiter.mode, token, waiter.tag, waiter.lease.min(GRANT_LEASE));
            self.effects.wakes.push(waiter.wake);
        }
    }

    /// Takes an owner out, wherever it is; whether it held the resource.
    pub(super) fn release(&mut self, now: Instant, key: &Key, owner: &Owner, seq: Option<u64>) -> bool {
        let Some(lock) = self.locks.get_mut(key) else { return false };
        if let Some(seq) = seq {
            lock.queue.remove(&seq);
        }
        let held = lock.holders.remove(owner);
        if let Some(holder) = &held {
            self.expiries.remove(&(holder.expires, holder.number));
        }
        // Also when only a waiter went: it may have been the writer that kept readers out.
        self.grant(key, now);
        held.is_some()
    }

    pub(super) fn renew(&mut self, now: Instant, ownership: &Arc<Ownership>) {
        let holder = self.locks.get_mut(&ownership.key).and_then(|lock| lock.holders.get_mut(&ownership.owner));
        let reason = match holder {
            Some(holder) if !holder.runs_out => {
                let expires = now + ownership.lease;
                if let Some(expiry) = self.expiries.remove(&(holder.expires, holder.number)) {
                    self.expiries.insert((expires, holder.number), expiry);
                }
                holder.expires = expires;
                ownership.extend(expires);
                return;
            }
            Some(_) => LossReason::Forced,
            None if now >= ownership.deadline() => LossReason::Expired,
            None => LossReason::Stolen,
        };
        self.effects.lost.push((Arc::clone(ownership), reason));
    }

    pub(super) fn seed(&mut self, key: &Key, token: Token) {
        self.floors.raise(key.bucket(), token);
    }

    pub(super) fn force(&mut self, now: Instant, key: &Key, force: Force) -> Result<Forced, LockError> {
        let token = self.floors.mint(key.bucket()).ok_or_else(tokens_exhausted)?;
        let mut holders = 0;
        if let Some(lock) = self.locks.get_mut(key) {
            if lock.mode == Mode::Read && force == Force::AfterLeases {
                lock.holders.values_mut().for_each(|holder| holder.runs_out = true);
            } else {
                for (_, holder) in lock.holders.drain() {
                    holders += 1;
                    self.expiries.remove(&(holder.expires, holder.number));
                    self.effects.lost.extend(holder.ownership.map(|ownership| (ownership, LossReason::Forced)));
                }
            }
        }
        self.grant(key, now);
        Ok(Forced { holders, token })
    }

    pub(super) fn inspect(&self, now: Instant, key: &Key) -> Inspection {
        self.locks.get(key).map_or_else(Inspection::default, |lock| lock.inspect(now))
    }

    pub(super) fn remaining(&self, now: Instant, key: &Key) -> Duration {
        self.locks.get(key).map_or(Duration::ZERO, |lock| lock.remaining(now))
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
            let queue = std::mem::take(&mut lock.queue);
            self.effects.wakes.extend(queue.into_values().map(|waiter| waiter.wake));
        }
        self.locks.retain(|_, lock| !lock.holders.is_empty());
    }
}

/// Only a seed near 2^53 microseconds, the year 2255, leads here.
fn tokens_exhausted() -> LockError {
    LockError::Unavailable { reason: Unavailable::Refused, retry_after: Duration::from_secs(60) }
}
