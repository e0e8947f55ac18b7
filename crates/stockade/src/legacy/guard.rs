use std::{fmt, sync::Arc, time::Duration};

use redis::Value;
use tokio::{
    sync::oneshot,
    time::{sleep, timeout},
};

use super::{
    SetnxError, Unit,
    core::{Core, RELEASE},
};
use crate::{
    clock::Instant,
    lock::{Released, Unavailable},
    redis::{LinkError, evalsha},
};

/// The pause between two tries to send a release that was not executed.
const PAUSE: Duration = Duration::from_millis(50);

/// A classic lock that this process holds, until the lock is released or its lease is over. Nothing renews the lease.
///
/// Dropping the guard releases the lock in the background, even outside of a runtime. [`SetnxGuard::release`] also
/// reports the outcome.
#[must_use = "dropping the guard releases the lock"]
pub struct SetnxGuard {
    /// `None` once a release has begun.
    lease: Option<Lease>,
    core: Arc<Core>,
}

struct Lease {
    key: String,
    unit: Unit,
    length: Duration,
    /// The end of the lease by the monotonic clock, counted from when the command was sent.
    until: Instant,
    /// The end of the lease as the key holds it, in units.
    end: u64,
}

impl Lease {
    /// The time until the earlier of the two ends.
    fn remaining(&self) -> Duration {
        self.until.remaining().min(self.unit.until(self.end))
    }

    fn args(&self) -> Vec<Vec<u8>> {
        let later = self.end + self.unit.lease(self.length);
        let number = |number: u128| number.to_string().into_bytes();
        vec![number(self.end.into()), number(later.into()), number(self.unit.length().as_micros())]
    }

    /// Releases the lock. The release is repeated only if it was certainly not executed. If its answer is lost, the
    /// first release may have worked, and another client with the same time may hold the key by now.
    async fn give_back(self, core: &Core) -> Result<Released, SetnxError> {
        while !self.remaining().is_zero() {
            let make = |sha: &str| evalsha(sha, vec![self.key.clone()], self.args());
            match core.link.call_regardless(&RELEASE, &make, None).await {
                Ok(Value::Int(1)) => return Ok(Released::Released),
                Ok(_) => return Ok(Released::Lost),
                // Not executed.
                Err(LinkError::NoScript | LinkError::Down | LinkError::Unsent { .. }) => sleep(PAUSE).await,
                Err(error) => return Err(SetnxError::of(&error, self.unit, core.link.unfit())),
            }
        }
        Ok(Released::Lost)
    }
}

impl SetnxGuard {
    pub(super) fn new(core: Arc<Core>, key: String, unit: Unit, length: Duration, until: Instant, end: u64) -> Self {
        Self { lease: Some(Lease { key, unit, length, until, end }), core }
    }

    /// The key of the lock.
    #[must_use]
    pub fn key(&self) -> &str {
        self.lease.as_ref().map_or("", |lease| &lease.key)
    }

    /// Whether the lease is not over, by the clocks of this process.
    #[must_use]
    pub fn is_held(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// The time left of the lease, by the clocks of this process. Zero if the lease is over. Nothing extends the lease.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.lease.as_ref().map(Lease::remaining).unwrap_or_default()
    }

    /// Releases the lock and reports the outcome. Returns [`Released::Lost`] if the key was gone or held another
    /// client's time. If the lease was over, nothing is sent: the lock may be another client's.
    ///
    /// If the returned future is dropped, the release goes on in the background.
    ///
    /// # Errors
    ///
    /// [`SetnxError::Unavailable`] if Redis did not answer within one command timeout, [`SetnxError::ShuttingDown`] if
    /// the runtime ends, [`SetnxError::Value`] if the key holds no text. The lock ends with its time at the latest.
    pub async fn release(mut self) -> Result<Released, SetnxError> {
        let (done, outcome) = oneshot::channel();
        self.give_back(Some(done));
        // After the timeout the release goes on in the background.
        match timeout(self.core.link.timeout(), outcome).await {
            Ok(Ok(released)) => released,
            Ok(Err(_)) => Err(SetnxError::ShuttingDown),
            Err(_) => {
                let retry_after = Duration::from_secs(1);
                Err(SetnxError::Unavailable { reason: Unavailable::Timeout, retry_after })
            }
        }
    }

    fn give_back(&mut self, done: Option<oneshot::Sender<Result<Released, SetnxError>>>) {
        let Some(lease) = self.lease.take() else { return };
        let core = Arc::clone(&self.core);
        self.core.spawn(async move {
            let released = lease.give_back(&core).await;
            if let Err(error) = &released {
                tracing::debug!(%error, "a classic lock was not released; it ends with its time");
            }
            if let Some(done) = done {
                let _ = done.send(released);
            }
        });
    }
}

impl Drop for SetnxGuard {
    fn drop(&mut self) {
        self.give_back(None);
    }
}

impl fmt::Debug for SetnxGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SetnxGuard")
            .field("key", &self.key())
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}
