use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use parking_lot::RwLock;
use tokio::runtime::Handle;

use super::server::{Role, Server, ServerState};
use crate::{
    redis::{LinkEvents, Node, Redis, cluster::Discovery},
    resource::Bucket,
};

/// Makes the events of one server, which pass them on to the link's owner.
type EventsOf<S> = Box<dyn Fn(&Weak<Server<S>>) -> Arc<dyn LinkEvents> + Send + Sync>;

/// The primaries of a cluster, each connected to when a bucket of it is first asked for.
pub(super) struct Nodes<S> {
    redis: Redis,
    role: Role,
    pub(super) discovery: Discovery,
    table: RwLock<Table<S>>,
    events_of: EventsOf<S>,
    runtime: Handle,
}

struct Table<S> {
    /// By bucket; `None` until the bucket is asked for.
    owners: [Option<Arc<Server<S>>>; 256],
    open: HashMap<Node, Arc<Server<S>>>,
    opened: u32,
}

impl<S: ServerState> Nodes<S> {
    /// `None` unless `redis` is a cluster. Must be called within a tokio runtime.
    pub(super) fn new(redis: &Redis, role: Role, events_of: EventsOf<S>) -> Option<Self> {
        let discovery = Discovery::new(redis)?;
        let table = RwLock::new(Table { owners: [const { None }; 256], open: HashMap::new(), opened: 0 });
        Some(Self { redis: redis.clone(), role, discovery, table, events_of, runtime: Handle::current() })
    }

    pub(super) fn of(&self, bucket: Bucket) -> Option<Arc<Server<S>>> {
        let index = usize::from(bucket.index());
        if let Some(server) = &self.table.read().owners[index] {
            return Some(Arc::clone(server));
        }
        let mut table = self.table.write();
        // Looked up under the write lock. So a change that comes meanwhile finds the entry that is made here.
        let server = self.server_on(&mut table, &self.discovery.owner(bucket)?)?;
        table.owners[index] = Some(Arc::clone(&server));
        Some(server)
    }

    fn server_on(&self, table: &mut Table<S>, node: &Node) -> Option<Arc<Server<S>>> {
        if let Some(server) = table.open.get(node) {
            return Some(Arc::clone(server));
        }
        table.opened += 1;
        // The first to ask may be a guard that is dropped outside of a runtime.
        let _runtime = self.runtime.enter();
        let redis = self.redis.node(node)?;
        let server =
            Arc::new_cyclic(|server| Server::of_node(table.opened, &redis, node, self.role, (self.events_of)(server)));
        server.link.start();
        table.open.insert(node.clone(), Arc::clone(&server));
        Some(server)
    }

    /// The servers that are connected to, or that the link tries to connect to.
    pub(super) fn all(&self) -> Vec<Arc<Server<S>>> {
        self.table.read().open.values().cloned().collect()
    }

    /// All servers that have buckets. Connects to each of them.
    pub(super) fn every(&self) -> Vec<Arc<Server<S>>> {
        let mut table = self.table.write();
        self.discovery.nodes().iter().filter_map(|node| self.server_on(&mut table, node)).collect()
    }

    pub(super) fn has(&self, server: &Server<S>, bucket: Bucket) -> bool {
        self.discovery.owner(bucket).as_ref() == server.node.as_ref()
    }

    /// Removes the buckets that moved elsewhere from the table, and the nodes that have none left. Returns those
    /// buckets.
    pub(super) fn leave(&self) -> Vec<Bucket> {
        let nodes = self.discovery.nodes();
        let mut left = Vec::new();
        let mut table = self.table.write();
        for bucket in (0..=u8::MAX).map(Bucket::from_index) {
            let owner = &mut table.owners[usize::from(bucket.index())];
            if let Some(server) = owner.take_if(|server| !self.has(server, bucket)) {
                server.left(bucket);
                left.push(bucket);
            }
        }
        table.open.retain(|node, _| nodes.contains(node));
        left
    }
}
