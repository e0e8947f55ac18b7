use std::time::Duration;

use crate::{clock::Instant, store::Token};

/// The place of an attempt in the queue, as the server last told it.
#[derive(Debug, Default)]
pub(super) struct QueuePlace {
    /// What the queue is ordered by. The waiter comes back to its place with it; 0 before there is one.
    pub(super) seq: u64,
    /// When the question was sent that last found the place there; `None` when it is known to be gone.
    pub(super) confirmed: Option<Instant>,
    /// What is left of the leases in front.
    pub(super) remaining: Duration,
    /// From 1.
    pub(super) position: Option<u64>,
}

impl QueuePlace {
    /// A grant ended before it could be used: the attempt asks for the place that it was granted at.
    pub(super) fn keep(&mut self, granted: Token) {
        if self.seq == 0 {
            self.seq = granted.get();
        }
    }
}
