use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::sync::Notify;

use super::{
    LockError, LockEvent, LockEventKind, LossReason, Mode, Observer, Owner, Readers, Recall, Token, commits::Commits,
};
use crate::{clock::Instant, metrics, resource::Key};

/// One ownership of a resource: its owner, its token, its deadline, and the signal that it ended early.
///
/// Shared by the guard, its fences, the renewal task and the store.
#[derive(Debug)]
pub(crate) struct Ownership {
    pub(crate) key: Key,
    pub(crate) owner: Owner,
    /// Fences read the mode, too, since an exclusive ownership may have become shared.
    mode: AtomicU8,
    /// Whether the store said that it shares what was exclusive.
    downgraded: AtomicBool,
    /// Set after the store was asked to change the mode, until it is known whether the store did.
    between_modes: AtomicBool,
    pub(crate) token: Token,
    pub(crate) lease: Duration,
    /// For a hand-off, the time from the release to the arrival of the grant, as far as the store can tell.
    pub(crate) handed_off: Option<Duration>,
    /// The time from which the holder must treat the lease as expired, in nanoseconds of [`Instant`].
    deadline: AtomicU64,
    /// The time since which this process knows that the resource is held in this mode, in nanoseconds of [`Instant`].
    since: AtomicU64,
    /// For a reader under a delegation: the ownership that it shares with other readers of this process. The reader has
    /// the owner, the token and the lease of that ownership.
    within: Option<Arc<Self>>,
    /// For an ownership that readers of this process share: the readers that are inside.
    readers: Option<Arc<Readers>>,
    lost: OnceLock<LossReason>,
    /// Wakes the tasks that wait for a loss.
    told: Notify,
    /// Set when the holder gives the ownership back. What the store says afterwards is no loss.
    released: AtomicBool,
    pub(crate) commits: Commits,
    /// Whom its loss is told to, once its grant was.
    observer: OnceLock<Observer>,
}

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
        // Now is late enough: the ownership is made from the reply, or from the message of a grant that was handed
        // over.
        let since = AtomicU64::new(Instant::now().as_nanos());
        let (released, commits) = (AtomicBool::new(false), Commits::default());
        let mode = AtomicU8::new(mode as u8);
        let (downgraded, between_modes) = (AtomicBool::new(false), AtomicBool::new(false));
        Self {
            key,
            owner,
            mode,
            downgraded,
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
            observer: OnceLock::new(),
        }
    }

    /// Lets these readers of this process share the ownership.
    pub(crate) fn shared_by(self, readers: Option<Arc<Readers>>) -> Self {
        Self { readers, ..self }
    }

    /// The ownership of one of the readers that share `delegation`. The reader may hold it until `ends_at`; `None` sets
    /// no limit of its own.
    pub(crate) fn of_reader(delegation: &Arc<Self>, ends_at: Option<Instant>) -> Self {
        let Self { key, owner, token, lease, .. } = delegation.as_ref();
        let ends_at = ends_at.unwrap_or(Instant::from_nanos(u64::MAX));
        let reader = Self::new(key.clone(), owner.clone(), Mode::Read, *token, *lease, ends_at, None);
        let since = AtomicU64::new(delegation.since.load(Ordering::Acquire));
        Self { within: Some(Arc::clone(delegation)), since, ..reader }
    }

    /// Tells the observer of the grant now, and of the loss when it comes.
    pub(crate) fn granted(&self, observer: &Observer, waited: Duration) {
        // Set first: a loss that comes now is told too.
        let is_first = self.observer.set(observer.clone()).is_ok();
        if is_first {
            observer.tell(&self.event(LockEventKind::Granted { waited, handed_off: self.handed_off }));
        }
    }

    fn event(&self, kind: LockEventKind) -> LockEvent<'_> {
        LockEvent { resource: self.key.as_str(), mode: self.mode(), token: self.token, kind }
    }

    pub(crate) fn readers(&self) -> Option<&Readers> {
        self.readers.as_deref()
    }

    /// Lets no more readers of this process enter, if they share this ownership.
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
            // Stored before the mode, so that a task that sees the new mode also sees the new time.
            self.since.fetch_max(Instant::now().as_nanos(), Ordering::AcqRel);
        }
        self.mode.store(mode as u8, Ordering::Release);
    }

    /// Records that the store shares what was exclusive.
    pub(crate) fn downgraded(&self) {
        self.downgraded.store(true, Ordering::Release);
    }

    pub(crate) fn was_downgraded(&self) -> bool {
        self.downgraded.load(Ordering::Acquire)
    }

    pub(crate) fn deadline(&self) -> Instant {
        let own = Instant::from_nanos(self.deadline.load(Ordering::Acquire));
        self.within.as_ref().map_or(own, |within| own.min(within.deadline()))
    }

    /// Moves the deadline forward. Never moves it back, so that a late reply to an older renewal changes nothing.
    pub(crate) fn extend(&self, deadline: Instant) {
        self.deadline.fetch_max(deadline.as_nanos(), Ordering::AcqRel);
    }

    /// The time since which no writer can have been granted the resource. `None` unless the ownership is shared, and
    /// neither lost nor given back at this moment. For an ownership that was exclusive before, it is the time since
    /// which the ownership is shared.
    #[cfg(any(test, feature = "axum"))]
    pub(crate) fn shared_since(&self) -> Option<Instant> {
        let held = self.mode() == Mode::Read && !self.is_given_back() && self.loss().is_none();
        held.then(|| Instant::from_nanos(self.since.load(Ordering::Acquire)))
    }

    /// Whether the ownership is exclusive, and neither lost nor given back at this moment.
    #[cfg(feature = "postgres")]
    pub(crate) fn is_exclusive(&self) -> bool {
        self.mode() == Mode::Write && !self.is_given_back() && self.loss().is_none()
    }

    /// Why the ownership was lost: the reason that the store gave, or [`LossReason::Expired`] if the deadline has
    /// passed.
    pub(crate) fn loss(&self) -> Option<LossReason> {
        let told = self.lost.get().or_else(|| self.within.as_ref()?.lost.get()).copied();
        told.or_else(|| (Instant::now() >= self.deadline()).then_some(LossReason::Expired))
    }

    /// Why it ended for its holder: as [`Ownership::loss`], and [`LossReason::Released`] once it was given back. What
    /// comes after that changes nothing.
    pub(crate) fn end(&self) -> Option<LossReason> {
        let told = self.lost.get().copied();
        told.or_else(|| if self.is_given_back() { Some(LossReason::Released) } else { self.loss() })
    }

    /// The error for an operation that needed this ownership, after the ownership was lost.
    pub(crate) fn lost_error(&self) -> LockError {
        LockError::Lost { key: self.key.clone(), reason: self.loss().unwrap_or(LossReason::Stolen) }
    }

    /// Records the loss. The first reason stays.
    ///
    /// Losses are counted only here, so that each loss counts once, even if several tasks notice it.
    pub(crate) fn lose(&self, reason: LossReason) {
        // What is said of it after its release is no loss.
        if self.is_given_back() || self.lost.set(reason).is_err() {
            return;
        }
        self.recall(Recall::Lost);
        self.told.notify_waiters();
        // A loss of a shared ownership is a loss to each reader inside, and each of these counts for itself.
        if self.readers.is_none() && !self.is_given_back() {
            let tags = [("lock", self.key.label().clone()), metrics::tag("reason", reason.as_str())];
            metrics::count(metrics::LOCK_LOST, &tags);
            tracing::warn!(lock = %self.key.label(), token = %self.token, reason = reason.as_str(), "lock lost");
            if let Some(observer) = self.observer.get() {
                observer.tell(&self.event(LockEventKind::Lost(reason)));
            }
        }
    }

    /// The holder gives the ownership back. From here on nothing renews it, and its end is no loss. Returns whether
    /// this call was the first.
    pub(crate) fn give_back(&self) -> bool {
        if self.within.is_some() {
            // The other readers go on renewing the ownership that this reader shared, so this reader keeps only the
            // deadline that it had.
            self.deadline.fetch_min(self.deadline().as_nanos(), Ordering::AcqRel);
        }
        let is_first = !self.released.swap(true, Ordering::AcqRel);
        self.told.notify_waiters();
        is_first
    }

    /// Records that another process may have it from now on. That is no loss. Nobody sees it as given back.
    pub(crate) fn hand_over(&self) {
        let _ = self.lost.set(LossReason::HandedOver);
        self.recall(Recall::Lost);
        self.give_back();
    }

    /// Whether the holder has given it back.
    pub(crate) fn is_given_back(&self) -> bool {
        self.released.load(Ordering::Acquire)
    }

    /// Resolves when the holder gives the ownership back. Cancel safe.
    pub(crate) async fn given_back(&self) {
        loop {
            let told = self.told.notified();
            if self.is_given_back() {
                return;
            }
            told.await;
        }
    }

    /// Resolves when the store reports a loss. The deadline is not watched here. The renewal task calls
    /// [`Ownership::lose`] when the deadline passes.
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
}
