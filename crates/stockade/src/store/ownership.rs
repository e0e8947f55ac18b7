use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::sync::Notify;

use super::{LockError, LossReason, Mode, Owner, Readers, Recall, Token};
use crate::{clock::Instant, metrics, resource::Key};

/// One ownership of a resource: who, with which token, until when, and the signal that it ended early.
///
/// Shared by the guard, its fences, the renewal task and the store.
#[derive(Debug)]
pub(crate) struct Ownership {
    pub(crate) key: Key,
    pub(crate) owner: Owner,
    /// Who owned it when its token was minted: the owner that a fence knows, whoever adopted it since.
    pub(crate) fence_owner: Owner,
    /// Fences look at it, too: what was exclusive may be shared now.
    mode: AtomicU8,
    /// Set while the store was asked to change the mode and nobody knows whether it did.
    between_modes: AtomicBool,
    pub(crate) token: Token,
    pub(crate) lease: Duration,
    /// For a hand-off the time from the release to the grant's arrival, as far as the store can tell.
    pub(crate) handed_off: Option<Duration>,
    /// Nanoseconds of [`Instant`] at which the holder must believe the lease over.
    deadline: AtomicU64,
    /// Nanoseconds of [`Instant`] at which it was known here to be held in its mode.
    since: AtomicU64,
    /// Of a reader the ownership that it shares with others of this process, whose owner, token and lease it has.
    within: Option<Arc<Self>>,
    /// Of an ownership that readers of this process share: who is inside.
    readers: Option<Arc<Readers>>,
    lost: OnceLock<LossReason>,
    /// Wakes those who wait for a loss.
    told: Notify,
    /// Set when the holder gives it back: what the store says afterwards is no loss.
    released: AtomicBool,
    /// Shared with the ownerships around it, for which the same answer is given.
    commits: OnceLock<Arc<AtomicU8>>,
    /// Commits of writes under it that the database has not answered, and [`SHARED`].
    unanswered: AtomicU32,
}

/// It is about to be shared or handed over, or is: no write may be committed under it.
const SHARED: u32 = 1 << 31;

/// No commit was sent under an ownership yet.
const OPEN: u8 = 0;
/// One was, after which nobody can say that nothing was applied.
const STARTED: u8 = 1;
/// It was said that nothing was applied, after which none may be sent.
const CLOSED: u8 = 2;

impl Ownership {
    pub(crate) fn new(
        key: Key,
        owner: Owner,
        mode: Mode,
        token: Token,
        lease: Duration,
        deadline: Instant,
        handed_off: Option<Duration>,
    ) -> Self {
        let deadline = AtomicU64::new(deadline.as_nanos());
        // It is made from the reply, or from the message of a grant that was handed over.
        let since = AtomicU64::new(Instant::now().as_nanos());
        let (released, commits, unanswered) = (AtomicBool::new(false), OnceLock::new(), AtomicU32::new(0));
        let (fence_owner, mode, between_modes) = (owner.clone(), AtomicU8::new(mode as u8), AtomicBool::new(false));
        Self {
            key,
            owner,
            fence_owner,
            mode,
            between_modes,
            token,
            lease,
            handed_off,
            deadline,
            since,
            within: None,
            readers: None,
            lost: OnceLock::new(),
            told: Notify::new(),
            released,
            commits,
            unanswered,
        }
    }

    /// It was adopted: its token was minted for another owner.
    pub(crate) fn known_to_fences_as(self, fence_owner: Owner) -> Self {
        Self { fence_owner, ..self }
    }

    /// These readers of this process share it.
    pub(crate) fn shared_by(self, readers: Option<Arc<Readers>>) -> Self {
        Self { readers, ..self }
    }

    /// One of the readers that share `delegation`, for as long as it may hold it.
    pub(crate) fn of_reader(delegation: &Arc<Self>, ends_at: Option<Instant>) -> Self {
        let Self { key, owner, fence_owner, token, lease, .. } = delegation.as_ref();
        let ends_at = ends_at.unwrap_or(Instant::from_nanos(u64::MAX));
        let reader = Self::new(key.clone(), owner.clone(), Mode::Read, *token, *lease, ends_at, None);
        let since = AtomicU64::new(delegation.since.load(Ordering::Acquire));
        Self { within: Some(Arc::clone(delegation)), since, ..reader.known_to_fences_as(fence_owner.clone()) }
    }

    pub(crate) fn readers(&self) -> Option<&Readers> {
        self.readers.as_deref()
    }

    /// No more readers of this process enter, if it is one that they share.
    pub(crate) fn recall(&self, reason: Recall) {
        if let Some(readers) = &self.readers {
            readers.recall(reason);
        }
    }

    pub(crate) fn mode(&self) -> Mode {
        match self.mode.load(Ordering::Acquire) {
            mode if mode == Mode::Read as u8 => Mode::Read,
            mode if mode == Mode::Write as u8 => Mode::Write,
            _ => Mode::Permit,
        }
    }

    pub(crate) fn is_between_modes(&self) -> bool {
        self.between_modes.load(Ordering::Acquire)
    }

    pub(crate) fn set_between_modes(&self, between: bool) {
        self.between_modes.store(between, Ordering::Release);
    }

    pub(crate) fn set_mode(&self, mode: Mode) {
        if self.mode() != mode {
            // Before the mode, so that whoever sees that also sees this.
            self.since.fetch_max(Instant::now().as_nanos(), Ordering::AcqRel);
        }
        self.mode.store(mode as u8, Ordering::Release);
    }

    pub(crate) fn deadline(&self) -> Instant {
        let own = Instant::from_nanos(self.deadline.load(Ordering::Acquire));
        self.within.as_ref().map_or(own, |within| own.min(within.deadline()))
    }

