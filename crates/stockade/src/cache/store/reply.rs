use std::time::Duration;

use crate::{
    cache::{strict::Intent, value::Entry},
    clock::Instant,
};

/// The reply to a read.
#[derive(Debug)]
pub(crate) enum Read<V> {
    /// A value that had not expired at this time.
    Hit(Entry<V>, Instant),
    /// An expired value.
    Stale(Entry<V>),
    Miss,
    /// There is a value, but it is damaged or was written by another version of the program.
    Unreadable,
    /// The store does not answer.
    Down,
}

/// What a caller asks the store for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// The value. If there is none, the lease to load it.
    Value,
    /// The lease to load, even while a fresh value is stored.
    Load,
}

/// The reply to a request for a lease.
#[derive(Debug)]
pub(crate) enum Lease<V> {
    Hit(Entry<V>),
    Unreadable,
    /// Somebody else loads. The lease of that load ends after this time.
    Wait(Duration),
    /// The token is current. With the expired value, if the store still has it.
    Granted(Option<Entry<V>>),
    /// A load failed lately, so the caller serves an expired value for now. With that value, if it is in the store.
    Held(Option<Entry<V>>),
    /// The loads of this key keep failing. The next load may be tried after this time.
    Failing(Duration),
    /// A writer is committing: load, but store nothing. With the intents that are suspiciously old.
    Bypass(Vec<Intent>),
    Down,
}

/// What a load that stores nothing means for the next loads of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    No,
    /// It failed. Callers with an expired value are held off for this time, and after two failures that count in a row
    /// all callers are.
    Failed {
        window: Duration,
        counts: bool,
    },
    /// Its value can't be stored. For a second all who want it load it without a lease: under one they would do so one
    /// after the other.
    Unstorable,
}

/// The reply to a request to store a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filled {
    Accepted,
    Refused,
    /// There was no reply. The value may or may not be stored.
    Unknown,
}

/// A value to store.
#[derive(Debug)]
pub(crate) struct Filling<'a, V> {
    pub(crate) entry: &'a Entry<V>,
    pub(crate) bytes: Vec<u8>,
    pub(crate) ttl: Duration,
}
