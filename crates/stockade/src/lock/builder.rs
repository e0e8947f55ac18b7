use std::{sync::Arc, time::Duration};

use super::{Locks, delegations, lease_at_start, shared::Shared};
use crate::store::{LockEvent, LockStore, MemoryStore, Observer};

/// Settings of [`Locks`].
#[derive(Clone, Debug)]
pub struct LocksBuilder {
    pub(super) lease: Duration,
    pub(super) max_waiters: u32,
    pub(super) delegate: bool,
    pub(super) delegation: delegations::Settings,
    pub(super) observer: Option<Observer>,
    #[cfg(feature = "axum")]
    pub(super) extensions: http::Extensions,
}

impl Default for LocksBuilder {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(10),
            max_waiters: 1000,
            delegate: true,
            delegation: delegations::Settings { lease: Duration::from_secs(2), most: 10_000 },
            observer: None,
            #[cfg(feature = "axum")]
            extensions: http::Extensions::new(),
        }
    }
}

impl Locks {
    /// Locks on a Redis with the default settings.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn new(redis: &crate::Redis) -> Self {
        Self::builder().redis(redis)
    }

    /// Locks of this process only, with the default settings.
    #[must_use]
    pub fn memory() -> Self {
        Self::builder().memory()
    }

    /// Starts with the default settings, to change some of them.
    #[must_use]
    pub fn builder() -> LocksBuilder {
        LocksBuilder::default()
    }
}

impl LocksBuilder {
    /// The lease of every lock whose request sets none, 100 ms to 5 min. Default 10 s. A renewal has a sixth of the
    /// lease for its round trip: over a slow network take a longer lease.
    ///
    /// # Panics
    ///
    /// For a lease outside these limits.
    #[must_use]
    #[track_caller]
    pub fn lease(mut self, lease: Duration) -> Self {
        lease_at_start("lease", lease);
        self.lease = lease;
        self
    }

    /// How many requests may wait for one key. Default 1000. Has no effect on Redlock, which has no queue.
    ///
    /// One script removes all waiters whose processes have died, and takes about 4 µs of the server for each.
    #[must_use]
    pub fn max_waiters(mut self, max: u32) -> Self {
        self.max_waiters = max;
        self
    }

    /// Whether readers of this process may share one ownership of a resource, a *delegation*. The process keeps the
    /// delegation until somebody else wants the resource, and meanwhile its reads send nothing. Default `true`.
    ///
    /// Only two kinds of readers share: requests with [`LockRequest::delegate`](super::LockRequest::delegate), and the
    /// reads of a `RouteLock`. A delegation begins only for a resource that is read often, and less often where earlier
    /// delegations were recalled after few reads. Only locks on Redis have delegations: on one server, behind sentinels
    /// or on a cluster.
    #[must_use]
    pub fn delegate(mut self, delegate: bool) -> Self {
        self.delegate = delegate;
        self
    }

    /// The longest lease of a delegation, 100 ms to 5 min. Default 2 s.
    ///
    /// If a process dies while it has a delegation, writers wait for at most this long. A delegation that is in use is
    /// renewed at a third of its lease. A read whose lease is shorter than that of an existing delegation gets an
    /// ownership of its own.
    ///
    /// # Panics
    ///
    /// For a lease outside these limits.
    #[must_use]
    #[track_caller]
    pub fn delegation_lease(mut self, lease: Duration) -> Self {
        lease_at_start("delegation lease", lease);
        self.delegation.lease = lease;
        self
    }

    /// The most delegations at a time. Default 10,000. Above it, each reader of a further resource gets an ownership of
    /// its own.
    #[must_use]
    pub fn max_delegations(mut self, max: usize) -> Self {
        self.delegation.most = max;
        self
    }

    /// Calls `told` for each lock that this process is granted or loses, with the name of its resource: for a log or a
    /// console. Default: nothing is called.
    ///
    /// Readers that enter a delegation are not told, nor that they lose it. `told` runs inside the request, or inside
    /// the task that notices the loss, so it must not block. If it panics, the log says so. It gets a reference: an
    /// event that it does not keep costs one call and no memory.
    #[must_use]
    pub fn on_event(mut self, told: impl Fn(&LockEvent<'_>) + Send + Sync + 'static) -> Self {
        self.observer = Some(Observer::new(told));
        self
    }

    /// Keeps a value of a layer above with the locks.
    #[cfg(feature = "axum")]
    pub(crate) fn extension<T: Clone + Send + Sync + 'static>(mut self, value: T) -> Self {
        self.extensions.insert(value);
        self
    }

    /// Locks on a Redis.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn redis(self, redis: &crate::Redis) -> Locks {
        let store = crate::store::RedisStore::open(redis);
        self.on(Arc::new(store))
    }

    /// Locks of this process only.
    #[must_use]
    pub fn memory(self) -> Locks {
        self.on(Arc::new(MemoryStore::new()))
    }

    pub(crate) fn on(self, store: Arc<dyn LockStore>) -> Locks {
        Locks { shared: Arc::new(Shared::new(store, self)) }
    }
}
