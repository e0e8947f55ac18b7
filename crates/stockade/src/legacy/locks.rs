use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use tokio::runtime::Handle;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    SetnxError, SetnxLock, Unit,
    core::{Core, RELEASE},
};
use crate::{
    clock::Instant,
    redis::{Handshake, Link, LinkError, LinkEvents, Redis, Script, Up},
};

static SCRIPTS: &[&Script] = &[&RELEASE];

/// The entrance to classic locks on one Redis. Cheap to clone.
#[derive(Clone, Debug)]
pub struct SetnxLocks {
    core: Arc<Core>,
    unit: Unit,
}

impl SetnxLocks {
    /// Locks whose keys hold seconds. Must be called within a tokio runtime, on which releases in the background run.
    ///
    /// # Errors
    ///
    /// [`SetnxError::Cluster`]: the keys are one per lock and could be kept in a cluster, but which of its nodes has a key is
    /// known only to [`Locks`](crate::Locks).
    pub fn new(redis: &Redis) -> Result<Self, SetnxError> {
        if redis.is_cluster() {
            return Err(SetnxError::Cluster);
        }
        let core = Core {
            link: Link::new(redis, "legacy", Vec::new(), SCRIPTS, Arc::new(Deaf)).started(),
            own_keys: redis.key_prefix().clone(),
            closing: CancellationToken::new(),
            tasks: TaskTracker::new(),
            runtime: Handle::current(),
        };
        Ok(Self { core: Arc::new(core), unit: Unit::default() })
    }

    /// What the time in the keys is counted in. Default [`Unit::Seconds`].
    #[must_use]
    pub fn unit(mut self, unit: Unit) -> Self {
        self.unit = unit;
        self
    }

    /// The lock with exactly this key, no prefix added: 1 to 512 bytes, and none of Stockade's own.
    pub fn lock(&self, key: impl Into<String>) -> SetnxLock {
        SetnxLock::new(Arc::clone(&self.core), key.into(), self.unit)
    }

    /// No new grants and an end of all waits, with [`SetnxError::ShuttingDown`]; waits up to
    /// `limit` for releases under way. Guards that live on keep their locks until their time is over.
    pub async fn shutdown(&self, limit: Duration) {
        let end = Instant::now() + limit;
        self.core.closing.cancel();
        self.core.tasks.close();
        let _ = tokio::time::timeout(end.remaining(), self.core.tasks.wait()).await;
        self.core.link.shutdown(end.remaining()).await;
    }
}

/// This link subscribes to nothing.
struct Deaf;

impl LinkEvents for Deaf {
    fn message(&self, _channel: &str, _payload: &[u8]) {}

    fn prepare<'a>(&'a self, _up: &'a Up, _handshake: &'a mut Handshake) -> BoxFuture<'a, Result<(), LinkError>> {
        Box::pin(async { Ok(()) })
    }

    fn opened(&self, _up: &Up) {}

    fn closed(&self) {}
}
