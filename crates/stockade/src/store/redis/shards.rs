use std::sync::{Arc, Weak};

use super::{inner::Inner, keys::Keys, shard::Shard};
use crate::{redis::Redis, resource::Bucket};

/// The servers of the store, and which of them has which bucket.
#[derive(Debug)]
pub(super) struct Shards {
    only: Arc<Shard>,
}

impl Shards {
    /// Starts connecting. `process` names the inbox.
    pub(super) fn open(redis: &Redis, keys: &Keys, process: &str, inner: &Weak<Inner>) -> Self {
        let inbox = format!("{}{process}", keys.inbox_prefix());
        Self { only: Shard::open(0, redis, inbox, inner) }
    }

    /// The server that has the bucket; `None` while none is known.
    #[expect(clippy::unnecessary_wraps, reason = "the bucket of a cluster may be on its way or on a lost server")]
    pub(super) fn of(&self, _bucket: Bucket) -> Option<Arc<Shard>> {
        Some(Arc::clone(&self.only))
    }

    /// The server that runs one script on all of these buckets; `None` when none does.
    #[expect(clippy::unnecessary_wraps, reason = "a script in a cluster has the keys of one slot")]
    pub(super) fn of_all(&self, _buckets: impl Iterator<Item = Bucket>) -> Option<Arc<Shard>> {
        Some(Arc::clone(&self.only))
    }

    pub(super) fn all(&self) -> Vec<Arc<Shard>> {
        vec![Arc::clone(&self.only)]
    }
}
