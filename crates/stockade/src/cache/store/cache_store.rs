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
    cache::{CacheError, local::Reservation, strict::Intent, tags::Tag},
    clock::Instant,
    resource::Key,
};

/// Where values live beside the in-process tier, and who decides which load may store.
#[derive(Debug)]
pub(crate) enum Store<V> {
    /// Nowhere: the in-process tier is all.
    Memory(Memory<V>),
    Redis(Box<Remote<V>>),
}

impl<V: Send + Sync + 'static + serde::de::DeserializeOwned> Store<V> {
    /// Returns once the first attempt to connect has ended, or a command time-out after this was first called.
    pub(crate) async fn attempted(&self) {
        match self {
            Self::Memory(..) => {}
            Self::Redis(remote) => remote.attempted().await,
        }
    }

    pub(crate) async fn read(&self, key: &Key) -> Read<V> {
        match self {
            Self::Memory(memory) => memory.read(key),
            Self::Redis(remote) => remote.read(key).await,
        }
    }

    /// `has_fallback`: whether the caller can do without a load, if one failed lately.
    pub(crate) async fn lease(&self, key: &Key, token: &Token, want: Want, has_fallback: bool) -> Lease<V> {
        match self {
            Self::Memory(memory) => memory.lease(key, token, want, has_fallback),
            Self::Redis(remote) => remote.lease(key, token, want, has_fallback).await,
        }
    }

    /// Stores if the token, and for the in-process tier the reservation taken before it, are still good.
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
                memory.invalidate(keys);
                keys.iter().map(|_| Ok(())).collect()
            }
            Self::Redis(remote) => remote.invalidate(keys).await,
        }
    }

    /// Outdates every value that has one of these tags, and every load under way of such a value; with [`Tag::all`]
    /// whatever there is.
    pub(crate) async fn invalidate_tags(&self, tags: &[Tag]) -> Outcomes<()> {
        match self {
            Self::Memory(memory) => {
                if tags.iter().any(Tag::is_all) {
                    memory.clear();
                }
                tags.iter().map(|_| Ok(())).collect()
            }
            Self::Redis(remote) => remote.invalidate_tags(tags).await,
        }
    }

    pub(crate) async fn begin(&self, keys: &[Key], intent: &Intent) -> Result<(), CacheError> {
        match self {
            Self::Memory(memory) => {
                memory.begin(keys, intent);
                Ok(())
            }
            Self::Redis(remote) => remote.begin(keys, intent).await,
        }
    }

    /// For each key whether the intent was still there.
    pub(crate) async fn end(&self, keys: &[Key], id: &str) -> Outcomes<bool> {
        match self {
            Self::Memory(memory) => keys.iter().map(|key| Ok(memory.end(std::slice::from_ref(key), id))).collect(),
            Self::Redis(remote) => remote.end(keys, id).await,
        }
    }

    /// So many of the announcements that stand, from this one on.
    pub(crate) async fn announced(&self, from: usize, count: usize) -> Result<Vec<(Key, Intent)>, CacheError> {
        match self {
            Self::Memory(memory) => Ok(memory.announced(from, count)),
            Self::Redis(remote) => remote.announced(from, count).await,
        }
    }

    /// The instant up to which the in-process tier is known to have heard of every invalidation.
    pub(crate) fn verified_until(&self) -> Instant {
        match self {
            Self::Memory(..) => Instant::now(),
            Self::Redis(remote) => remote.verified_until(),
        }
    }

    /// Whether the in-process tier hears of invalidations now.
    pub(crate) fn is_verified(&self) -> bool {
        self.is_verified_at(Instant::now())
    }

    /// As [`Store::is_verified`], for who has just read the clock.
    pub(crate) fn is_verified_at(&self, now: Instant) -> bool {
        match self {
            Self::Memory(..) => {
                let _ = now;
                true
            }
            Self::Redis(remote) => remote.is_verified_at(now),
        }
    }

    /// Trust in the values of the store; `None` where they may have missed invalidations.
    pub(crate) fn trust(&self) -> Option<Trust> {
        match self {
            Self::Memory(..) => Some(Trust::default()),
            Self::Redis(remote) => remote.trust(),
        }
    }

    /// Whether it is known to have lost no invalidation.
    pub(crate) fn is_trusted(&self) -> bool {
        match self {
            Self::Memory(..) => true,
            Self::Redis(remote) => remote.is_trusted(),
        }
    }

    /// The run of the store whose values may have missed invalidations, as far as anybody knows.
    pub(crate) fn unsure_run(&self) -> Option<UnsureRun> {
        match self {
            Self::Memory(..) => None,
            Self::Redis(remote) => remote.unsure_run(),
        }
    }

    /// Marks that run as trusted: its invalidations were applied again.
    pub(crate) async fn trust_run(&self, run: &UnsureRun) -> Result<(), CacheError> {
        match self {
            Self::Memory(..) => {
                let _ = run;
                Ok(())
            }
            Self::Redis(remote) => remote.trust_run(run).await,
        }
    }

    /// Whether the store can be asked now.
    pub(crate) fn is_up(&self) -> bool {
        match self {
            Self::Memory(..) => true,
            Self::Redis(remote) => remote.is_up(),
        }
    }

    /// A way to be told of the key's fill, abort or invalidation; to be made before the lease is asked for.
    pub(crate) fn watch(&self, key: &Key) -> Wake {
        match self {
            Self::Memory(memory) => memory.watch(key),
            Self::Redis(remote) => remote.watch(key),
        }
    }

    pub(crate) async fn shutdown(&self, limit: Duration) {
        match self {
            Self::Memory(..) => {}
            Self::Redis(remote) => remote.shutdown(limit).await,
        }
    }
}
