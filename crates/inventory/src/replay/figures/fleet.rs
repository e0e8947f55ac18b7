use serde::Serialize;

use crate::replay::scrape::Counters;

/// The counts of the instances during the replay.
#[derive(Clone, Copy, Debug, Serialize)]
#[non_exhaustive]
pub struct Fleet {
    /// Loads sent to the database.
    pub loads: u64,
    /// Locks handed from a releaser straight to a waiter.
    pub handoffs: u64,
    /// Locks that ended against the holder's will.
    pub locks_lost: u64,
    /// Write transactions that the fence refused.
    pub fence_rejected: u64,
}

impl Fleet {
    pub(in crate::replay) fn new(counters: Counters) -> Self {
        Self {
            loads: as_u64(counters.loads),
            handoffs: as_u64(counters.handoffs),
            locks_lost: as_u64(counters.lost),
            fence_rejected: as_u64(counters.fence_rejected),
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float cast saturates; counters are whole"
)]
fn as_u64(counter: f64) -> u64 {
    counter.round() as u64
}
