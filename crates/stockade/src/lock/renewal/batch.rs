use std::{sync::Arc, time::Duration};

use crate::{clock::Instant, store::Ownership};

/// What a renewal may take however short the lease is: a slow round trip.
const LEAST_PATIENCE: Duration = Duration::from_millis(50);

/// One that is to be renewed now.
#[derive(Clone, Debug)]
pub(super) struct Due {
    pub(super) id: u64,
    pub(super) ownership: Arc<Ownership>,
    /// When it was to be sent; the next is planned from there.
    pub(super) planned: Instant,
    /// The deadline that a confirmation moves.
    pub(super) deadline: Instant,
}

/// Renewals on their way, all to one shard.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) due: Vec<Due>,
    pub(super) ownerships: Vec<Arc<Ownership>>,
    /// How long it may take: two that hang must leave time for a third.
    pub(super) patience: Duration,
}

impl Batch {
    pub(super) fn new(due: &[Due]) -> Self {
        let ownerships: Vec<_> = due.iter().map(|due| Arc::clone(&due.ownership)).collect();
        let shortest = ownerships.iter().map(|ownership| ownership.lease).min().unwrap_or_default();
        Self { due: due.to_vec(), ownerships, patience: (shortest / 6).max(LEAST_PATIENCE) }
    }
}
