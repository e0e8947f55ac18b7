use std::{sync::Arc, time::Duration};

use super::{Locks, delegations, shared::Shared};
use crate::store::{LockStore, MemoryStore};

/// Settings of [`Locks`].
#[derive(Clone, Debug)]
pub struct LocksBuilder {
    lease: Duration,
    max_waiters: u32,
    delegate: bool,
    delegation: delegations::Settings,
    redis: crate::store::RedisOptions,
    #[cfg(feature = "axum")]
    extensions: http::Extensions,
}

impl Default for LocksBuilder {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(10),
            max_waiters: 1000,
            delegate: true,
            delegation: delegations::Settings { lease: Duration::from_secs(2), most: 10_000 },
            redis: crate::store::RedisOptions::default(),
            #[cfg(feature = "axum")]
            extensions: http::Extensions::new(),
        }
    }
}

impl Locks {
    /// Locks on a Redis with the default settings. Must be called within a tokio runtime.
    #[must_use]
    pub fn new(redis: &crate::Redis) -> Self {
        Self::builder().redis(redis)
    }

    /// Locks of this process only, with the default settings.
    #[must_use]
    pub fn memory() -> Self {
        Self::builder().memory()
    }

    /// Settings first.
    #[must_use]
    pub fn builder() -> LocksBuilder {
        LocksBuilder::default()
    }
}

impl LocksBuilder {
    /// The lease of every lock that does not say otherwise, 100 ms to 5 min; another value is refused by each request.
    /// Default 10 s.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// How many may wait for one key. Default 1000.
    #[must_use]
    pub fn max_waiters(mut self, max: u32) -> Self {
        self.max_waiters = max;
        self
    }

    /// Whether readers of this process may share one ownership of a resource, a *delegation*, that is kept until
    /// somebody else wants the resource: those who ask by [`LockRequest::delegate`](super::LockRequest::delegate), and
    /// the reads of a `RouteLock`. Where it pays, by counts, a read then sends nothing. Default `true`; only locks on
    /// one Redis, behind sentinels or on a cluster have delegations.
    #[must_use]
    pub fn delegate(mut self, delegate: bool) -> Self {
        self.delegate = delegate;
        self
    }

    /// The longest lease of a delegation, 100 ms to 5 min; with another value every read that would begin one is
    /// refused. So long do writers wait for a process that died while it read. Renewed at a third of it while it is
    /// used. A read with a shorter lease has an ownership of its own. Default 2 s.
    #[must_use]
    pub fn delegation_lease(mut self, lease: Duration) -> Self {
        self.delegation.lease = lease;
        self
    }

    /// The most delegations at a time; further resources are read under an ownership for each reader. Default 10,000.
    #[must_use]
    pub fn max_delegations(mut self, max: usize) -> Self {
        self.delegation.most = max;
        self
    }

    /// Nobody enters before `replicas` replicas of the server have confirmed the grant, for which they have `timeout`:
    /// a failover to one of them then forgets no holder. With too few the grant is given back, and the attempt fails as
    /// [`Unavailable::Unreplicated`](super::Unavailable::Unreplicated). Default: none are asked.
    ///
    /// It narrows the gap and does not close it: a failover may choose a replica that was not among them. What must not
    /// be lost needs the fence.
    ///
    /// The cost is a `WAIT` behind every first `ACQUIRE` and every renewal. A lock that was handed over costs three
    /// commands more, since its grant was written by the one who released it: a renewal and a `WAIT` before its holder
    /// enters, besides the round trip. A `WAIT` holds up everything behind it on the connection that all locks of the
    /// process share, at worst for `timeout`: keep it short, some 50 ms; no more than half of the command time-out is
    /// used. A renewal that too few replicas confirm loses no lock.
    #[must_use]
    pub fn replica_acks(mut self, replicas: u32, timeout: Duration) -> Self {
        self.redis.replicas = (replicas > 0).then_some(crate::redis::Replicas { count: replicas, timeout });
        self
    }

    /// After a restart or a failover nothing is granted until the new run of the server has served the namespace for
    /// this long. The longest lease in use is enough: by then whoever held a lock that the server has forgotten knows
    /// that it is over. Attempts wait meanwhile, as far as they may, and then fail as
    /// [`LockError::Timeout`](super::LockError::Timeout) or, without a wait, as
    /// [`LockError::Busy`](super::LockError::Busy), with the time left. Default zero.
    ///
    /// The time counts from the first process that met the run, and is kept on the server: a process that starts later
    /// does not wait again. A new server is a new run, too. Every process must ask for it.
    #[must_use]
    pub fn quarantine(mut self, quarantine: Duration) -> Self {
        self.redis.quarantine = quarantine;
        self
    }

    /// Keeps a value of a layer above with the locks.
    #[cfg(feature = "axum")]
    pub(crate) fn extension<T: Clone + Send + Sync + 'static>(mut self, value: T) -> Self {
        self.extensions.insert(value);
        self
    }

    /// Locks on a Redis.
    #[must_use]
    pub fn redis(self, redis: &crate::Redis) -> Locks {
        let store = crate::store::RedisStore::open(redis, self.redis);
        self.on(Arc::new(store))
    }

    /// Locks of this process only.
    #[must_use]
    pub fn memory(self) -> Locks {
        self.on(Arc::new(MemoryStore::new()))
    }

    pub(crate) fn on(self, store: Arc<dyn LockStore>) -> Locks {
        let delegation = self.delegate.then_some(self.delegation);
        #[cfg_attr(not(feature = "axum"), expect(unused_mut, reason = "only layers above keep something with it"))]
        let mut shared = Shared::new(store, self.lease, self.max_waiters, delegation);
        #[cfg(feature = "axum")]
        {
            shared.extensions = self.extensions;
        }
        Locks::sharing(shared)
    }
}
