use std::sync::{Arc, Weak, atomic::AtomicU64};

use tokio::runtime::Handle;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    held_table::HeldTable,
    inner::{Inner, quorum_of},
    keys::Keys,
    node::Node,
    scripts,
    servers::Servers,
    settings::Settings,
    watch::Watch,
};
use crate::{
    breaker::{Breaker, Quorum},
    process_id::process_id,
    redis::{Link, Redis},
    store::floors::Floors,
};

impl Inner {
    pub(super) fn open(servers: &[Redis], settings: Settings) -> Arc<Self> {
        let namespace = servers.first().map(|first| first.key_prefix().clone()).unwrap_or_default();
        let quorum = Arc::new(Quorum::new("redis_lock", quorum_of(servers.len())));
        let inner = Arc::new_cyclic(|inner| {
            let node = |(node, redis): (usize, &Redis)| {
                let watch = Watch { inner: Weak::clone(inner), node };
                let breaker = Breaker::of(&quorum);
                Node::new(Link::behind(breaker, redis, "lock", Vec::new(), scripts::ALL, Arc::new(watch)))
            };
            Self {
                nodes: servers.iter().enumerate().map(node).collect(),
                servers: Servers::new(servers.len()),
                keys: Keys::new(namespace, settings.key_format.clone()),
                settings,
                held: HeldTable::default(),
                floors: Floors::default(),
                tasks: TaskTracker::new(),
                runtime: Handle::current(),
                closing: CancellationToken::new(),
                ended: CancellationToken::new(),
                process: process_id(),
                attempts: AtomicU64::new(0),
            }
        });
        // The watch of a link needs `inner`, which exists only from here on.
        inner.nodes.iter().for_each(|node| node.link.start());
        inner
    }
}
