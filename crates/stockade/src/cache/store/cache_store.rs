use std::{fmt, sync::Arc, time::Duration};

use super::redis::Remote;
use super::{memory::Memory, wake::Wake};
use crate::{
    cache::{CacheError, invalidation::Outcomes, local::Reservation, strict::Intent, tags::Tag, value::Entry},
    clock::Instant,
    resource::Key,
};

/// The leave to fill one key, made anew for each attempt. It is void once the key is invalidated or leased again.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token(String);

impl Token {
    pub(crate) fn random() -> Self {
        Self(format!("{:032x}", rand::random::<u128>()))
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// The word that what the store holds has missed no invalidation. One that is given for another connection is another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Assurance(u64);

impl Assurance {
    pub(crate) fn of_connection(number: u64) -> Self {
        Self(number)
    }
}

/// How long the channel of a cache may be silent, and no question be answered, before the in-process tier is no longer believed.
/// Beats come each second.
pub(crate) const SILENCE: Duration = Duration::from_secs(3);

/// After so long every process has heard of an invalidation, or serves nothing from memory: [`SILENCE`] by a clock that goes
/// faster by one in a hundred, as leases reckon with.
pub(crate) const HEARD_WITHIN: Duration = Duration::from_millis(3_030);

/// For so long the server that a new run replaced may go on taking writes: until its replicas have not been heard of for
/// `min-replicas-max-lag`, 10 s at most, which Redis counts in whole seconds and once a second. One more for a server that is
/// busy.
pub(crate) const LINGER: Duration = Duration::from_secs(13);

/// A run of the store whose values may have missed invalidations, as far as anybody knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnsureRun {
    pub(crate) id: Arc<str>,
    /// The number of the connection to it. On the next one it may be a server that was replaced in between.
    pub(crate) connection: u64,
    /// Whether another server may take writes for a while that this one never hears of.
    pub(crate) has_rival: bool,
}

/// The reply to a read.
#[derive(Debug)]
pub(crate) enum Read<V> {
    Hit(Entry<V>),
    /// A value that expired.
    Stale(Entry<V>),
    Miss,
    /// There is a value, written by another version of the program or damaged.
    Unreadable,
    /// The store can't be asked.
    Down,
}

/// What a lease is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// The value, or else the leave to load it.
    Value,
    /// The leave to load, even over a fresh value.
    Load,
}

/// The reply to a lease.
#[derive(Debug)]
pub(crate) enum Lease<V> {
    Hit(Entry<V>),
    Unreadable,
    /// Somebody else loads, for so long at most.
    Wait(Duration),
    /// The token is current. With the expired value, if it is still kept.
    Granted(Option<Entry<V>>),
    /// A load failed lately: what is kept has to do for a while. With the expired value, if it is in the store.
    Held(Option<Entry<V>>),
    /// The loads of this key keep failing. The next may be tried in so long.
    Failing(Duration),
    /// A writer is committing: load, and store nothing. With the intents that stand for suspiciously long.
    Bypass(Vec<Intent>),
    Down,
}

/// What a load that brought no value keeps off for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    /// For so long, those who have something to serve; zero for nobody.
    pub(crate) window: Duration,
    /// Whether it counts as a failure of this key. After two in a row it holds off the others too.
    pub(crate) counts: bool,
}

impl Hold {
    pub(crate) const NONE: Self = Self { window: Duration::ZERO, counts: false };
}

/// The reply to a fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filled {
    Accepted,
    Refused,
    /// No reply: stored or not.
    Unknown,
}

/// What is to be stored.
#[derive(Debug)]
pub(crate) struct Filling<'a, V> {
    pub(crate) entry: &'a Entry<V>,
    pub(crate) bytes: Vec<u8>,
    pub(crate) ttl: Duration,
}

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

    /// `content`: whether the caller can do without a load, if one failed lately.
    pub(crate) async fn lease(&self, key: &Key, token: &Token, want: Want, content: bool) -> Lease<V> {
        match self {
            Self::Memory(memory) => memory.lease(key, token, want, content),
            Self::Redis(remote) => remote.lease(key, token, want, content).await,
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

    /// Outdates every value that has one of these tags, and every load under way of such a value; with [`Tag::all`] whatever
    /// there is.
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

    /// What stands for the values in the store; `None` where they may have missed invalidations.
    pub(crate) fn assurance(&self) -> Option<Assurance> {
        match self {
            Self::Memory(..) => Some(Assurance::default()),
            Self::Redis(remote) => remote.assurance(),
        }
    }

    /// Whether it is known to have lost no invalidation.
    pub(crate) fn is_vouched_for(&self) -> bool {
        match self {
            Self::Memory(..) => true,
            Self::Redis(remote) => remote.is_vouched_for(),
        }
    }

    /// The run of the store whose values may have missed invalidations, as far as anybody knows.
    pub(crate) fn unsure_run(&self) -> Option<UnsureRun> {
        match self {
            Self::Memory(..) => None,
            Self::Redis(remote) => remote.unsure_run(),
        }
    }

    /// Vouches for that run.
    pub(crate) async fn trust(&self, run: &UnsureRun) -> Result<(), CacheError> {
        match self {
            Self::Memory(..) => {
                let _ = run;
                Ok(())
            }
            Self::Redis(remote) => remote.trust(run).await,
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
