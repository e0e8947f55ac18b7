use std::{num::NonZeroUsize, thread::available_parallelism};

use quick_cache::{
    DefaultHashBuilder, OptionsBuilder, Weighter,
    sync::{Cache, DefaultLifecycle},
};

use crate::{cache::value::Entry, clock::Instant, resource::Key};

/// What an entry costs beside its key and value, in bytes: the table's part and the two reference counts.
const OVERHEAD: u64 = 128;

/// What sizes the table before anything is in it; a wrong guess costs memory or a rehash, nothing else.
const TYPICAL: u64 = 512;

/// What is kept in the process, bounded by weight.
pub(super) type Entries<V> = Cache<Key, LocalEntry<V>, Weight>;

#[derive(Debug)]
pub(super) struct LocalEntry<V> {
    pub(super) entry: Entry<V>,
    pub(super) epoch: u64,
    /// The tick of tags at which it was asked for.
    pub(super) since: u64,
    /// When it was asked for last.
    pub(super) asked: Instant,
    /// Until when its failed load is not tried again. Only where there is no other store.
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
    // Each shard's part is rounded up. What does not divide is given up, so that their sum is within the bound.
    let capacity = capacity - capacity % u64::try_from(shards).unwrap_or(1);
    let options =
        OptionsBuilder::new().shards(shards).estimated_items_capacity(items).weight_capacity(capacity).build();
    match options {
        Ok(options) => Cache::with_options(options, Weight, DefaultHashBuilder::default(), DefaultLifecycle::default()),
        Err(_) => Cache::with_weighter(items, capacity, Weight),
    }
}

/// A power of two. A shard takes nothing heavier than itself, so that many small ones would keep large values out.
fn shards(capacity: u64, heaviest: usize) -> usize {
    let heaviest = u64::try_from(heaviest + Key::MAX_LEN).unwrap_or(u64::MAX).saturating_add(OVERHEAD);
    let roomy = usize::try_from(capacity / heaviest.saturating_mul(2)).unwrap_or(usize::MAX).max(1);
    let wanted = 4 * available_parallelism().map_or(1, NonZeroUsize::get);
    1 << wanted.min(roomy).ilog2()
}
