use std::{
    hash::{BuildHasher, RandomState},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};

use super::entries::{Entries, LocalEntry, entries};
use crate::{
    cache::{
        load::Failing,
        tags::{Tag, TagTicks, Tags},
        value::Entry,
    },
    clock::Instant,
    resource::Key,
};

const SLOTS: usize = 1024;
/// So long after an invalidation the store has most likely no other value yet, and no expired one.
const LATELY: Duration = Duration::from_secs(1);

/// The in-process tier. It is bounded by weight, and takes a value only under a valid reservation.
///
/// A reader takes a [`Reservation`] before it asks the store or the loader for the value. An invalidation increases the
/// generation of the key's slot, and a flush increases the epoch. So a value that was read before either can't be put
/// after it. A value whose tag was invalidated after its reservation is neither put nor served.
#[derive(Debug)]
pub(crate) struct Local<V> {
    pub(super) entries: Entries<V>,
    slots: Box<[Mutex<Slot>]>,
    epoch: AtomicU64,
    ticks: TagTicks,
    failing: Arc<Failing>,
    hasher: RandomState,
    /// Whether values are served to callers that hold a lock. Then the time at which a value was last asked for
    /// matters.
    under_locks: bool,
}

/// What invalidations did to the keys of a slot.
#[derive(Debug, Default)]
struct Slot {
    generation: u64,
    /// The hash of the key whose value was dropped last, and when. `None` once a reader asked, or a value was put.
    dropped: Option<(u64, Instant)>,
}

/// The right to put one key, valid until the key is invalidated or the tier is flushed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reservation {
    slot: usize,
    generation: u64,
    epoch: u64,
    since: u64,
    asked: Instant,
}

impl<V> Local<V> {
    /// A tier that weighs `capacity` bytes at most. It has room for values of `heaviest` bytes if that is less than
    /// half the capacity.
    pub(crate) fn new(capacity: u64, heaviest: usize) -> Self {
        Self {
            entries: entries(capacity, heaviest),
            slots: (0..SLOTS).map(|_| Mutex::default()).collect(),
            epoch: AtomicU64::new(0),
            ticks: TagTicks::new(),
            failing: Arc::default(),
            hasher: RandomState::new(),
            under_locks: false,
        }
    }

    pub(crate) fn under_locks(self, under_locks: bool) -> Self {
        Self { under_locks, ..self }
    }

    /// Reserves a key. Must be called before the value is asked for.
    pub(crate) fn reserve(&self, key: &Key) -> Reservation {
        self.reserve_at(key, Instant::now())
    }

    /// As [`Local::reserve`], for a caller that has read the clock, at any time before.
    pub(crate) fn reserve_at(&self, key: &Key, asked: Instant) -> Reservation {
        let place = place(self.hash(key));
        self.reserve_in(place, &self.slot(place), asked)
    }

    /// As [`Local::reserve_at`]. `None`, once, if an invalidation has dropped a value of the key lately and none was
    /// put since. What happens to another key may make the tier forget that.
    pub(crate) fn reserve_unless_dropped(&self, key: &Key, asked: Instant) -> Option<Reservation> {
        let hash = self.hash(key);
        let place = place(hash);
        let mut slot = self.slot(place);
        match slot.dropped.take_if(|(dropped, _)| *dropped == hash) {
            Some((_, at)) if asked.since(at) < LATELY => None,
            _ => Some(self.reserve_in(place, &slot, asked)),
        }
    }

    fn reserve_in(&self, place: usize, slot: &Slot, asked: Instant) -> Reservation {
        let epoch = self.epoch.load(Ordering::SeqCst);
        Reservation { slot: place, generation: slot.generation, epoch, since: self.ticks.now(), asked }
    }

    /// Whether, since the reservation, neither the key nor one of these tags was invalidated and the tier was not
    /// flushed.
    pub(crate) fn holds(&self, reservation: Reservation, tags: &Tags) -> bool {
        self.slot(reservation.slot).generation == reservation.generation
            && self.epoch.load(Ordering::SeqCst) == reservation.epoch
            && self.ticks.hold(tags, reservation.since)
    }

    /// Puts a value that this process loaded under the reservation. `false` if the reservation is void.
    pub(crate) fn put(&self, reservation: Reservation, key: &Key, entry: Entry<V>) -> bool {
        self.put_if(reservation, key, entry, |_| Some(reservation.asked))
    }

