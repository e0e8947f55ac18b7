use std::{sync::Arc, time::Duration};

use super::{held::Held, outcome::Outcome, run_error::RunError, shared::Shared};
use crate::{
    lock::{Fence, Guard, LockError, Mode, Released},
    resource::{Key, KeyError},
    store::Attempt,
};

/// The leases that may be asked for.
const LEASES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(300));
/// The longest tag, in bytes.
const MAX_TAG: usize = 64;

/// A lock about to be asked for.
///
/// Everything that can be wrong with a request is found before anything is sent.
#[derive(Clone, Debug)]
#[must_use = "a request does nothing until acquired"]
pub struct LockRequest {
    shared: Arc<Shared>,
    key: Result<Key, KeyError>,
    mode: Mode,
    wait: Option<Duration>,
    lease: Duration,
    max_hold: Option<Duration>,
    tag: Arc<str>,
}

impl LockRequest {
    pub(super) fn new(shared: Arc<Shared>, key: Result<Key, KeyError>, mode: Mode) -> Self {
        let lease = shared.lease;
        Self { shared, key, mode, wait: None, lease, max_hold: None, tag: Arc::default() }
    }

    /// How long to wait in the queue; zero tries once. Default: without limit.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// The lease, 100 ms to 5 min, renewed at a third of it while the guard lives. Default 10 s, or what
    /// [`LocksBuilder::lease`](super::LocksBuilder::lease) said.
    ///
    /// It bounds how long a process that died keeps others waiting, not how long the lock can be held.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// The longest hold. At that age the guard is told that it lost the lock, as [`LossReason::Expired`], and the lock
    /// goes to the next in the queue. Default: none.
    ///
    /// [`LossReason::Expired`]: super::LossReason::Expired
    pub fn max_hold(mut self, max: Duration) -> Self {
        self.max_hold = Some(max);
        self
    }

    /// Who asks, shown by [`Locks::inspect`](super::Locks::inspect): at most 64 bytes, no control characters. Default
    /// empty.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tag = tag.into().into();
        self
    }

    /// Waits its turn. Must be polled within a tokio runtime.
    ///
    /// Cancel safe: a future that is dropped leaves neither a queue entry nor a lock behind.
    ///
    /// # Errors
    ///
    /// [`LockError::Key`], [`LockError::Tag`] and [`LockError::Duration`] before anything is sent;
    /// [`LockError::Timeout`], or [`LockError::Busy`] when the wait is zero; [`LockError::QueueFull`];
    /// [`LockError::Unavailable`]; [`LockError::ShuttingDown`].
    pub async fn acquire(self) -> Result<Guard, LockError> {
        let attempt = self.attempt(self.wait.unwrap_or(Duration::MAX))?;
        let outcome = Outcome::begin(attempt.key.label().clone(), self.mode);
        // Taken before the look at `closing`, so that a shutdown waits for every attempt that it did not refuse.
        let counted = self.shared.guards.token();
        let acquired = tokio::select! {
            biased;
            () = self.shared.closing.cancelled() => Err(LockError::ShuttingDown),
            acquired = self.shared.store.acquire(attempt) => acquired,
        };
        match acquired {
            Ok(ownership) => {
                outcome.granted(&ownership);
                Ok(Guard::new(Held::new(self.shared, ownership, self.max_hold, counted)))
            }
            Err(error) => {
                outcome.refused(&error);
                Err(error)
            }
        }
    }

    /// Tries once; `None` when somebody else holds it or waits for it. Cancel safe, as [`LockRequest::acquire`].
    ///
    /// # Errors
    ///
    /// As [`LockRequest::acquire`], but never `Busy`, `Timeout` or `QueueFull`.
    pub async fn try_acquire(self) -> Result<Option<Guard>, LockError> {
        match self.wait(Duration::ZERO).acquire().await {
            Ok(guard) => Ok(Some(guard)),
            Err(LockError::Busy { .. } | LockError::Timeout { .. } | LockError::QueueFull { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Runs `work` under the lock and releases it.
    ///
    /// When the lock is lost, the work is cancelled: its future is dropped where it awaits. Work that has ended is never
    /// reported as cancelled; what its end writes should be fenced, as a handler's. Dropping the returned future drops
    /// the work and releases.
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
    /// let lines = locks.write(&Job("nightly")).run(async |fence| {
    ///     println!("token {}", fence.token());
    ///     std::io::Result::Ok(3)
    /// });
    /// assert_eq!(lines.await?, 3);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`RunError::Lock`] when the work did not start, [`RunError::Lost`] when it was cancelled, [`RunError::Work`] with
    /// its own error. A release that fails afterwards hides neither result nor error: it is logged, and repeated in the
    /// background.
    pub async fn run<F, Fut, T, E>(self, work: F) -> Result<T, RunError<E>>
    where
        F: FnOnce(Fence) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let guard = self.acquire().await?;
        let fence = guard.fence();
        let worked = tokio::select! {
            biased;
            worked = work(guard.fence()) => worked,
            reason = fence.lost() => return Err(RunError::Lost(reason)),
        };
        match guard.release().await {
            Ok(Released::Released | Released::Unknown | Released::StillHeld) => {}
            Ok(Released::Lost) => {
                tracing::warn!(lock = %fence.key().label(), "the lock was lost before the work ended")
            }
            Err(error) => tracing::warn!(lock = %fence.key().label(), %error, "release after work failed"),
        }
        worked.map_err(RunError::Work)
    }

    fn attempt(&self, wait: Duration) -> Result<Attempt, LockError> {
        let (key, mode) = (self.key.clone()?, self.mode);
        if self.tag.len() > MAX_TAG || self.tag.chars().any(char::is_control) {
            return Err(LockError::Tag);
        }
        let (min, max) = LEASES;
        within("lease", self.lease, min, max)?;
        if let Some(max_hold) = self.max_hold {
            within("max_hold", max_hold, Duration::from_millis(1), Duration::MAX)?;
        }
        let (lease, max_waiters, tag) = (self.lease, self.shared.max_waiters, Arc::clone(&self.tag));
        Ok(Attempt { key, mode, lease, wait, max_waiters, tag })
    }
}

fn within(what: &'static str, given: Duration, min: Duration, max: Duration) -> Result<(), LockError> {
    if (min..=max).contains(&given) { Ok(()) } else { Err(LockError::Duration { what, given, min, max }) }
}
