use std::{ops::RangeInclusive, time::Duration};

use rand::Rng;

use crate::cache::{Loaded, strict::Strict, value::Envelope};

/// What a cache was built with.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) name: &'static str,
    pub(crate) ttl: RangeInclusive<Duration>,
    pub(crate) null_ttl: Duration,
    pub(crate) grace: Duration,
    /// How long after a failed load of a key no other is tried by who has something to serve.
    pub(crate) hold_off: Duration,
    /// How long past its freshness a value is served while it is loaded again.
    pub(crate) revalidate: Duration,
    /// The β of XFetch; zero refreshes nothing early.
    pub(crate) beta: f64,
    pub(crate) lease: Duration,
    pub(crate) load_timeout: Duration,
    /// How long a read with an expired value to serve waits for a load.
    pub(crate) soft_timeout: Option<Duration>,
    /// How long any read waits for one.
    pub(crate) hard_timeout: Option<Duration>,
    /// Whether fresh values are served from the in-process tier; without it they are only kept for bad times.
    pub(crate) serve_local: bool,
    /// Whether every writer of a value holds the lock of its key, so that the in-process tier serves those who hold it
    /// shared.
    pub(crate) under_locks: bool,
    /// With it no value survives the commit of a write that was announced, and none is served from memory.
    pub(crate) strict: Option<Strict>,
    pub(crate) envelope: Envelope,
}

impl Settings {
    /// How long what was loaded is fresh: as the loader says, or else drawn anew for each fill, so that what was stored
    /// together does not expire together.
    pub(crate) fn lifetime<V>(&self, loaded: &Loaded<V>) -> Duration {
        let lifetime = match loaded.ttl {
            Some(ttl) => ttl,
            None if loaded.value.is_none() => self.null_ttl,
            None => rand::rng().random_range(self.ttl.clone()),
        };
        self.strict.as_ref().map_or(lifetime, |strict| lifetime.min(strict.longest()))
    }
}
