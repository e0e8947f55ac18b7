use std::{sync::Arc, time::Duration};

use tracing::Instrument;

use super::{
    delegations::Delegations,
    held_lock::HeldLock,
    outcome::{self, Outcome},
    run_error::RunError,
    shared::Shared,
    terms::{Terms, request_setters},
};
use crate::{
    lock::{Fence, Guard, LockError, LossReason, Mode, Released},
    resource::{Key, KeyError, Label},
    spans,
    store::Attempt,
};

/// A request for a lock, to be set up and then acquired.
///
/// Invalid settings are found before anything is sent.
#[derive(Clone, Debug)]
#[must_use = "a request does nothing until acquired"]
pub struct LockRequest {
    shared: Arc<Shared>,
    key: Result<Key, KeyError>,
    mode: Mode,
    delegate: bool,
    terms: Terms,
}

request_setters!(LockRequest);

impl LockRequest {
    pub(super) fn new(shared: Arc<Shared>, key: Result<Key, KeyError>, mode: Mode) -> Self {
        let terms = Terms::new(shared.lease);
        Self { shared, key, mode, delegate: false, terms }
    }

    /// How many holders a semaphore may have at the same time, for [`Mode::Permit`].
    pub(crate) fn permits(mut self, permits: u32) -> Self {
        self.terms.permits = permits;
        self
    }

    /// Lets this read share one ownership, a delegation, with other readers of these locks. The process keeps the
    /// delegation until somebody else wants the resource; meanwhile a read neither sends nor waits. Ignored for writes
    /// and permits, where [`LocksBuilder::delegate`](super::LocksBuilder::delegate) is off, and where the store has no
    /// delegations.
    ///
    /// - The readers of a delegation have its token and its tag, `delegation`. They all lose the lock when the
    ///   delegation is lost. Each reader keeps its own longest hold.
    /// - Their guards cannot be [handed over](Guard::hand_over).
    /// - Readers that wait together have one place in the queue. It ends a moment after the last of them has left. On a
    ///   connection that is crowded, they wait to be sent as long as the first of them.
    /// - A reader that joins an attempt of its process overtakes the writers that queued behind that attempt, once.
    /// - A read with a wait of zero does not begin a delegation, and does not join an attempt; it may enter a live
    ///   delegation.
    /// - A read whose lease is shorter than that of the delegation does not share it.
    pub fn delegate(mut self) -> Self {
        self.delegate = true;
        self
    }

    /// Acquires the lock, and waits in the queue for it. Must be polled within a tokio runtime.
    ///
    /// Cancel safe: a future that is dropped leaves neither a queue entry nor a lock behind.
    ///
    /// # Errors
    ///
    /// - [`LockError::Key`], [`LockError::Tag`], [`LockError::Duration`] and [`LockError::Permits`], before anything is
    ///   sent.
    /// - [`LockError::Capacity`], for a semaphore.
    /// - [`LockError::Timeout`], or [`LockError::Busy`] when the wait is zero.
    /// - [`LockError::QueueFull`], [`LockError::Unavailable`], [`LockError::Foreign`] and [`LockError::ShuttingDown`].
    /// - [`LockError::Unsupported`], for a read lock or a permit on a quorum.
    #[doc(alias = "lock")]
    pub async fn acquire(self) -> Result<Guard, LockError> {
        if let Some(guard) = self.enter() {
            return Ok(guard);
        }
        let mut attempt = self.terms.attempt(self.key?, self.mode, self.shared.max_waiters)?;
        if let Some(delegations) = &self.shared.delegations {
            if self.mode != Mode::Read {
                delegations.recall(&attempt.key);
            } else if self.delegate
                && let Some(guard) = together(&self.shared, delegations, &mut attempt, self.terms.max_hold).await?
            {
                return Ok(guard);
            }
        }
        // Taken before the look at `closing`, and given back after the attempt is counted, so that a shutdown waits for
        // both.
        let counted = self.shared.guards.token();
        let mut outcome = Outcome::begin(self.shared.series.of(attempt.key.label(), self.mode));
        let waiting = spans::lock_wait(attempt.key.label(), self.mode);
        let acquired = tokio::select! {
            biased;
            () = self.shared.closing.cancelled() => Err(LockError::ShuttingDown),
            acquired = self.shared.store.acquire(attempt).instrument(waiting) => acquired,
        };
        let ownership = acquired.inspect_err(|error| outcome.refused(error))?;
        outcome.granted(&ownership);
        Ok(Guard::new(HeldLock::new(self.shared, ownership, self.terms.max_hold, counted)))
    }

