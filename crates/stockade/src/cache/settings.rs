use std::{ops::RangeInclusive, time::Duration};

use rand::Rng;

use crate::cache::{Loaded, store::REPEATABLE, strict::Strict, value::Envelope};

#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) name: &'static str,
    pub(crate) ttl: RangeInclusive<Duration>,
    pub(crate) null_ttl: Duration,
    pub(crate) grace: Duration,
    /// How long no load of a key is tried after a failed one, if there is an expired value to serve.
    pub(crate) hold_off: Duration,
    /// How long an expired value is served while it is loaded again.
    pub(crate) revalidate: Duration,
    /// The β of XFetch. With zero nothing is refreshed early.
    pub(crate) beta: f64,
    pub(crate) lease: Duration,
    pub(crate) load_timeout: Duration,
    /// How long a read with an expired value to serve waits for a load.
    pub(crate) soft_timeout: Option<Duration>,
    /// How long any read waits for a load.
    pub(crate) hard_timeout: Option<Duration>,
    /// Whether fresh values are served from the in-process tier. Otherwise the tier only serves while Redis is away.
    pub(crate) serve_local: bool,
    /// Whether every writer of a value holds the lock of its key. Then the in-process tier serves callers that hold the
    /// lock shared.
    pub(crate) under_locks: bool,
    /// Set for a strict cache: no value outlives the commit of an announced write, and none is served from memory.
    pub(crate) strict: Option<Strict>,
    pub(crate) envelope: Envelope,
}

impl Settings {
    /// How long a loaded value is fresh: the time that the loader gave, or else a random time within the range of the
    /// cache. It is random so that values that were stored together do not expire together.
    pub(crate) fn lifetime<V>(&self, loaded: &Loaded<V>) -> Duration {
        let lifetime = match loaded.ttl {
            Some(ttl) => ttl,
            None if loaded.value.is_none() => self.null_ttl,
            None => rand::rng().random_range(self.ttl.clone()),
        };
        if self.strict.is_some() { lifetime.min(REPEATABLE) } else { lifetime }
    }
}
