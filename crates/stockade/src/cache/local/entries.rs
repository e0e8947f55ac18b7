use std::{num::NonZeroUsize, thread::available_parallelism};

use quick_cache::{
    DefaultHashBuilder, OptionsBuilder, Weighter,
    sync::{Cache, DefaultLifecycle},
};

use crate::{cache::value::Entry, clock::Instant, resource::Key};

/// The bytes that an entry needs in addition to its key and value: its part of the table and two reference counts.
const OVERHEAD: u64 = 128;

/// The assumed bytes of an entry, for the first size of the table. A wrong guess costs only memory or a rehash.
const TYPICAL: u64 = 512;

/// The entries of the in-process tier, bounded by weight.
pub(super) type Entries<V> = Cache<Key, LocalEntry<V>, Weight>;

#[derive(Debug)]
pub(super) struct LocalEntry<V> {
    pub(super) entry: Entry<V>,
    pub(super) epoch: u64,
    /// The tick of [`TagTicks`](crate::cache::tags::TagTicks) before the value was asked for.
    pub(super) since: u64,
    /// A time before the store or the source was last asked for the value.
    pub(super) asked: Instant,
    /// Until when a failed load is not tried again. Only used in a cache without Redis.
    pub(super) hold: Option<Instant>,
}

impl<V> Clone for LocalEntry<V> {
    fn clone(&self) -> Self {
        Self { entry: self.entry.clone(), ..*self }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Weight;

impl<V> Weighter<Key, LocalEntry<V>> for Weight {
    fn weight(&self, key: &Key, held: &LocalEntry<V>) -> u64 {
        let text = key.size() + held.entry.tags.as_packed().len();
        OVERHEAD + u64::try_from(text).unwrap_or(u64::MAX) + held.entry.weight
    }
}

pub(super) fn entries<V>(capacity: u64, heaviest: usize) -> Entries<V> {
    let items = usize::try_from((capacity / TYPICAL).clamp(64, 100_000)).unwrap_or(64);
    let shards = shards(capacity, heaviest);
    // `quick_cache` rounds each shard's part up. The remainder is given up, so that the sum stays within the bound.
    let capacity = capacity - capacity % u64::try_from(shards).unwrap_or(1);
    let options =
        OptionsBuilder::new().shards(shards).estimated_items_capacity(items).weight_capacity(capacity).build();
    match options {
        Ok(options) => Cache::with_options(options, Weight, DefaultHashBuilder::default(), DefaultLifecycle::default()),
        Err(_) => Cache::with_weighter(items, capacity, Weight),
    }
}

/// The number of shards, a power of two. A shard takes no entry heavier than its part of the capacity, so with many
/// small shards large values would not fit.
fn shards(capacity: u64, heaviest: usize) -> usize {
    let heaviest = u64::try_from(heaviest.saturating_add(Key::MAX_LEN)).unwrap_or(u64::MAX).saturating_add(OVERHEAD);
    let roomy = usize::try_from(capacity / heaviest.saturating_mul(2)).unwrap_or(usize::MAX).max(1);
    let wanted = 4 * available_parallelism().map_or(1, NonZeroUsize::get);
    1 << wanted.min(roomy).ilog2()
}
