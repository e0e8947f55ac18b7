use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use tokio::sync::Notify;

use crate::{
    clock::Instant,
    store::{Attempt, Inspection, LockError, Mode, Owner, Ownership, Party, Token},
};

/// How many waiters an inspection lists.
const INSPECTED_WAITERS: usize = 100;

/// An attempt's identity: the owner id that leaves the store, and the number that the store indexes leases by.
#[derive(Clone, Debug)]
pub(super) struct Asker {
    pub(super) owner: Owner,
    pub(super) number: u64,
}

/// A place in a queue, and the signal that wakes its waiter.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) seq: u64,
    pub(super) since: Instant,
    pub(super) until: Option<Instant>,
    pub(super) wake: Arc<Notify>,
}

/// How a resource is held or wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    #[default]
    Read,
    Write,
    /// A permit of a semaphore with this capacity.
    Permit(u32),
}

impl Kind {
    pub(super) fn of(attempt: &Attempt) -> Self {
        match attempt.mode {
            Mode::Read => Self::Read,
            Mode::Write => Self::Write,
            Mode::Permit => Self::Permit(attempt.permits),
        }
    }

    pub(super) fn mode(self) -> Mode {
        match self {
            Self::Read => Mode::Read,
            Self::Write => Mode::Write,
            Self::Permit(_) => Mode::Permit,
        }
    }

    fn capacity(self) -> Option<u32> {
        if let Self::Permit(capacity) = self { Some(capacity) } else { None }
    }
}

#[derive(Debug)]
pub(super) struct Holder {
    pub(super) number: u64,
    pub(super) token: Token,
    pub(super) granted: Instant,
    pub(super) ends: Instant,
    pub(super) tag: Arc<str>,
    /// Set once the holder has entered. Until then the grant expires soon.
    pub(super) ownership: Option<Arc<Ownership>>,
    /// Set by a forced release that lets the leases of shared holders run out.
    pub(super) runs_out: bool,
}

#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) asker: Asker,
    pub(super) wants: Kind,
    pub(super) lease: Duration,
    pub(super) tag: Arc<str>,
    pub(super) since: Instant,
    pub(super) until: Option<Instant>,
    pub(super) wake: Arc<Notify>,
}

/// Holders and queue of one resource. A lock exists only while it has a holder or a waiter.
#[derive(Debug, Default)]
pub(super) struct Lock {
    /// How the present holders hold the resource. Ignored while there are none.
    pub(super) kind: Kind,
    pub(super) holders: HashMap<Owner, Holder>,
    /// The waiters by their place in the queue.
    pub(super) queue: BTreeMap<u64, Waiter>,
}

impl Lock {
    /// Whether one more holder of this kind may join the present holders.
    pub(super) fn admits(&self, wants: Kind) -> bool {
        self.holders.is_empty()
            || match (self.kind, wants) {
                (Kind::Read, Kind::Read) => true,
                (Kind::Permit(capacity), Kind::Permit(wanted)) => {
                    capacity == wanted && u32::try_from(self.holders.len()).is_ok_and(|held| held < capacity)
                }
                _ => false,
            }
    }

    /// The capacity that the holders of permits asked for, or the waiters for them. `None` if there are neither.
    pub(super) fn capacity(&self) -> Option<u32> {
        let held = (!self.holders.is_empty()).then_some(self.kind);
        held.into_iter().chain(self.queue.values().map(|waiter| waiter.wants)).find_map(Kind::capacity)
    }

    /// The time until an attempt of this kind could be served. An attempt on a permit needs only one permit to come
    /// free. Any other attempt waits until all holders are gone.
    pub(super) fn remaining(&self, now: Instant, wants: Kind) -> Duration {
        let left = self.holders.values().map(|holder| holder.ends.since(now));
        let shared = matches!((self.kind, wants), (Kind::Permit(_), Kind::Permit(_)));
        if shared { left.min() } else { left.max() }.unwrap_or_default()
    }

    /// Takes the last place of the queue. Returns an error if the attempt does not wait, or if the queue is full.
    pub(super) fn enqueue(
        &mut self,
        now: Instant,
        seq: u64,
        asker: &Asker,
        attempt: &Attempt,
    ) -> Result<Place, LockError> {
        let (remaining, waiters) = (self.remaining(now, Kind::of(attempt)), self.waiting());
        if attempt.wait.is_zero() {
            return Err(LockError::Busy { remaining });
        }
        if waiters >= u64::from(attempt.max_waiters) {
            return Err(LockError::QueueFull { waiters, position: waiters.saturating_add(1), remaining });
        }
        let until = (attempt.wait != Duration::MAX).then(|| now + attempt.wait);
        let place = Place { seq, since: now, until, wake: Arc::new(Notify::new()) };
        self.queue.insert(seq, Waiter::new(asker, attempt, &place));
        Ok(place)
    }

    /// How many waiters stand at this place or before it.
    pub(super) fn position(&self, seq: u64) -> u64 {
        u64::try_from(self.queue.range(..=seq).count()).unwrap_or(u64::MAX)
    }

    fn waiting(&self) -> u64 {
        u64::try_from(self.queue.len()).unwrap_or(u64::MAX)
    }

    pub(super) fn inspect(&self, now: Instant) -> Inspection {
        let mut holders: Vec<Party> = self
            .holders
            .values()
            .map(|holder| Party {
                mode: self.kind.mode(),
                tag: holder.tag.as_ref().to_owned(),
                token: Some(holder.token),
                age: Some(now.since(holder.granted)),
                remaining: holder.ends.since(now),
                position: None,
            })
            .collect();
        holders.sort_unstable_by_key(|party| party.token);
        let waiters = self
            .queue
            .values()
            .take(INSPECTED_WAITERS)
            .zip(1..)
            .map(|(waiter, position)| Party {
                mode: waiter.wants.mode(),
                tag: waiter.tag.as_ref().to_owned(),
                token: None,
                age: Some(now.since(waiter.since)),
                remaining: waiter.until.map_or(Duration::MAX, |until| until.since(now)),
                position: Some(position),
            })
            .collect();
        Inspection { holders, waiters, waiting: self.waiting() }
    }
}

impl Holder {
    pub(super) fn new(asker: &Asker, token: Token, now: Instant, lease: Duration, tag: Arc<str>) -> Self {
        let number = asker.number;
        Self { number, token, granted: now, ends: now + lease, tag, ownership: None, runs_out: false }
    }
}

impl Waiter {
    pub(super) fn new(asker: &Asker, attempt: &Attempt, place: &Place) -> Self {
        Self {
            asker: asker.clone(),
            wants: Kind::of(attempt),
            lease: attempt.lease,
            tag: Arc::clone(&attempt.tag),
            since: place.since,
            until: place.until,
            wake: Arc::clone(&place.wake),
        }
    }
}
