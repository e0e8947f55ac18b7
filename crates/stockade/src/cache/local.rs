use std::{
    hash::{BuildHasher, RandomState},
    num::NonZeroUsize,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread::available_parallelism,
    time::Duration,
};

use quick_cache::{
    DefaultHashBuilder, OptionsBuilder, Weighter,
    sync::{Cache, DefaultLifecycle},
};

use super::{
    entry::Entry,
    tag::{Tag, Tags},
    tag_ticks::TagTicks,
};
use crate::{clock::Instant, resource::Key};

const SLOTS: usize = 1024;

/// What an entry costs beside its key and value, in bytes: the table's part and the two reference counts.
const OVERHEAD: u64 = 128;

/// What sizes the table before anything is in it; a wrong guess costs memory or a rehash, nothing else.
const TYPICAL: u64 = 512;

/// The in-process tier: bounded by weight, filled only by readers whose reservation is still good.
///
/// A reader takes a [`Reservation`] before it asks anybody for the value. An invalidation moves the generation of the
/// key's slot and a flush moves the epoch, so that a value read before either can't be put after it. A value whose tag was
/// invalidated since its reservation is neither put nor served.
#[derive(Debug)]
pub(crate) struct Local<V> {
    entries: Cache<Key, Held<V>, Weight>,
    generations: Box<[Mutex<u64>]>,
    epoch: AtomicU64,
    ticks: TagTicks,
    hasher: RandomState,
}

/// The leave to put one key, good until the key is invalidated or the tier flushed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reservation {
    slot: usize,
    generation: u64,
    epoch: u64,
    since: u64,
}

#[derive(Debug)]
struct Held<V> {
    entry: Entry<V>,
    epoch: u64,
    /// The tick of tags at which it was asked for.
    since: u64,
    /// Until when its failed load is not tried again. Only where there is no other store.
    hold: Option<Instant>,
}

impl<V> Clone for Held<V> {
    fn clone(&self) -> Self {
        Self { entry: self.entry.clone(), ..*self }
    }
}

#[derive(Clone, Debug)]
struct Weight;

impl<V> Weighter<Key, Held<V>> for Weight {
    fn weight(&self, key: &Key, held: &Held<V>) -> u64 {
        let text = key.as_str().len() + held.entry.tags.as_packed().len();
        OVERHEAD + u64::try_from(text).unwrap_or(u64::MAX) + held.entry.weight
    }
}

impl<V> Local<V> {
    /// Weighs `capacity` bytes at most, and has room for values of `heaviest` bytes if that is less than half as much.
    pub(crate) fn new(capacity: u64, heaviest: usize) -> Self {
        let items = usize::try_from((capacity / TYPICAL).clamp(64, 100_000)).unwrap_or(64);
        let shards = shards(capacity, heaviest);
        // Each shard's part is rounded up. What does not divide is given up, so that their sum is within the bound.
        let capacity = capacity - capacity % u64::try_from(shards).unwrap_or(1);
        let options =
            OptionsBuilder::new().shards(shards).estimated_items_capacity(items).weight_capacity(capacity).build();
        let entries = match options {
            Ok(options) => {
                Cache::with_options(options, Weight, DefaultHashBuilder::default(), DefaultLifecycle::default())
            }
            Err(_) => Cache::with_weighter(items, capacity, Weight),
        };
        Self {
            entries,
            generations: (0..SLOTS).map(|_| Mutex::new(0)).collect(),
            epoch: AtomicU64::new(0),
            ticks: TagTicks::new(),
            hasher: RandomState::new(),
        }
    }

    /// Must be taken before the value is asked for.
    pub(crate) fn reserve(&self, key: &Key) -> Reservation {
        let slot = self.slot(key);
        let epoch = self.epoch.load(Ordering::SeqCst);
        Reservation { slot, generation: *self.generation(slot), epoch, since: self.ticks.now() }
    }

    /// Whether neither the key nor one of these tags was invalidated since, nor the tier flushed.
    pub(crate) fn holds(&self, reservation: Reservation, tags: &Tags) -> bool {
        *self.generation(reservation.slot) == reservation.generation
            && self.epoch.load(Ordering::SeqCst) == reservation.epoch
            && self.ticks.hold(tags, reservation.since)
    }

    /// Stores what this process loaded under the reservation; false when it is void.
    pub(crate) fn put(&self, reservation: Reservation, key: &Key, entry: Entry<V>) -> bool {
        self.put_unless(reservation, key, entry, |_| false)
    }

