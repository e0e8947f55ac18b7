use std::time::Duration;

use crate::cache::{strict::Intent, value::Entry};

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
    /// The value. If there is none, the lease to load it.
    Value,
    /// The lease to load, even while a fresh value is stored.
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
