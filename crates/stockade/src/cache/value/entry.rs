use std::{sync::Arc, time::Duration};

use crate::{cache::tags::Tags, clock::Instant};

/// A value, or the knowledge that there is none, with its times on this process's clock.
#[derive(Debug)]
pub(crate) struct Entry<V> {
    pub(crate) value: Option<Arc<V>>,
    pub(crate) loaded: Instant,
    /// When its store took it, by the clock of that store, in µs; `None` where it is in no other store.
    pub(crate) stored: Option<u64>,
    pub(crate) expires: Instant,
    /// How long its load took.
    pub(crate) took: Duration,
    pub(crate) version: Option<u64>,
    pub(crate) tags: Tags,
    /// What it weighs in the in-process tier, in bytes.
    pub(crate) weight: u64,
}

impl<V> Entry<V> {
    pub(crate) fn is_fresh(&self, now: Instant) -> bool {
        now < self.expires
    }

    /// Whether both came from one load, by way of the store. The times of each may be mapped to this process's clock in
    /// another way.
    pub(crate) fn is_of_same_load(&self, other: &Self) -> bool {
        self.stored.is_some() && self.stored == other.stored
    }

    /// Time past expiry, if it has expired.
    pub(crate) fn staleness(&self, now: Instant) -> Option<Duration> {
        (!self.is_fresh(now)).then(|| now.since(self.expires))
    }
}

impl<V> Clone for Entry<V> {
    fn clone(&self) -> Self {
        Self { value: self.value.clone(), tags: self.tags.clone(), ..*self }
    }
}
