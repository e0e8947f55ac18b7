use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::sync::Notify;

use crate::{
    clock::Instant,
    lock::{
        LossReason,
        renewal::{Renewal, Renewals},
    },
    store::{LockStore, Ownership, Readers, Recall},
};

/// One shared ownership for the readers of this process.
///
/// It ends once: after a recall when the last reader has left, or when none of the readers may hold it any longer. It
/// is then given back, whatever ended it.
#[derive(Debug)]
pub(super) struct Delegation {
    pub(super) ownership: Arc<Ownership>,
    pub(super) readers: Arc<Readers>,
    store: Arc<dyn LockStore>,
    renewal: Renewal,
    /// The latest end of the longest holds of its readers, in nanoseconds of [`Instant`].
    latest_end: AtomicU64,
    /// How many readers inside have no longest hold.
    unlimited: AtomicUsize,
    /// Wakes the keeper when the last of those readers has left.
    limited: Notify,
}

impl Delegation {
    pub(super) fn new(
        store: &Arc<dyn LockStore>,
        renewals: &Renewals,
        ownership: Arc<Ownership>,
        readers: Arc<Readers>,
    ) -> Self {
        let renewal = renewals.add(&ownership, None);
        let (latest_end, unlimited) = (AtomicU64::new(0), AtomicUsize::new(0));
        Self { ownership, readers, store: Arc::clone(store), renewal, latest_end, unlimited, limited: Notify::new() }
    }

    /// Lets one more reader in, unless the delegation was recalled or lost.
    pub(super) fn enter(self: &Arc<Self>, max_hold: Option<Duration>) -> Option<Inside> {
        let now = Instant::now();
        let ends_at = self.may_stay(now, max_hold);
        if !self.readers.enter() {
            self.stays_no_more(ends_at);
            return None;
        }
        let inside = Inside { delegation: Arc::clone(self), ends_at };
        self.ownership.loss().is_none().then_some(inside)
    }

    /// Lets in the readers that asked for it together, recalled or not. Each takes one of the returned parts.
    pub(super) fn admit(self: &Arc<Self>, max_holds: impl Iterator<Item = Option<Duration>>) -> Vec<Inside> {
        let now = Instant::now();
        let ends: Vec<_> = max_holds.map(|max_hold| self.may_stay(now, max_hold)).collect();
        self.readers.admit(u32::try_from(ends.len()).unwrap_or(u32::MAX));
        ends.into_iter().map(|ends_at| Inside { delegation: Arc::clone(self), ends_at }).collect()
    }

    /// Called before a reader counts as inside, so that whatever sees the reader also sees how long it may stay.
    fn may_stay(&self, now: Instant, max_hold: Option<Duration>) -> Option<Instant> {
        let ends_at = max_hold.map(|max_hold| now + max_hold);
        match ends_at {
            Some(end) => drop(self.latest_end.fetch_max(end.as_nanos(), Ordering::AcqRel)),
            None => drop(self.unlimited.fetch_add(1, Ordering::AcqRel)),
        }
        ends_at
    }

    fn stays_no_more(&self, ends_at: Option<Instant>) {
        if ends_at.is_none() && self.unlimited.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.limited.notify_one();
        }
    }

    /// Lets no more readers in. If none is inside, the release is on its way when this returns.
    pub(super) fn recall(&self, reason: Recall) {
        self.readers.recall(reason);
        if self.readers.is_empty() {
            self.end();
        }
    }

    /// Returns once it was given back after a recall: by the last reader, or when none of them may hold it any longer.
    pub(super) async fn ended(&self) {
        tokio::select! {
            () = self.readers.emptied() => {}
            _ = self.ownership.lost() => {}
            () = self.overstayed() => self.ownership.lose(LossReason::Expired),
        }
        self.end();
    }

    /// Resolves, after a recall, when none of the readers inside may hold it any longer.
    async fn overstayed(&self) {
        loop {
            while self.unlimited.load(Ordering::Acquire) > 0 {
                self.limited.notified().await;
            }
            let left = Instant::from_nanos(self.latest_end.load(Ordering::Acquire)).remaining();
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left).await;
        }
    }

    /// Gives the ownership back. Renewal ends before the release is sent.
    pub(super) fn end(&self) {
        if self.ownership.give_back() {
            self.renewal.end();
            self.store.release_detached(Arc::clone(&self.ownership));
        }
    }
}

/// A reader's part in a delegation. Dropping it leaves the delegation.
#[derive(Debug)]
pub(in crate::lock) struct Inside {
    delegation: Arc<Delegation>,
    /// The end of the longest hold that the reader's request allowed.
    ends_at: Option<Instant>,
}

impl Inside {
    pub(super) fn is_held(&self) -> bool {
        self.delegation.ownership.loss().is_none()
    }

    /// The reader's view of the ownership, with a loss and a longest hold of its own.
    pub(in crate::lock) fn ownership(&self) -> Ownership {
        Ownership::of_reader(&self.delegation.ownership, self.ends_at)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        if self.delegation.readers.leave() {
            self.delegation.end();
        }
        // Last, or the keeper could find nobody who may stay while this reader still counts as inside: a loss.
        self.delegation.stays_no_more(self.ends_at);
    }
}
