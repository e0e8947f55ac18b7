use std::sync::{
    Arc, Weak,
    atomic::{AtomicBool, AtomicU64},
};

use tokio::runtime::Handle;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    commands::keys::Keys,
    holding::HeldTable,
    inner::Inner,
    messages::{Inbox, Waiters},
    release::Releases,
    scripts,
};
use crate::{
    process_id::process_id,
    redis::{Redis, RoutedLink},
    store::floors::Floors,
};

impl Inner {
    pub(super) fn open(redis: &Redis) -> Arc<Self> {
        let inner = Arc::new_cyclic(|inner| {
            let keys = Keys::new(redis.key_prefix().clone());
            let process = process_id();
            let inbox = format!("{}{process}", keys.inbox_prefix());
            Self {
                shards: RoutedLink::new(redis, "lock", vec![inbox], scripts::ALL, Arc::new(Inbox(Weak::clone(inner)))),
                keys,
                timeout: redis.timeout(),
                waiters: Waiters::default(),
                held: HeldTable::default(),
                throttle: Arc::default(),
                floors: Floors::default(),
                releases: Releases::default(),
                tasks: TaskTracker::new(),
                runtime: Handle::current(),
                closing: AtomicBool::new(false),
                ended: CancellationToken::new(),
                process,
                attempts: AtomicU64::new(0),
            }
        });
        // The inbox of the links needs `inner`, which exists only from here on.
        inner.shards.start();
        inner
    }
}
