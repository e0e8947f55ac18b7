use std::{
    hash::{BuildHasher, RandomState},
    ops::RangeInclusive,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::{clock::Instant, resource::Key};

/// A resource is read often if two reads come within this time, in ms.
const OFTEN: u64 = 1_000;
/// What a recall costs, in reads: a message and a wait. A delegation that serves more readers saves the rest for later
/// recalls. What one that serves fewer leaves unpaid, ordinary reads have to pay before the next delegation.
const PRICE: i64 = 9;
/// The bounds of what is unpaid, which is negative, and of what is saved.
const BALANCE: RangeInclusive<i64> = -120..=63;
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

/// What is known of a resource: the time of its last read in ms, and how many reads are saved (or, if negative, have to
/// lock by themselves).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Slot {
    last: u64,
    balance: i8,
}

impl Slot {
    fn unpack(packed: u64) -> Self {
        let [balance, ..] = packed.to_le_bytes();
        Self { last: packed >> 8, balance: i8::from_le_bytes([balance]) }
    }

    fn pack(self) -> u64 {
        let [balance] = self.balance.to_le_bytes();
        self.last << 8 | u64::from(balance)
    }

    /// The state after a read at `now`, and whether this read may begin a delegation.
    fn read(self, now: u64) -> (Self, bool) {
        let often = self.last != 0 && now.saturating_sub(self.last) <= OFTEN;
        let is_owed = self.balance < 0;
        let next = Self { last: now, balance: self.balance + i8::from(is_owed) };
        (next, often && !is_owed)
    }

    fn recalled(self, now: u64, served: u32) -> Self {
        let balance = i64::from(self.balance) + i64::from(served) - PRICE;
        let balance = balance.clamp(*BALANCE.start(), *BALANCE.end());
        Self { last: self.last.max(now), balance: i8::try_from(balance).unwrap_or_default() }
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

    /// How many reads lock by themselves before the next delegation.
    fn ordinary(mut slot: Slot) -> usize {
        let mut read = || {
            let (next, begins) = slot.read(5_001);
            slot = next;
            begins
        };
        (0..200).take_while(|_| !read()).count()
    }

    #[test]
    fn what_a_recall_leaves_unpaid_is_paid_by_reads_that_lock_by_themselves() {
        let slot = Slot { last: 5_000, balance: 0 };
        for (served, reads) in [(1, 8), (4, 5), (8, 1), (9, 0), (1_000, 0)] {
            assert_eq!(ordinary(slot.recalled(5_000, served)), reads, "served {served}");
        }
        assert_eq!(ordinary(slot.recalled(5_000, 1).recalled(5_000, 1)), 16);
    }

    #[test]
    fn what_a_delegation_serves_above_the_price_pays_for_a_few_later_recalls() {
        let mut slot = Slot { last: 5_000, balance: 0 }.recalled(5_000, 19);
        slot = slot.recalled(5_000, 1);
        assert_eq!(ordinary(slot), 0);
        assert_eq!(ordinary(slot.recalled(5_000, 1)), 6);
        let mut rich = Slot::default().recalled(5_000, u32::MAX);
        (0..8).for_each(|_| rich = rich.recalled(5_000, 1));
        assert_eq!(ordinary(rich), 1, "however much was served, eight recalls use it up");
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
        for balance in [*BALANCE.start(), -1, 0, *BALANCE.end()] {
            let slot = Slot { last: 1 << 50, balance: i8::try_from(balance).unwrap() };
            assert_eq!(Slot::unpack(slot.pack()), slot);
        }
    }
}
