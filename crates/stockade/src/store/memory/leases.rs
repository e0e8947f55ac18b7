use std::collections::BTreeMap;

use super::lock::Asker;
use crate::{clock::Instant, resource::Key, store::Owner};

/// All leases, ordered by their ends.
#[derive(Debug, Default)]
pub(super) struct Leases(BTreeMap<(Instant, u64), (Key, Owner)>);

impl Leases {
    pub(super) fn first(&self) -> Option<Instant> {
        self.0.first_key_value().map(|((ends, _), _)| *ends)
    }

    /// Removes and returns one lease that is over.
    pub(super) fn take_over(&mut self, now: Instant) -> Option<(Key, Owner)> {
        self.first().filter(|ends| *ends <= now)?;
        self.0.pop_first().map(|(_, lease)| lease)
    }

    pub(super) fn insert(&mut self, ends: Instant, asker: &Asker, key: &Key) {
        self.0.insert((ends, asker.number), (key.clone(), asker.owner.clone()));
    }

    pub(super) fn remove(&mut self, ends: Instant, number: u64) {
        self.0.remove(&(ends, number));
    }

    /// Moves the end of a lease, here and in `ends`.
    pub(super) fn extend(&mut self, ends: &mut Instant, number: u64, to: Instant) {
        if let Some(lease) = self.0.remove(&(*ends, number)) {
            self.0.insert((to, number), lease);
            *ends = to;
        }
    }
}

#[cfg(test)]
impl Leases {
    pub(super) fn ends(&self) -> std::collections::BTreeSet<(Instant, u64)> {
        self.0.keys().copied().collect()
    }
}
