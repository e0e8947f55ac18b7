use std::{
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
    time::Duration,
};

use tokio::sync::Notify;

use crate::clock::Instant;

/// Why a delegation takes no more readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recall {
    /// Somebody waits for the resource, as the store said.
    Wanted = 1,
    /// Only the readers that asked for the delegation together may use it. It was handed over, or somebody waited when
    /// it was granted, or this process would not hear that somebody waits.
    Once,
    /// The same locks made an exclusive attempt, or an attempt on a permit.
    Local,
    /// The connection on which the store would have said that somebody waits is gone.
    Disconnected,
    Lost,
    /// Nobody was inside from one renewal to the next.
    Unused,
    /// The delegation has reached its greatest age.
    Old,
    Shutdown,
}

impl Recall {
    const ALL: [Self; 8] = [
        Self::Wanted,
        Self::Once,
        Self::Local,
        Self::Disconnected,
        Self::Lost,
        Self::Unused,
        Self::Old,
        Self::Shutdown,
    ];

    /// The metric label. `None` for [`Recall::Once`], which is no recall: the delegation was never open to others.
    pub(crate) fn label(self) -> Option<&'static str> {
        match self {
            Self::Once => None,
            Self::Wanted => Some("wanted"),
            Self::Local => Some("local"),
            Self::Disconnected => Some("disconnected"),
            Self::Lost => Some("lost"),
            Self::Unused => Some("unused"),
            Self::Old => Some("old"),
            Self::Shutdown => Some("shutdown"),
        }
    }

    /// The metric labels of all recalls.
    pub(crate) fn labels() -> impl Iterator<Item = &'static str> {
        Self::ALL.into_iter().filter_map(Self::label)
    }
}

/// The readers of this process under one shared ownership, and whether that ownership was recalled.
///
/// Entering is one step on one number, and so is a recall. A reader is either inside before the recall, and then keeps
/// the ownership, or is refused.
#[derive(Debug, Default)]
pub(crate) struct Readers {
    /// From the lowest bit: how many readers are inside (28 bits), the recall (4 bits, 0 while there is none), how many
    /// readers have entered (32 bits).
    state: AtomicU64,
    /// How many readers had entered at the last renewal.
    seen: AtomicU32,
    /// The latest end of the readers' waits for the ownership, in nanoseconds of [`Instant`].
    waits_until: AtomicU64,
    /// The place of the readers' attempt in the queue, from 1, as the store last reported it. 0 before the first
    /// report.
    position: AtomicU64,
    /// How much was left of the holder's lease at that report, in nanoseconds.
    remaining: AtomicU64,
    /// Wakes the one task that waits for a recall, and then for the last reader to leave.
    changed: Notify,
}

const INSIDE: u64 = (1 << RECALL_AT) - 1;
const RECALL_AT: u32 = 28;
const RECALL: u64 = 15 << RECALL_AT;
const ENTERED_AT: u32 = 32;
const ONE: u64 = (1 << ENTERED_AT) + 1;

impl Readers {
    fn load(&self) -> u64 {
        self.state.load(Ordering::Acquire)
    }

    /// Records that one of the readers waits until this time. `None` is a wait without limit.
    pub(crate) fn wait_until(&self, until: Option<Instant>) {
        self.waits_until.fetch_max(until.map_or(u64::MAX, Instant::as_nanos), Ordering::AcqRel);
    }

    /// When the last of the readers' waits ends. `None` is a wait without limit.
    pub(crate) fn waits_until(&self) -> Option<Instant> {
        let until = self.waits_until.load(Ordering::Acquire);
        (until != u64::MAX).then(|| Instant::from_nanos(until))
    }

    pub(crate) fn queued(&self, position: u64, remaining: Duration) {
        let remaining = u64::try_from(remaining.as_nanos()).unwrap_or(u64::MAX);
        self.remaining.store(remaining, Ordering::Relaxed);
        self.position.store(position, Ordering::Release);
    }

    /// The place of the readers' attempt in the queue, and how much is left of the holder's lease, as the store last
    /// reported them.
    pub(crate) fn place(&self) -> (Option<u64>, Duration) {
        let position = self.position.load(Ordering::Acquire);
        ((position > 0).then_some(position), Duration::from_nanos(self.remaining.load(Ordering::Relaxed)))
    }

