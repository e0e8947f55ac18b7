use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, PoisonError, RwLock, Weak},
};

use tokio::runtime::Handle;

use super::{acquire::Mailbox, inner::Inner, shard::Shard};
use crate::{
    redis::{Discovery, DiscoveryEvents, Node, Redis},
    resource::Bucket,
};

/// The primaries of a cluster, each connected to when a bucket of it is first asked for.
pub(super) struct Nodes {
    redis: Redis,
    pub(super) fleet: Discovery,
    table: RwLock<Table>,
    inner: Weak<Inner>,
    runtime: Handle,
}

struct Table {
    /// By bucket; `None` until it is asked for.
    owners: [Option<Arc<Shard>>; 256],
    open: HashMap<Node, Arc<Shard>>,
    opened: u32,
}

impl Nodes {
    /// `None` unless `redis` is a cluster.
    pub(super) fn open(redis: &Redis, inner: &Weak<Inner>) -> Option<Self> {
        let fleet = Discovery::open(redis, Arc::new(Watcher(Weak::clone(inner))))?;
        let table = Table { owners: [const { None }; 256], open: HashMap::new(), opened: 0 };
        let (redis, inner, runtime) = (redis.clone(), Weak::clone(inner), Handle::current());
        Some(Self { redis, fleet, table: RwLock::new(table), inner, runtime })
    }

    pub(super) fn of(&self, bucket: Bucket) -> Option<Arc<Shard>> {
        let index = usize::from(bucket.index());
        if let Some(shard) = &self.table.read().unwrap_or_else(PoisonError::into_inner).owners[index] {
            return Some(Arc::clone(shard));
        }
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        // Asked with the table closed to others: what changes meanwhile finds what is entered here.
        let shard = self.shard_on(&mut table, &self.fleet.owner(bucket)?)?;
        table.owners[index] = Some(Arc::clone(&shard));
        Some(shard)
    }

    fn shard_on(&self, table: &mut Table, node: &Node) -> Option<Arc<Shard>> {
        if let Some(shard) = table.open.get(node) {
            return Some(Arc::clone(shard));
        }
        table.opened += 1;
        // A guard that is dropped outside of a runtime may be the first to ask.
        let _runtime = self.runtime.enter();
        let shard = Shard::of_node(table.opened, &self.redis.node(node)?, node, &self.inner);
        table.open.insert(node.clone(), Arc::clone(&shard));
        Some(shard)
    }

    /// Those that are connected to, or tried.
    pub(super) fn all(&self) -> Vec<Arc<Shard>> {
        self.table.read().unwrap_or_else(PoisonError::into_inner).open.values().cloned().collect()
    }

    /// All that serve buckets.
    pub(super) fn every(&self) -> Vec<Arc<Shard>> {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        self.fleet.nodes().iter().filter_map(|node| self.shard_on(&mut table, node)).collect()
    }

    pub(super) fn has(&self, shard: &Shard, bucket: Bucket) -> bool {
        self.fleet.owner(bucket).as_ref() == shard.node.as_ref()
    }

    /// Forgets where buckets were that have gone elsewhere, and the nodes that have none left. Returns those buckets.
    fn leave(&self) -> Vec<Bucket> {
        let nodes = self.fleet.nodes();
        let mut left = Vec::new();
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        for bucket in (0..=u8::MAX).map(Bucket::from_index) {
            let owner = &mut table.owners[usize::from(bucket.index())];
            if let Some(shard) = owner.take_if(|shard| !self.has(shard, bucket)) {
                shard.left(bucket);
                left.push(bucket);
            }
        }
        table.open.retain(|node, _| nodes.contains(node));
        left
    }
}

impl Inner {
    /// Whoever waits for a resource that moved asks at its new place, and what is held there is asked about: a node that
    /// took over from one that failed may know less.
    fn moved(self: &Arc<Self>, nodes: &Nodes) {
        let left = nodes.leave();
        self.held.recall_all(|key| left.contains(&key.bucket()));
        let mut places = Vec::new();
        for bucket in &left {
            let Some(shard) = nodes.of(*bucket) else { continue };
            shard.unsettle();
            if self.has_listened(*bucket) {
                self.listen_behind(&shard, *bucket);
            }
            places.push(shard);
        }
        places.sort_by_key(|shard| shard.id);
        places.dedup_by_key(|shard| shard.id);
        self.waiters.post_all(|key| left.contains(&key.bucket()), Mailbox::reconnected);
        places.iter().for_each(|shard| self.verify(shard));
    }
}

/// Doesn't keep the store: the discovery keeps this.
struct Watcher(Weak<Inner>);

impl DiscoveryEvents for Watcher {
    fn changed(&self) {
        if let Some(inner) = self.0.upgrade()
            && let Some(nodes) = inner.shards.nodes()
        {
            inner.moved(nodes);
        }
    }

    fn in_trouble(&self) -> bool {
        let Some(inner) = self.0.upgrade() else { return false };
        inner.shards.all().iter().any(|shard| !shard.is_well())
    }
}

impl fmt::Debug for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nodes").field("open", &self.all()).finish_non_exhaustive()
    }
}
