use std::time::Duration;

use super::{
    memory::Memory,
    outcomes::Outcomes,
    redis::Remote,
    reply::{Filled, Filling, Hold, Lease, Read, Want},
    token::Token,
    trust::{Trust, UnsureRun},
    wake::Wake,
};
use crate::{
    cache::{CacheError, Tier, local::Reservation, strict::Intent, tags::Tag},
    clock::Instant,
    resource::Key,
};

/// The store behind the in-process tier. It decides which load may store its value.
#[derive(Debug)]
pub(crate) enum Store<V> {
    /// The cache has no Redis: its values are only in the in-process tier. It has no intents, since it is never strict.
    Memory(Memory<V>),
    Redis(Box<Remote<V>>),
}

impl<V: Send + Sync + 'static + serde::de::DeserializeOwned> Store<V> {
    fn remote(&self) -> Option<&Remote<V>> {
        match self {
            Self::Memory(..) => None,
            Self::Redis(remote) => Some(remote),
        }
    }

    /// Lets the first calls wait until the first attempt to connect has ended, for a command time-out at most.
    pub(crate) async fn attempted(&self) {
        if let Some(remote) = self.remote() {
            remote.attempted().await;
        }
    }

    /// `called` is any time before the call.
    pub(crate) async fn read(&self, key: &Key, called: Instant) -> Read<V> {
        match self {
            Self::Memory(memory) => memory.read(key),
            Self::Redis(remote) => remote.read(key, called).await,
        }
    }

    /// What the store has of a key, and how long the lease of its load still lasts, if it is being loaded. The entries
    /// of a cache without Redis are those of the in-process tier.
    pub(crate) async fn inspect(&self, key: &Key) -> (Tier, Option<Duration>) {
        match self {
            Self::Memory(..) => (Tier::Empty, None),
            Self::Redis(remote) => remote.inspect(key).await,
        }
    }

    /// Asks for the value or the lease to load it. `has_fallback`: whether the caller has a value to serve if a load
    /// failed lately.
    pub(crate) async fn lease(&self, key: &Key, token: &Token, want: Want, has_fallback: bool) -> Lease<V> {
        match self {
            Self::Memory(memory) => memory.lease(key, token, want, has_fallback),
            Self::Redis(remote) => remote.lease(key, token, want, has_fallback).await,
        }
    }

    /// Stores a value if its token is current. Puts it into the in-process tier if the reservation, which was made
    /// before the token, is valid too.
    pub(crate) async fn fill(
        &self,
        key: &Key,
        token: &Token,
        reservation: Reservation,
        filling: Filling<'_, V>,
    ) -> Filled {
        match self {
            Self::Memory(memory) => memory.fill(key, token, reservation, filling.entry),
            Self::Redis(remote) => remote.fill(key, token, reservation, filling).await,
        }
    }

    pub(crate) async fn abort(&self, key: &Key, token: &Token, hold: Hold) {
        match self {
            Self::Memory(memory) => memory.abort(key, token, hold),
            Self::Redis(remote) => remote.abort(key, token, hold).await,
        }
    }

    pub(crate) async fn invalidate(&self, keys: &[Key]) -> Outcomes<()> {
        match self {
            Self::Memory(memory) => {
                memory.leases.void(keys);
                keys.iter().map(|_| Ok(())).collect()
            }
            Self::Redis(remote) => remote.invalidate(keys).await,
        }
    }

    /// Drops every value with one of these tags, and voids the running loads of such values. [`Tag::all`] stands for
    /// all values and loads.
    pub(crate) async fn invalidate_tags(&self, tags: &[Tag]) -> Outcomes<()> {
        match self {
            Self::Memory(memory) => {
                if tags.iter().any(Tag::is_all) {
                    // The caller flushes the values.
                    memory.leases.void_all();
                }
                tags.iter().map(|_| Ok(())).collect()
            }
            Self::Redis(remote) => remote.invalidate_tags(tags).await,
        }
    }

    pub(crate) async fn begin(&self, keys: &[Key], intent: &Intent) -> Result<(), CacheError> {
        match self {
            Self::Memory(..) => Ok(()),
            Self::Redis(remote) => remote.begin(keys, intent).await,
        }
    }

    /// Ends an intent. Returns for each key whether the intent was still there.
    pub(crate) async fn end(&self, keys: &[Key], id: &str) -> Outcomes<bool> {
        match self {
            Self::Memory(..) => keys.iter().map(|_| Ok(false)).collect(),
            Self::Redis(remote) => remote.end(keys, id).await,
        }
    }

    /// At most `count` of the standing intents, from rank `from` on.
    pub(crate) async fn announced(&self, from: usize, count: usize) -> Result<Vec<(Key, Intent)>, CacheError> {
        match self {
            Self::Memory(..) => Ok(Vec::new()),
            Self::Redis(remote) => remote.announced(from, count).await,
        }
    }

    /// The time up to which the in-process tier is known to have heard of every invalidation.
    pub(crate) fn verified_until(&self) -> Instant {
        self.remote().map_or_else(Instant::now, |remote| remote.subscription.liveness.live_until())
    }

    /// Whether the in-process tier hears of invalidations now.
    pub(crate) fn is_verified(&self) -> bool {
        self.is_verified_at(Instant::now())
    }

    /// As [`Store::is_verified`], for a caller that has just read the clock.
    pub(crate) fn is_verified_at(&self, now: Instant) -> bool {
        self.remote().is_none_or(|remote| remote.subscription.liveness.is_live(now))
    }

    /// Evidence that the store has missed no invalidation; `None` if it may have.
    pub(crate) fn trust(&self) -> Option<Trust> {
        self.remote().map_or(Some(Trust::default()), |remote| remote.subscription.trust())
    }

    /// Whether the store is connected and known to have lost no invalidation.
    pub(crate) fn is_trusted(&self) -> bool {
        self.remote().is_none_or(|remote| remote.subscription.is_trusted())
    }

    /// The connected run of the store, if it may have missed invalidations.
    pub(crate) fn unsure_run(&self) -> Option<UnsureRun> {
        self.remote()?.subscription.unsure_run()
    }

    /// Marks a run as trusted, after the invalidations that it may have missed were repeated.
    pub(crate) async fn trust_run(&self, run: &UnsureRun) -> Result<(), CacheError> {
        match self {
            Self::Memory(..) => Ok(()),
            Self::Redis(remote) => remote.trust_run(run).await,
        }
    }

    /// Whether the store can be asked now.
    pub(crate) fn is_up(&self) -> bool {
        self.remote().is_none_or(|remote| remote.servers.are_well())
    }

    /// Is notified when a load of the key ends or the key is invalidated. Must be made before the lease is asked for.
    pub(crate) fn watch(&self, key: &Key) -> Wake {
        match self {
            Self::Memory(memory) => memory.leases.watch(key),
            Self::Redis(remote) => remote.subscription.wakes.watch(key.as_str()),
        }
    }

    pub(crate) async fn shutdown(&self, limit: Duration) {
        if let Some(remote) = self.remote() {
            remote.shutdown(limit).await;
        }
    }
}