    /// Lets one more reader in. Returns `false` after a recall: the reader is refused.
    pub(crate) fn enter(&self) -> bool {
        let open = self.state.fetch_add(ONE, Ordering::AcqRel) & RECALL == 0;
        if !open {
            self.take(ONE);
        }
        open
    }

    /// Lets this many readers in that asked for the ownership, even after a recall.
    pub(crate) fn admit(&self, readers: u32) {
        self.state.fetch_add(u64::from(readers) * ONE, Ordering::AcqRel);
    }

    /// Counts one reader as gone. Returns whether it was the last reader after a recall.
    pub(crate) fn leave(&self) -> bool {
        self.take(1)
    }

    fn take(&self, one: u64) -> bool {
        let before = self.state.fetch_sub(one, Ordering::AcqRel);
        let last = before & RECALL != 0 && before & INSIDE == 1;
        if last {
            self.changed.notify_one();
        }
        last
    }

    /// From now on no reader enters. The first reason stays.
    pub(crate) fn recall(&self, reason: Recall) {
        let recalled = |state| (state & RECALL == 0).then_some(state | (reason as u64) << RECALL_AT);
        if self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, recalled).is_ok() {
            self.changed.notify_one();
        }
    }

    pub(crate) fn recalled(&self) -> Option<Recall> {
        let code = (self.load() & RECALL) >> RECALL_AT;
        Recall::ALL.into_iter().find(|reason| *reason as u64 == code)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.load() & INSIDE == 0
    }

    pub(crate) fn entered(&self) -> u32 {
        u32::try_from(self.load() >> ENTERED_AT).unwrap_or(u32::MAX)
    }

    /// Whether no reader was inside since the last renewal. Must be called once for each renewal.
    pub(crate) fn rested(&self) -> bool {
        let entered = self.entered();
        self.seen.swap(entered, Ordering::AcqRel) == entered && self.is_empty()
    }

    /// Resolves once the ownership is recalled. Only one task at a time may wait here or in [`Readers::emptied`].
    pub(crate) async fn until_recalled(&self) {
        while self.recalled().is_none() {
            self.changed.notified().await;
        }
    }

    /// Resolves once no reader is inside, after a recall.
    pub(crate) async fn emptied(&self) {
        while !self.is_empty() {
            self.changed.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recall_lets_nobody_in_and_the_last_reader_ends_it() {
        let readers = Readers::default();
        assert!(readers.enter() && readers.enter());
        assert!(!readers.leave(), "not recalled");
        readers.recall(Recall::Wanted);
        readers.recall(Recall::Lost);
        assert_eq!(readers.recalled(), Some(Recall::Wanted), "the first reason stays");
        assert!(!readers.enter());
        assert_eq!(readers.entered(), 2, "who was refused did not enter");
        readers.admit(1);
        assert!(!readers.leave());
        assert!(readers.leave());
        assert!(readers.is_empty());
    }

    #[test]
    fn it_rested_when_nobody_was_inside_from_one_renewal_to_the_next() {
        let readers = Readers::default();
        assert!(readers.enter());
        assert!(!readers.rested());
        assert!(!readers.rested(), "somebody is inside");
        readers.leave();
        assert!(readers.rested());
        assert!(readers.enter() && !readers.leave());
        assert!(!readers.rested(), "somebody was");
        assert!(readers.rested());
    }

    #[test]
    fn every_reason_has_a_code_that_fits() {
        for reason in Recall::ALL {
            let readers = Readers::default();
            readers.recall(reason);
            assert_eq!(readers.recalled(), Some(reason));
        }
    }

    #[tokio::test]
    async fn who_enters_while_it_is_recalled_is_inside_or_refused() {
        for _ in 0..200 {
            let readers = std::sync::Arc::new(Readers::default());
            let entering = std::sync::Arc::clone(&readers);
            let thread = std::thread::spawn(move || {
                let mut inside = 0;
                while entering.enter() {
                    inside += 1;
                }
                inside
            });
            while readers.is_empty() {
                std::hint::spin_loop();
            }
            readers.recall(Recall::Local);
            let inside: u32 = thread.join().unwrap();
            assert_eq!((readers.entered(), readers.load() & INSIDE), (inside, u64::from(inside)));
        }
    }
}
