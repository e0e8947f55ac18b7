use std::{
    hash::{BuildHasher, RandomState},
    sync::atomic::{AtomicU64, Ordering},
};

use super::tag::{Tag, Tags};

/// Tags that share a slot are invalidated together here, which costs a read elsewhere and nothing else.
const SLOTS: usize = 4096;

/// When tags were last invalidated, as far as this process has heard, counted in invalidations.
///
/// A value is judged each time it is looked at by the tick at which it began to be fetched, so that an invalidation
/// need not know who holds or fetches a value with its tag.
#[derive(Debug)]
pub(crate) struct TagTicks {
    now: AtomicU64,
    last: Box<[AtomicU64]>,
    hasher: RandomState,
}

impl TagTicks {
    pub(crate) fn new() -> Self {
        let last = (0..SLOTS).map(|_| AtomicU64::new(0)).collect();
        Self { now: AtomicU64::new(0), last, hasher: RandomState::new() }
    }

    /// To be noted before a value is asked for.
    pub(crate) fn now(&self) -> u64 {
        self.now.load(Ordering::SeqCst)
    }

    pub(crate) fn invalidate(&self, tag: &Tag) {
        // Whoever notes this tick before the slot shows it asks after the invalidation was told here, and so is right
        // to keep what it gets.
        let tick = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.slot(tag.as_str()).fetch_max(tick, Ordering::SeqCst);
    }

    /// Whether none of them was invalidated after the tick `since`.
    pub(crate) fn hold(&self, tags: &Tags, since: u64) -> bool {
        tags.iter().all(|tag| self.slot(tag).load(Ordering::SeqCst) <= since)
    }

    fn slot(&self, tag: &str) -> &AtomicU64 {
        &self.last[usize::try_from(self.hasher.hash_one(tag)).unwrap_or(usize::MAX) % SLOTS]
    }
}
