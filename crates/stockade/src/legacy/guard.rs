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

/// Between two looks for a connection that a release can go out on.
const PAUSE: Duration = Duration::from_millis(50);

/// A classic lock that is held, until it is released or its lease is over. Nothing renews it.
///
/// Dropping it releases in the background, also outside of a runtime; [`SetnxGuard::release`] reports what happened.
#[must_use = "dropping the guard releases the lock"]
pub struct SetnxGuard {
    /// Gone once a release is on its way.
    lease: Option<Lease>,
    core: Arc<Core>,
}

/// What was taken.
struct Lease {
    key: String,
    unit: Unit,
    length: Duration,
    /// Its end by the monotonic clock, from when the command was sent.
    until: Instant,
    /// Its end as it stands in the key.
    end: u64,
}

impl Lease {
    /// By the earlier of both clocks.
    fn remaining(&self) -> Duration {
        self.until.remaining().min(self.unit.until(self.end))
    }

    fn args(&self) -> Vec<Vec<u8>> {
        let later = self.end + self.unit.lease(self.length);
        let number = |number: u128| number.to_string().into_bytes();
        vec![number(self.end.into()), number(later.into()), number(self.unit.length().as_micros())]
    }

    /// Sends the release once. It is not repeated when its answer is lost: should the first have worked, the key may be
    /// that of somebody whose time is the same by now.
    async fn give_back(self, core: &Core) -> Result<Released, SetnxError> {
        while !self.remaining().is_zero() {
            let make = |sha: &str| evalsha(sha, vec![self.key.clone()], self.args());
            match core.link.call_regardless(&RELEASE, &make).await {
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

    /// The key.
    #[must_use]
    pub fn key(&self) -> &str {
        self.lease.as_ref().map_or("", |lease| &lease.key)
    }

    /// Whether the lease is not over, by the clocks of this process.
    #[must_use]
    pub fn is_held(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// What is left of the lease, by the clocks of this process; zero when it is over. It never grows.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.lease.as_ref().map(Lease::remaining).unwrap_or_default()
    }

    /// Releases and reports what was found. [`Released::Lost`] when the lease was over, and then nothing is sent: the
    /// lock may be somebody else's.
    ///
    /// Dropping the returned future leaves the release to the background.
    ///
    /// # Errors
    ///
    /// [`SetnxError::Unavailable`] when Redis did not answer within one command time-out; at the latest the lock ends
    /// with its time.
    pub async fn release(mut self) -> Result<Released, SetnxError> {
        let (done, outcome) = oneshot::channel();
        self.give_back(Some(done));
        // What goes on longer does so in the background.
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
