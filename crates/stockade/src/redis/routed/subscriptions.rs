use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{Mutex, MutexGuard};

use crate::resource::Bucket;

/// The sharded channels of one server, by bucket.
#[derive(Debug)]
pub(super) struct Subscriptions {
    /// The connection on which the channel of the bucket is subscribed, by its number. Numbers start at 1.
    connections: [AtomicU64; 256],
    /// Many attempts may find the same channel missing at once. These locks let one of them subscribe.
    turns: [Mutex<()>; 256],
}

impl Default for Subscriptions {
    fn default() -> Self {
        Self { connections: [const { AtomicU64::new(0) }; 256], turns: [const { Mutex::const_new(()) }; 256] }
    }
}

impl Subscriptions {
    pub(super) fn hears(&self, bucket: Bucket, connection: u64) {
        self.connections[usize::from(bucket.index())].fetch_max(connection, Ordering::AcqRel);
    }

    /// The last connection on which it was subscribed; 0 if there is none.
    pub(super) fn heard_on(&self, bucket: Bucket) -> u64 {
        self.connections[usize::from(bucket.index())].load(Ordering::Acquire)
    }

    pub(super) fn left(&self, bucket: Bucket) {
        self.connections[usize::from(bucket.index())].store(0, Ordering::Release);
    }

    pub(super) async fn turn(&self, bucket: Bucket) -> MutexGuard<'_, ()> {
        self.turns[usize::from(bucket.index())].lock().await
    }
}
