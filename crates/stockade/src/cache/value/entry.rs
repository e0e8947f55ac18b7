use std::{sync::Arc, time::Duration};

use crate::{cache::tags::Tags, clock::Instant};

/// A value, or the absence of a row, with its times on this process's clock.
#[derive(Debug)]
pub(crate) struct Entry<V> {
    pub(crate) value: Option<Arc<V>>,
    pub(crate) loaded: Instant,
    /// When Redis stored the value, in µs on the clock of the server. `None` if the value is not in Redis.
    pub(crate) stored: Option<u64>,
    pub(crate) expires: Instant,
    pub(crate) took: Duration,
    pub(crate) version: Option<u64>,
    pub(crate) tags: Tags,
    /// The weight of the value in the in-process tier, in bytes.
    pub(crate) weight: u64,
}

impl<V> Entry<V> {
    /// A value that was loaded just now and is kept for no time.
    pub(crate) fn new(value: Option<V>, weight: u64) -> Self {
        let now = Instant::now();
        Self {
            value: value.map(Arc::new),
            loaded: now,
            stored: None,
            expires: now,
            took: Duration::ZERO,
            version: None,
            tags: Tags::default(),
            weight,
        }
    }

    pub(crate) fn is_fresh(&self, now: Instant) -> bool {
        now < self.expires
    }

    /// Whether both came from the same load, through Redis. Their other times are no evidence: each may have been
    /// converted to this process's clock with another offset.
    pub(crate) fn is_of_same_load(&self, other: &Self) -> bool {
        self.stored.is_some() && self.stored == other.stored
    }

    /// How long ago the value expired; `None` if it is fresh.
    pub(crate) fn staleness(&self, now: Instant) -> Option<Duration> {
        (!self.is_fresh(now)).then(|| now.since(self.expires))
    }
}

impl<V> Clone for Entry<V> {
    fn clone(&self) -> Self {
        Self { value: self.value.clone(), tags: self.tags.clone(), ..*self }
    }
}
