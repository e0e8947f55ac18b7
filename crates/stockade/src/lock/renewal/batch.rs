use std::{sync::Arc, time::Duration};

use crate::{clock::Instant, store::Ownership};

/// The time that every renewal is given at least, however short the lease: a slow round trip.
const LEAST_PATIENCE: Duration = Duration::from_millis(50);

#[derive(Clone, Debug)]
pub(super) struct Due {
    pub(super) id: u64,
    pub(super) ownership: Arc<Ownership>,
    /// When the renewal was planned to be sent. The next one is planned from here.
    pub(super) planned: Instant,
    /// The deadline before the renewal. A confirmation moves it.
    pub(super) deadline: Instant,
}

/// Renewals that are sent together, all to one shard.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) due: Vec<Due>,
    pub(super) ownerships: Vec<Arc<Ownership>>,
    /// How long the batch may take. Even after two that hang, there must be time for a third.
    pub(super) patience: Duration,
}

impl Batch {
    pub(super) fn new(due: &[Due]) -> Self {
        let ownerships: Vec<_> = due.iter().map(|due| Arc::clone(&due.ownership)).collect();
        let shortest = ownerships.iter().map(|ownership| ownership.lease).min().unwrap_or_default();
        Self { due: due.to_vec(), ownerships, patience: (shortest / 6).max(LEAST_PATIENCE) }
    }
}
