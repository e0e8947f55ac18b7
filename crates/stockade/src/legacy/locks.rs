use std::{sync::Arc, time::Duration};

use tokio::runtime::Handle;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    SetnxError, SetnxLock, Unit,
    core::{Core, RELEASE, TAKE_OVER},
};
use crate::{
    clock::Instant,
    redis::{Link, Redis, Script},
};

static SCRIPTS: &[&Script] = &[&TAKE_OVER, &RELEASE];

/// Makes classic locks on one Redis. Cheap to clone.
#[derive(Clone, Debug)]
pub struct SetnxLocks {
    core: Arc<Core>,
    unit: Unit,
}

impl SetnxLocks {
    /// Classic locks whose keys hold seconds. The present tokio runtime runs their releases in the background.
    ///
    /// # Errors
    ///
    /// [`SetnxError::Cluster`] if the Redis is a cluster. Only [`Locks`](crate::Locks) can find the node that has a
    /// key.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn new(redis: &Redis) -> Result<Self, SetnxError> {
        if redis.is_cluster() {
            return Err(SetnxError::Cluster);
        }
        let core = Core {
            link: Link::new(redis, "legacy", Vec::new(), SCRIPTS, Arc::new(())).started(),
            own_keys: redis.key_prefix().clone(),
            closing: CancellationToken::new(),
            tasks: TaskTracker::new(),
            runtime: Handle::current(),
        };
        Ok(Self { core: Arc::new(core), unit: Unit::default() })
    }

    /// The unit of the times in the keys. Default [`Unit::Seconds`].
    #[must_use]
    pub fn unit(mut self, unit: Unit) -> Self {
        self.unit = unit;
        self
    }

    /// The lock with exactly this key; no prefix is added. The key has 1 to 512 bytes and is not in Stockade's own
    /// namespace.
    pub fn lock(&self, key: impl Into<String>) -> SetnxLock {
        SetnxLock::new(Arc::clone(&self.core), key.into(), self.unit)
    }

    /// Ends all waits and refuses new attempts, with [`SetnxError::ShuttingDown`]. Then waits up to `limit` for
    /// releases under way. A guard that lives on keeps its lock until the lock's time is over.
    pub async fn shutdown(&self, limit: Duration) {
        let end = Instant::now() + limit;
        self.core.closing.cancel();
        self.core.tasks.close();
        let _ = tokio::time::timeout(end.remaining(), self.core.tasks.wait()).await;
        self.core.link.shutdown(end.remaining()).await;
    }
}
