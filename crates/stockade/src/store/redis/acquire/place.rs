use std::time::Duration;

use crate::clock::Instant;

/// The place of an attempt in the queue, as the server last reported it.
#[derive(Debug, Default)]
pub(super) struct QueuePlace {
    /// The number that the queue is ordered by. With it the waiter comes back to its place. 0 before there is a place.
    pub(super) seq: u64,
    /// When the question that last found the place was sent. `None` when the place is known to be gone.
    pub(super) confirmed: Option<Instant>,
    /// How much is left of the leases in front.
    pub(super) remaining: Duration,
    /// The position in the queue, from 1.
    pub(super) position: Option<u64>,
}