    /// As [`Local::put`], for a value that was found in the store. It does not replace a value that was loaded later,
    /// since the store may have answered before another load replaced its value. If the value of the same load is
    /// already here, that value stays; under locks it then counts as asked for at the time of this reservation.
    pub(crate) fn put_found(&self, reservation: Reservation, key: &Key, entry: Entry<V>) -> bool {
        self.put_if(reservation, key, entry, |found| match self.get_asked(key.as_str()) {
            // Another reader may have asked later and got its answer earlier.
            Some((held, asked)) if held.is_of_same_load(found) => {
                self.under_locks.then(|| reservation.asked.max(asked))
            }
            // Only a fresh value stays. After the server's clock was set back, newer values seem older: they are kept
            // out for one lifetime at most.
            Some((held, _)) if held.loaded > found.loaded && held.is_fresh(Instant::now()) => None,
            _ => Some(reservation.asked),
        })
    }

    /// Puts the entry if the reservation is valid and `asked` returns the time at which the value was asked for.
    fn put_if(
        &self,
        reservation: Reservation,
        key: &Key,
        entry: Entry<V>,
        asked: impl FnOnce(&Entry<V>) -> Option<Instant>,
    ) -> bool {
        // The insertion happens under the slot's mutex. So an invalidation comes either before the insertion and voids
        // the reservation, or after it and removes the entry. A flush needs no such order, since the entry carries the
        // epoch in which its value was read.
        let mut slot = self.slot(reservation.slot);
        if slot.generation != reservation.generation || self.epoch.load(Ordering::SeqCst) != reservation.epoch {
            return false;
        }
        // An invalidation of a tag after this check is found by `get_asked`, which checks the tags again.
        if !self.ticks.hold(&entry.tags, reservation.since) {
            return false;
        }
        let Some(asked) = asked(&entry) else { return false };
        let Reservation { epoch, since, .. } = reservation;
        slot.dropped = None;
        self.entries.insert(key.clone(), LocalEntry { entry, epoch, since, asked, hold: None });
        true
    }

    /// The value, by the text of its key.
    pub(crate) fn get(&self, key: &str) -> Option<Entry<V>> {
        self.get_asked(key).map(|(entry, _)| entry)
    }

    /// As [`Local::get`], with a time after which the store or the source was asked for the value.
    pub(crate) fn get_asked(&self, key: &str) -> Option<(Entry<V>, Instant)> {
        let held = self.entries.get(key)?;
        let holds = held.epoch == self.epoch.load(Ordering::SeqCst) && self.ticks.hold(&held.entry.tags, held.since);
        holds.then_some((held.entry, held.asked))
    }

    /// Notes that a load failed although a value is here. It is not tried again for `window`, unless the key is
    /// invalidated or put before.
    pub(crate) fn hold(&self, key: &Key, window: Duration) {
        let _slot = self.slot(place(self.hash(key)));
        if !window.is_zero()
            && let Some(held) = self.entries.get(key)
        {
            self.entries.insert(key.clone(), LocalEntry { hold: Some(Instant::now() + window), ..held });
        }
    }

    pub(crate) fn is_held(&self, key: &Key) -> bool {
        let hold = self.entries.get(key).and_then(|held| held.hold);
        hold.is_some_and(|until| Instant::now() < until)
    }

    /// The keys whose last load failed. An invalidation ends their hold-off too.
    pub(crate) fn failing(&self) -> &Arc<Failing> {
        &self.failing
    }

    pub(crate) fn invalidate(&self, key: &Key) {
        self.failing.release(key);
        let hash = self.hash(key);
        let mut slot = self.slot(place(hash));
        slot.generation += 1;
        if self.entries.remove(key).is_some() {
            slot.dropped = Some((hash, Instant::now()));
        }
    }

    pub(crate) fn invalidate_tag(&self, tag: &Tag) {
        self.ticks.invalidate(tag);
    }

    pub(crate) fn flush(&self) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
        self.entries.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn weight(&self) -> u64 {
        self.entries.weight()
    }

    fn hash(&self, key: &Key) -> u64 {
        self.hasher.hash_one(key)
    }

    fn slot(&self, place: usize) -> MutexGuard<'_, Slot> {
        self.slots[place].lock()
    }
}

fn place(hash: u64) -> usize {
    usize::try_from(hash).unwrap_or(usize::MAX) % SLOTS
}
