use std::sync::atomic::{AtomicU64, Ordering};

use super::tag::{Tag, Tags};

/// Tags are hashed to this many slots. Tags that share a slot are invalidated together in this process, which costs a
/// read from Redis and nothing else. So the hash needs no secret, and the same tags share a slot in every run.
const SLOTS: usize = 4096;

/// When tags were last invalidated, as far as this process has heard. Time is counted in invalidations (ticks).
///
/// Each value notes the tick at which its fetch began, and is checked against its tags whenever it is looked at. So an
/// invalidation does not have to find the values with its tag, or the fetches that bring one.
#[derive(Debug)]
pub(crate) struct TagTicks {
    now: AtomicU64,
    last: Box<[AtomicU64]>,
}

impl TagTicks {
    pub(crate) fn new() -> Self {
        Self { now: AtomicU64::new(0), last: (0..SLOTS).map(|_| AtomicU64::new(0)).collect() }
    }

    /// The current tick. It must be noted before a value is asked for.
    pub(crate) fn now(&self) -> u64 {
        self.now.load(Ordering::SeqCst)
    }

    pub(crate) fn invalidate(&self, tag: &Tag) {
        // A reader may note this tick before the slot holds it. That reader asks for its value after this process heard
        // of the invalidation, so it may keep the value.
        let tick = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.slot(tag.as_str()).fetch_max(tick, Ordering::SeqCst);
    }

    /// Whether none of these tags was invalidated after the tick `since`.
    pub(crate) fn hold(&self, tags: &Tags, since: u64) -> bool {
        tags.iter().all(|tag| self.slot(tag).load(Ordering::SeqCst) <= since)
    }

    fn slot(&self, tag: &str) -> &AtomicU64 {
        &self.last[usize::try_from(crc32fast::hash(tag.as_bytes())).unwrap_or(usize::MAX) % SLOTS]
    }
}