    /// As [`Local::put`], for what was found in the store: it takes the place of nothing that was loaded after it. The
    /// store may have answered before a reload replaced its value.
    pub(crate) fn put_found(&self, reservation: Reservation, key: &Key, entry: Entry<V>) -> bool {
        self.put_unless(reservation, key, entry, |found| {
            // A fresh one only, so that a clock that was set back shuts nothing out for longer than a lifetime.
            let newer = |held: Entry<V>| held.loaded > found.loaded && held.is_fresh(Instant::now());
            self.get(key.as_str()).is_some_and(newer)
        })
    }

    fn put_unless(
        &self,
        reservation: Reservation,
        key: &Key,
        entry: Entry<V>,
        late: impl FnOnce(&Entry<V>) -> bool,
    ) -> bool {
        // The insertion happens under the slot's mutex: an invalidation comes either before it and voids it, or after it
        // and removes what was inserted. A flush needs no such order, since the entry carries the epoch it was read in.
        let generation = self.generation(reservation.slot);
        if *generation != reservation.generation || self.epoch.load(Ordering::SeqCst) != reservation.epoch {
            return false;
        }
        // One that comes after this is seen by whoever looks at the entry.
        if !self.ticks.hold(&entry.tags, reservation.since) || late(&entry) {
            return false;
        }
        self.entries
            .insert(key.clone(), Held { entry, epoch: reservation.epoch, since: reservation.since, hold: None });
        true
    }

    /// By the text of the key.
    pub(crate) fn get(&self, key: &str) -> Option<Entry<V>> {
        let held = self.entries.get(key)?;
        let holds = held.epoch == self.epoch.load(Ordering::SeqCst) && self.ticks.hold(&held.entry.tags, held.since);
        holds.then_some(held.entry)
    }

    /// A load of what is here failed, and is not to be tried again for so long. An invalidation and a fill end that.
    pub(crate) fn hold(&self, key: &Key, window: Duration) {
        let _generation = self.generation(self.slot(key));
        if !window.is_zero()
            && let Some(held) = self.entries.get(key)
        {
            self.entries.insert(key.clone(), Held { hold: Some(Instant::now() + window), ..held });
        }
    }

    pub(crate) fn is_held(&self, key: &Key) -> bool {
        let hold = self.entries.get(key).and_then(|held| held.hold);
        hold.is_some_and(|until| Instant::now() < until)
    }