    /// Moves the deadline forward; never back, so that a late reply to an older renewal changes nothing.
    pub(crate) fn extend(&self, deadline: Instant) {
        self.deadline.fetch_max(deadline.as_nanos(), Ordering::AcqRel);
    }

    /// Since when no writer can have been granted the resource, for an ownership that is shared and neither lost nor
    /// given back at this moment; for one that was exclusive before, since it is shared.
    #[cfg(any(test, feature = "axum"))]
    pub(crate) fn shared_since(&self) -> Option<Instant> {
        let held = self.mode() == Mode::Read && !self.released.load(Ordering::Acquire) && self.loss().is_none();
        held.then(|| Instant::from_nanos(self.since.load(Ordering::Acquire)))
    }

    /// Whether it is exclusive, and neither lost nor given back at this moment.
    #[cfg(feature = "postgres")]
    pub(crate) fn is_exclusive(&self) -> bool {
        self.mode() == Mode::Write && !self.released.load(Ordering::Acquire) && self.loss().is_none()
    }

    /// Why it was lost: as told by the store, or because its deadline has passed.
    pub(crate) fn loss(&self) -> Option<LossReason> {
        let told = self.lost.get().or_else(|| self.within.as_ref()?.lost.get()).copied();
        told.or_else(|| (Instant::now() >= self.deadline()).then_some(LossReason::Expired))
    }

    /// For who wanted to do something with it that was lost.
    pub(crate) fn lost_error(&self) -> LockError {
        LockError::Lost { key: self.key.clone(), reason: self.loss().unwrap_or(LossReason::Stolen) }
    }

    /// Records the loss; the first reason stays. Returns whether this call was the first.
    ///
    /// The only place where losses are counted, so that each counts once whoever notices it.
    pub(crate) fn lose(&self, reason: LossReason) -> bool {
        let first = self.lost.set(reason).is_ok();
        if !first {
            return false;
        }
        self.recall(Recall::Lost);
        self.told.notify_waiters();
        // What readers share is lost to those who are inside, each of whom counts by himself.
        if self.readers.is_none() && !self.released.load(Ordering::Acquire) {
            let tags = [("lock", self.key.label().clone()), metrics::tag("reason", reason.as_str())];
            metrics::count(metrics::LOCK_LOST, &tags);
            tracing::warn!(lock = %self.key.label(), token = %self.token, reason = reason.as_str(), "lock lost");
        }
        true
    }

    /// The holder gives it back. From here on nothing renews it and its end is no loss. Returns whether this call was
    /// the first.
    pub(crate) fn give_back(&self) -> bool {
        if self.within.is_some() {
            // The others go on renewing what it shared.
            self.deadline.fetch_min(self.deadline().as_nanos(), Ordering::AcqRel);
        }
        !self.released.swap(true, Ordering::AcqRel)
    }

    /// Resolves when the store reports a loss. The deadline is not watched here: the renewal task calls
    /// [`Ownership::lose`] when it passes.
    pub(crate) async fn lost(&self) -> LossReason {
        let Some(within) = &self.within else { return self.told().await };
        let reason = tokio::select! {
            reason = self.told() => reason,
            reason = within.told() => reason,
        };
        self.lose(reason);
        reason
    }

    async fn told(&self) -> LossReason {
        loop {
            let told = self.told.notified();
            if let Some(reason) = self.lost.get() {
                return *reason;
            }
            told.await;
        }
    }

    fn commits(&self) -> &Arc<AtomicU8> {
        self.commits.get_or_init(|| Arc::new(AtomicU8::new(OPEN)))
    }

    /// Work under this ownership is part of the work under `outer`: a commit under either counts for both. Before
    /// anybody is given this ownership.
    pub(crate) fn commits_within(&self, outer: &Self) {
        // Set already only where a commit was spoken of, which nobody can have done yet.
        let _ = self.commits.set(Arc::clone(outer.commits()));
    }

    /// A commit is about to be sent. `false` when it must not be: somebody was told that nothing was applied.
    pub(crate) fn commit_started(&self) -> bool {
        match self.commits().compare_exchange(OPEN, STARTED, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(state) => state == STARTED,
        }
    }

    /// Makes every later commit refuse. `false` when one was started: it is too late to say that nothing was applied.
    pub(crate) fn close_commits(&self) -> bool {
        match self.commits().compare_exchange(OPEN, CLOSED, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(state) => state == CLOSED,
        }
    }

    /// It is about to be shared, or handed to who may share it. `false` when it must not be: a commit that was not
    /// answered may be applied when others read already.
    pub(crate) fn share(&self) -> bool {
        let shared = |state| (state & !SHARED == 0).then_some(SHARED);
        self.unanswered.fetch_update(Ordering::AcqRel, Ordering::Acquire, shared).is_ok()
    }

    /// It was neither shared nor handed over after all.
    pub(crate) fn share_no_more(&self) {
        self.unanswered.fetch_and(!SHARED, Ordering::AcqRel);
    }

    /// The commit of a write is sent next. `false` when it must not be: others may read, here or where it was handed
    /// to.
    #[cfg(feature = "postgres")]
    pub(crate) fn commit_sent(&self) -> bool {
        let one_more = |state| (state & SHARED == 0).then_some(state + 1);
        self.unanswered.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).is_ok()
    }

    /// That commit was answered and what it makes stale is dropped or left to others, or it was not sent after all.
    ///
    /// Never called for one whose fate is unknown: it may be applied at any time.
    #[cfg(feature = "postgres")]
    pub(crate) fn commit_answered(&self) {
        self.unanswered.fetch_sub(1, Ordering::AcqRel);
    }
}
