use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU8, AtomicU32, Ordering},
};

/// The commits under one ownership: whether one was sent, and how many the database has not answered.
#[derive(Debug, Default)]
pub(crate) struct Commits {
    /// [`OPEN`], [`STARTED`] or [`CLOSED`]. Shared with the ownerships around this one, because a commit under any of
    /// them counts for all.
    state: OnceLock<Arc<AtomicU8>>,
    /// The number of commits of writes under this ownership that the database has not answered, and [`SHARED`].
    unanswered: AtomicU32,
}

/// The ownership is shared or handed over, or is about to be: no write may be committed under it.
const SHARED: u32 = 1 << 31;

/// No commit was sent under the ownership yet.
const OPEN: u8 = 0;
/// A commit was sent. From then on nobody can say that nothing was applied.
const STARTED: u8 = 1;
/// Somebody was told that nothing was applied. From then on no commit may be sent.
const CLOSED: u8 = 2;

impl Commits {
    fn state(&self) -> &Arc<AtomicU8> {
        self.state.get_or_init(|| Arc::new(AtomicU8::new(OPEN)))
    }

    /// Makes the work under this ownership part of the work under the ownership of `outer`: a commit under either
    /// counts for both. Must be called before anybody is given this ownership.
    pub(crate) fn within(&self, outer: &Self) {
        // The cell is filled when a commit is first started or ruled out. Nobody can have done either yet.
        let _ = self.state.set(Arc::clone(outer.state()));
    }

    /// Records that a commit is about to be sent. Returns `false` when the commit must not be sent, because somebody
    /// was told that nothing was applied.
    pub(crate) fn start(&self) -> bool {
        match self.state().compare_exchange(OPEN, STARTED, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(state) => state == STARTED,
        }
    }

    /// Refuses every later commit. Returns `false` when a commit was started already: then it is too late to say that
    /// nothing was applied.
    pub(crate) fn close(&self) -> bool {
        match self.state().compare_exchange(OPEN, CLOSED, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(state) => state == CLOSED,
        }
    }

    /// Whether every later commit is refused.
    #[cfg(feature = "postgres")]
    pub(crate) fn are_closed(&self) -> bool {
        self.state.get().is_some_and(|state| state.load(Ordering::Acquire) == CLOSED)
    }

    /// Records that the ownership is about to be shared, or handed to a process that may share it. Returns `false` when
    /// it must not be, because a commit that was not answered may be applied when others already read.
    pub(crate) fn share(&self) -> bool {
        let shared = |state| (state & !SHARED == 0).then_some(SHARED);
        self.unanswered.fetch_update(Ordering::AcqRel, Ordering::Acquire, shared).is_ok()
    }

    /// Takes [`Commits::share`] back: the ownership was neither shared nor handed over after all.
    pub(crate) fn share_no_more(&self) {
        self.unanswered.fetch_and(!SHARED, Ordering::AcqRel);
    }

    /// Records that the commit of a write is sent next. Returns `false` when the commit must not be sent, because
    /// others may read, here or in the process that the ownership was handed to.
    #[cfg(feature = "postgres")]
    pub(crate) fn sent(&self) -> bool {
        let one_more = |state| (state & SHARED == 0).then_some(state + 1);
        self.unanswered.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).is_ok()
    }

    /// Records that the commit was answered, and that what it makes stale is dropped or left to others. Also called
    /// when the commit was not sent after all.
    ///
    /// Never called for a commit whose outcome is unknown, since that commit may be applied at any time.
    #[cfg(feature = "postgres")]
    pub(crate) fn answered(&self) {
        self.unanswered.fetch_sub(1, Ordering::AcqRel);
    }
}
