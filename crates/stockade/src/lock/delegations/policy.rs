use std::{
    hash::{BuildHasher, RandomState},
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::{clock::Instant, resource::Key};

/// A resource is read often if two reads come within this time.
const OFTEN: Duration = Duration::from_secs(1);
/// A recall costs a message and a wait. A delegation that served fewer readers than this did not pay for it.
const PAYS: u32 = 9;
/// After such a recall, this many reads lock by themselves before the next delegation. A delegation serves at least one
/// reader, so that makes nine reads for each recall.
const ORDINARY: u64 = 8;
/// The most reads that one resource can still have to lock by themselves.
const MOST_OWED: u64 = 255;
/// How many resources the policy tells apart, by a hash. Two resources with the same slot count as one: they are
/// delegated a little early, and held back together.
const SLOTS: usize = 1 << 14;

/// Decides by counts whether the reads of a resource are worth a delegation.
#[derive(Debug, Default)]
pub(super) struct Policy {
    /// Allocated by the first read.
    slots: OnceLock<Box<[AtomicU64]>>,
    hasher: RandomState,
}

/// What is known of a resource: the time of its last read in ms, and how many of its next reads are to lock by
/// themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Slot {
    last: u64,
    owed: u64,
}

impl Slot {
    fn unpack(packed: u64) -> Self {
        Self { last: packed >> 8, owed: packed & MOST_OWED }
    }

    fn pack(self) -> u64 {
        self.last << 8 | self.owed
    }

    /// The state after a read at `now`, and whether this read may begin a delegation.
    fn read(self, now: u64) -> (Self, bool) {
        let often = self.last != 0 && now.saturating_sub(self.last) <= millis(OFTEN);
        let next = Self { last: now, owed: self.owed.saturating_sub(1) };
        (next, often && self.owed == 0)
    }

    fn recalled(self, now: u64, served: u32) -> Self {
        let owed = if served < PAYS { (self.owed + ORDINARY).min(MOST_OWED) } else { self.owed };
        Self { last: self.last.max(now), owed }
    }
}

impl Policy {
    fn slot(&self, key: &Key) -> Option<&AtomicU64> {
        let slots = self.slots.get_or_init(|| (0..SLOTS).map(|_| AtomicU64::new(0)).collect());
        usize::try_from(self.hasher.hash_one(key) % SLOTS as u64).ok().and_then(|at| slots.get(at))
    }

    /// Notes a read that found no delegation. Returns whether it is to begin one.
    pub(super) fn read(&self, key: &Key) -> bool {
        let Some(slot) = self.slot(key) else { return false };
        let now = at(Instant::now());
        let mut begins = false;
        let read = |packed| {
            let (next, delegated) = Slot::unpack(packed).read(now);
            begins = delegated;
            Some(next.pack())
        };
        // The closure always returns a value, so this can't fail.
        let _ = slot.fetch_update(Ordering::Relaxed, Ordering::Relaxed, read);
        begins
    }

    /// Notes the recall of a delegation that served this many readers. Not called for a delegation that nobody used.
    pub(super) fn recalled(&self, key: &Key, served: u32) {
        let Some(slot) = self.slot(key) else { return };
        let now = at(Instant::now());
        let recalled = |packed| Some(Slot::unpack(packed).recalled(now, served).pack());
        let _ = slot.fetch_update(Ordering::Relaxed, Ordering::Relaxed, recalled);
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn at(instant: Instant) -> u64 {
    instant.as_nanos() / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_read_within_a_second_begins() {
        let (first, begins) = Slot::default().read(5_000);
        assert!(!begins);
        assert!(first.read(6_000).1);
        assert!(!first.read(6_001).1);
    }

    #[test]
    fn one_that_served_few_is_followed_by_eight_reads_that_lock_by_themselves() {
        let mut slot = Slot { last: 5_000, owed: 0 };
        slot = slot.recalled(5_000, PAYS - 1);
        for _ in 0..ORDINARY {
            let (next, begins) = slot.read(5_001);
            assert!(!begins);
            slot = next;
        }
        assert!(slot.read(5_002).1);
        assert!(slot.recalled(5_002, PAYS).read(5_003).1, "one that paid is followed by another");
    }

    #[test]
    fn recalls_are_at_most_a_ninth_of_the_reads() {
        let policy = Policy::default();
        let key = Key::new("stock", "1").unwrap();
        let (mut reads, mut recalls) = (0, 0);
        for _ in 0..10_000 {
            reads += 1;
            if policy.read(&key) {
                // Another process writes after each read.
                policy.recalled(&key, 1);
                recalls += 1;
            }
        }
        assert!(recalls > 1_000 && recalls * 9 <= reads, "{recalls} recalls of {reads} reads");
    }

    #[test]
    fn what_is_known_fits_into_one_number() {
        let slot = Slot { last: 1 << 50, owed: MOST_OWED };
        assert_eq!(Slot::unpack(slot.pack()), slot);
        assert_eq!(slot.recalled(0, 1), slot, "no more than fits is owed");
    }
}