    /// What [`LockRequest::acquire`] returns where nobody has to be asked: a reader's part in a live delegation.
    pub(crate) fn enter(&self) -> Option<Guard> {
        let delegations = self.shared.delegations.as_ref().filter(|_| self.delegate && self.mode == Mode::Read)?;
        let key = self.key.as_ref().ok()?;
        self.terms.check(self.mode).ok()?;
        // Taken before it enters: a shutdown that finds it inside waits for it.
        let counted = self.shared.guards.token();
        let inside = delegations.enter(key, self.terms.lease, self.terms.max_hold)?;
        let series = self.shared.series.of(key.label(), self.mode);
        outcome::entered(&series);
        Some(Guard::new(HeldLock::shared(Arc::clone(&self.shared), inside, series, counted)))
    }

    /// Tries once, whatever [`LockRequest::wait`] was set to. `None` when somebody else holds the lock or waits for it.
    /// Cancel safe, as [`LockRequest::acquire`].
    ///
    /// # Errors
    ///
    /// As [`LockRequest::acquire`], but never `Busy`, `Timeout` or `QueueFull`.
    #[doc(alias = "try_lock")]
    pub async fn try_acquire(self) -> Result<Option<Guard>, LockError> {
        tried(self.wait(Duration::ZERO).acquire().await)
    }

    /// Runs `work` under the lock, releases the lock, and returns what the work returned.
    ///
    /// When the lock is lost, the work is cancelled: its future is dropped at its current await. Work that has ended is
    /// never reported as cancelled, so fence the writes at the end of the work, as in a handler. Dropping the returned
    /// future drops the work and releases the lock.
    ///
    /// ```
    /// # use stockade::{Locks, resource::Key, Resource};
    /// # struct Job(&'static str);
    /// # impl Resource for Job {
    /// #     const KIND: &'static str = "job";
    /// #     fn id(&self) -> std::borrow::Cow<'_, str> { self.0.into() }
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let locks = Locks::memory();
    /// let parsed = locks.write(&Job("nightly")).run(async |fence| {
    ///     println!("token {}", fence.token());
    ///     "3".parse::<u32>()
    /// });
    /// assert_eq!(parsed.await??, 3); // the one `?` is for the lock, the other for the work
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`RunError::Lock`] when the work did not start, [`RunError::Lost`] when it was cancelled. A release that fails
    /// afterwards does not change the result of the work: the failure is logged, and the release is repeated in the
    /// background.
    pub async fn run<F, Fut>(self, work: F) -> Result<Fut::Output, RunError>
    where
        F: FnOnce(Fence) -> Fut,
        Fut: Future,
    {
        let guard = self.acquire().await?;
        let fence = guard.fence();
        run_under(fence.key().label(), work(guard.fence()), fence.lost(), guard.release()).await
    }
}

/// A reader's part in a delegation that is live or asked for; `None` when it is to lock by itself, with what is left of
/// its wait.
async fn together(
    shared: &Arc<Shared>,
    delegations: &Arc<Delegations>,
    attempt: &mut Attempt,
    max_hold: Option<Duration>,
) -> Result<Option<Guard>, LockError> {
    let series = shared.series.of(attempt.key.label(), attempt.mode);
    // Taken before the look at `closing`, and given back after the attempt is counted, so that a shutdown waits for both.
    let counted = shared.guards.token();
    let mut outcome = Outcome::begin(Arc::clone(&series));
    let waiting = spans::lock_wait(attempt.key.label(), attempt.mode);
    let entered = tokio::select! {
        biased;
        () = shared.closing.cancelled() => Err(LockError::ShuttingDown),
        entered = delegations.share(attempt, max_hold).instrument(waiting) => entered,
    };
    let Some(inside) = entered.inspect_err(|error| outcome.refused(error))? else {
        outcome.withdraw();
        return Ok(None);
    };
    outcome.delegated();
    Ok(Some(Guard::new(HeldLock::shared(Arc::clone(shared), inside, series, counted))))
}

/// What became of an attempt that was made once.
pub(super) fn tried<G>(acquired: Result<G, LockError>) -> Result<Option<G>, LockError> {
    match acquired {
        Ok(guard) => Ok(Some(guard)),
        Err(LockError::Busy { .. } | LockError::Timeout { .. } | LockError::QueueFull { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Drops the work when the lock is lost before its end, and the release with it, which owns the guard. A release that
/// goes wrong after the work is logged: the result stands.
pub(super) async fn run_under<T>(
    lock: &Label,
    work: impl Future<Output = T>,
    lost: impl Future<Output = LossReason>,
    release: impl Future<Output = Result<Released, LockError>>,
) -> Result<T, RunError> {
    let worked = tokio::select! {
        biased;
        worked = work => worked,
        reason = lost => return Err(RunError::Lost(reason)),
    };
    match release.await {
        Ok(Released::Released | Released::Unknown | Released::StillHeld) => {}
        Ok(Released::Lost) => tracing::warn!(%lock, "the lock was lost before the work ended"),
        Err(error) => tracing::warn!(%lock, %error, "release after work failed"),
    }
    Ok(worked)
}