    pub(crate) fn invalidate(&self, key: &Key) {
        let mut generation = self.generation(self.slot(key));
        *generation += 1;
        self.entries.remove(key);
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

    fn slot(&self, key: &Key) -> usize {
        usize::try_from(self.hasher.hash_one(key)).unwrap_or(usize::MAX) % SLOTS
    }

    fn generation(&self, slot: usize) -> MutexGuard<'_, u64> {
        self.generations[slot].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A power of two. A shard takes nothing heavier than itself, so that many small ones would keep large values out.
fn shards(capacity: u64, heaviest: usize) -> usize {
    let heaviest = u64::try_from(heaviest + Key::MAX_LEN).unwrap_or(u64::MAX).saturating_add(OVERHEAD);
    let roomy = usize::try_from(capacity / heaviest.saturating_mul(2)).unwrap_or(usize::MAX).max(1);
    let wanted = 4 * available_parallelism().map_or(1, NonZeroUsize::get);
    1 << wanted.min(roomy).ilog2()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rand::{Rng, SeedableRng, rngs::StdRng};

    use super::*;

    fn key(id: &str) -> Key {
        Key::new("stock", id).unwrap()
    }

    fn entry(value: u64, weight: u64) -> Entry<u64> {
        let now = Instant::now();
        let (value, expires) = (Some(Arc::new(value)), now + Duration::from_secs(60));
        Entry { value, loaded: now, expires, took: Duration::ZERO, version: None, tags: Tags::default(), weight }
    }

    #[test]
    fn a_value_read_before_an_invalidation_is_not_put_after_it() {
        let local = Local::new(1 << 20, 1 << 10);
        let (a, b) = (key("a"), key("b"));
        let early = local.reserve(&a);
        local.invalidate(&a);
        assert!(!local.put(early, &a, entry(0, 8)));
        assert!(local.get(a.as_str()).is_none());
        assert!(local.put(local.reserve(&a), &a, entry(1, 8)));
        assert!(local.put(local.reserve(&b), &b, entry(2, 8)));
        local.invalidate(&a);
        assert!(local.get(a.as_str()).is_none());
        assert_eq!(local.get(b.as_str()).unwrap().value.as_deref(), Some(&2));
    }

    #[test]
    fn what_was_found_in_the_store_takes_the_place_of_nothing_newer() {
        let local = Local::new(1 << 20, 1 << 10);
        let a = key("a");
        let now = Instant::now();
        let lived = |value, ago: u64, left: u64| {
            let (loaded, expires) = (now - Duration::from_secs(ago), now + Duration::from_secs(left));
            Entry { loaded, expires, ..entry(value, 8) }
        };
        let value = || local.get(a.as_str()).and_then(|entry| entry.value.as_deref().copied());
        // Both have asked before either stores.
        let (found, loaded) = (local.reserve(&a), local.reserve(&a));
        assert!(local.put(loaded, &a, lived(1, 5, 60)));
        assert!(!local.put_found(found, &a, lived(0, 10, 60)));
        assert_eq!(value(), Some(1));
        assert!(local.put_found(found, &a, lived(2, 4, 60)));
        assert_eq!(value(), Some(2));
        // What this process loads itself goes before what it has found, whatever the clocks say.
        assert!(local.put(local.reserve(&a), &a, lived(3, 20, 0)));
        // That has expired.
        assert!(local.put_found(local.reserve(&a), &a, lived(4, 30, 60)));
        assert_eq!(value(), Some(4));
        local.flush();
        assert!(local.put_found(local.reserve(&a), &a, lived(5, 40, 60)));
        assert_eq!(value(), Some(5));
    }

    #[test]
    fn a_flush_voids_what_is_held_and_what_is_being_read() {
        let local = Local::new(1 << 20, 1 << 10);
        let a = key("a");
        assert!(local.put(local.reserve(&a), &a, entry(0, 8)));
        let early = local.reserve(&a);
        local.flush();
        assert!(local.get(a.as_str()).is_none());
        assert!(!local.put(early, &a, entry(0, 8)));
    }

    #[test]
    fn a_tag_outdates_what_is_held_and_what_is_being_read() {
        let local = Local::new(1 << 20, 1 << 10);
        let (a, b) = (key("a"), key("b"));
        let tagged = |value, tags: &[&str]| Entry { tags: Tags::new(tags).unwrap(), ..entry(value, 8) };
        assert!(local.put(local.reserve(&a), &a, tagged(0, &["red", "round"])));
        assert!(local.put(local.reserve(&b), &b, entry(1, 8)));
        let early = local.reserve(&a);
        local.invalidate_tag(&Tag::new("round").unwrap());
        assert!(local.get(a.as_str()).is_none());
        assert_eq!(local.get(b.as_str()).unwrap().value.as_deref(), Some(&1));
        let (red, round) = (Tags::new(["red"]).unwrap(), Tags::new(["round"]).unwrap());
        assert!(local.holds(early, &red) && !local.holds(early, &round));
        assert!(!local.put(early, &a, tagged(0, &["round"])));
        assert!(local.put(local.reserve(&a), &a, tagged(2, &["red", "round"])));
        assert_eq!(local.get(a.as_str()).unwrap().value.as_deref(), Some(&2));
    }

    #[test]
    fn the_weight_never_exceeds_its_bound_whatever_is_put() {
        const HEAVIEST: u64 = 40_000;
        for capacity in [1 << 20, 1_000_003] {
            let local = Local::new(capacity, 40_000);
            // To the byte, which no puts would find.
            assert!(local.entries.capacity() <= capacity, "{} of {capacity}", local.entries.capacity());
            let mut rng = StdRng::seed_from_u64(capacity);
            for i in 0..20_000 {
                // Some keys come again, lighter or heavier.
                let key = key(&rng.random_range(0..2_000).to_string());
                let weight = if rng.random_ratio(1, 10) { HEAVIEST } else { rng.random_range(0..2_000) };
                local.put(local.reserve(&key), &key, entry(i, weight));
                assert!(local.weight() <= capacity, "{} of {capacity}", local.weight());
            }
            // Shards are drawn by the hash, and the heaviest takes a third of one: each may lie that much below its part.
            assert!(local.weight() > capacity / 2, "{} of {capacity}", local.weight());
        }
    }

    #[test]
    fn the_heaviest_value_that_is_stored_has_room() {
        for capacity in [1 << 18, 16 << 20, 1 << 30] {
            let local = Local::new(capacity, 100_000);
            for i in 0..50 {
                let key = key(&i.to_string());
                local.put(local.reserve(&key), &key, entry(i, 100_000));
                assert!(local.get(key.as_str()).is_some(), "value {i} in {capacity}");
            }
        }
        // One that could not fit at all is left out, and takes what it replaces with it.
        let local = Local::new(1 << 18, 100_000);
        let a = key("a");
        assert!(local.put(local.reserve(&a), &a, entry(0, 8)));
        assert!(local.put(local.reserve(&a), &a, entry(1, 1 << 20)));
        assert!(local.get(a.as_str()).is_none());
        assert_eq!(local.weight(), 0);
    }
}
