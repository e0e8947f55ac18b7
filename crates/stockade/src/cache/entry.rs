use std::{sync::Arc, time::Duration};

use super::tag::Tags;
use crate::clock::Instant;

/// A value, or the knowledge that there is none, with its times on this process's clock.
#[derive(Debug)]
pub(crate) struct Entry<V> {
    pub(crate) value: Option<Arc<V>>,
    pub(crate) loaded: Instant,
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
