use std::{sync::Arc, time::Duration};

use rand::Rng;
use tokio::time::sleep;

use super::{SetnxError, SetnxGuard, Unit, attempt::Tried, core::Core};
use crate::clock::Instant;

/// The shortest and the longest lease.
const LEASES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));
const LONGEST_WAIT: Duration = Duration::from_secs(3600);
const LONGEST_KEY: usize = 512;
/// The shortest and the longest pause between two tries. It is random, so that waiters do not ask at the same time.
const PAUSES: (Duration, Duration) = (Duration::from_millis(25), Duration::from_millis(100));

/// A request for a classic lock, from [`SetnxLocks::lock`](super::SetnxLocks::lock).
#[derive(Clone, Debug)]
#[must_use = "a lock is not held until acquired"]
pub struct SetnxLock {
    pub(super) core: Arc<Core>,
    pub(super) key: String,
    pub(super) unit: Unit,
    pub(super) lease: Duration,
    wait: Duration,
}

impl SetnxLock {
    pub(super) fn new(core: Arc<Core>, key: String, unit: Unit) -> Self {
        Self { core, key, unit, lease: Duration::from_secs(10), wait: Duration::from_secs(10) }
    }

    /// The lease, 1 s to 5 min. Nothing renews the lease. Default 10 s.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// How long to try, up to an hour. Zero tries once. Default 10 s.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Tries until the lock is held or the wait is over. Must be polled within a tokio runtime.
    ///
    /// Cancel safe: if a dropped future has taken the lock, the lock is released as soon as Redis has answered.
    ///
    /// # Errors
    ///
    /// - [`SetnxError::Key`] or [`SetnxError::Duration`]: nothing was sent.
    /// - [`SetnxError::Timeout`]: the wait ended while others held the lock.
    /// - [`SetnxError::Value`]: the key holds no time in the configured unit.
    /// - [`SetnxError::Unavailable`]: Redis gave no usable answer. The lock may be taken, with no holder, until its
    ///   time is over.
    /// - [`SetnxError::ShuttingDown`]
    pub async fn acquire(self) -> Result<SetnxGuard, SetnxError> {
        self.check()?;
        let since = Instant::now();
        let until = since + self.wait;
        self.core.link.attempted().await;
        loop {
            if self.core.closing.is_cancelled() {
                return Err(SetnxError::ShuttingDown);
            }
            let remaining = match self.clone().attempt().await? {
                Tried::Held(guard) => return Ok(guard),
                Tried::Busy { remaining } => remaining,
            };
            let left = until.remaining();
            if left.is_zero() {
                return Err(SetnxError::Timeout { waited: since.elapsed(), remaining });
            }
            let pause = rand::rng().random_range(PAUSES.0..=PAUSES.1);
            tokio::select! {
                () = self.core.closing.cancelled() => return Err(SetnxError::ShuttingDown),
                () = sleep(pause.min(left)) => {}
            }
        }
    }

    /// Tries once. Returns `None` if somebody holds the lock. Cancel safe, like [`SetnxLock::acquire`].
    ///
    /// # Errors
    ///
    /// The same as of [`SetnxLock::acquire`], except `Timeout`.
    pub async fn try_acquire(self) -> Result<Option<SetnxGuard>, SetnxError> {
        match self.wait(Duration::ZERO).acquire().await {
            Ok(guard) => Ok(Some(guard)),
            Err(SetnxError::Timeout { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn check(&self) -> Result<(), SetnxError> {
        if self.key.is_empty() {
            return Err(SetnxError::Key("is empty"));
        }
        if self.key.len() > LONGEST_KEY {
            return Err(SetnxError::Key("has more than 512 bytes"));
        }
        if self.key.starts_with(&self.core.own_keys.to_string()) {
            return Err(SetnxError::Key("is one of Stockade's own: use another, or another namespace"));
        }
        within("lease", self.lease, LEASES.0, LEASES.1)?;
        within("wait", self.wait, Duration::ZERO, LONGEST_WAIT)
    }
}

fn within(what: &'static str, given: Duration, min: Duration, max: Duration) -> Result<(), SetnxError> {
    if (min..=max).contains(&given) { Ok(()) } else { Err(SetnxError::Duration { what, given, min, max }) }
}
