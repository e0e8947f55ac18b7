use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;

use super::subscriptions::Subscriptions;
use crate::{
    redis::{Link, LinkEvents, Node, Redis, Script, Up},
    resource::Bucket,
};

/// What the owner of a routed link keeps for each server.
pub(crate) trait ServerState: Default + Send + Sync + 'static {
    /// The connection leads to another run of the server than before. That run may know less, and may have another
    /// clock.
    fn new_run(&self) {}

    /// A connection is open to callers.
    fn opened(&self, _up: &Up) {}

    /// The bucket came here from another server.
    fn gained(&self, _bucket: Bucket) {}

    /// The bucket went to another server.
    fn left(&self, _bucket: Bucket) {}
}

/// For owners that keep nothing for a server.
impl ServerState for () {}

/// One server of a [`RoutedLink`](super::RoutedLink), with the facts about this server only. `S` is what the owner of
/// the link keeps for it.
pub(crate) struct Server<S> {
    /// Unique among the servers of a link, for ever.
    pub(crate) id: u32,
    pub(crate) link: Link,
    pub(crate) state: S,
    /// In a cluster, its address.
    pub(crate) node: Option<Node>,
    /// In a cluster, its subscriptions. Boxed for its size.
    pub(super) subscriptions: Option<Box<Subscriptions>>,
    /// Counts the runs of the server that the link has met.
    run: AtomicU64,
    run_id: Mutex<Option<Arc<str>>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) server: u32,
    pub(crate) number: u64,
}

/// A connection. The server runs the commands that were sent on one connection in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Carrier {
    server: u32,
    pub(super) connection: u64,
}

/// How the connections to each server are made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Role {
    pub(super) name: &'static str,
    pub(super) scripts: &'static [&'static Script],
}

impl<S: ServerState> Server<S> {
    /// A server that has all buckets. It connects once its link is started. `channels` are subscribed there.
    pub(super) fn only(redis: &Redis, role: Role, channels: Vec<String>, events: Arc<dyn LinkEvents>) -> Self {
        Self::with(0, Link::new(redis, role.name, channels, role.scripts, events))
    }

    /// A node of a cluster; `redis` leads to it alone. It connects once its link is started.
    pub(super) fn of_node(id: u32, redis: &Redis, node: &Node, role: Role, events: Arc<dyn LinkEvents>) -> Self {
        Self {
            node: Some(node.clone()),
            subscriptions: Some(Box::default()),
            ..Self::with(id, Link::new(redis, role.name, Vec::new(), role.scripts, events))
        }
    }

    fn with(id: u32, link: Link) -> Self {
        Self {
            id,
            link,
            state: S::default(),
            node: None,
            subscriptions: None,
            run: AtomicU64::new(0),
            run_id: Mutex::default(),
        }
    }

    pub(super) fn left(&self, bucket: Bucket) {
        if let Some(subscriptions) = &self.subscriptions {
            subscriptions.left(bucket);
        }
        self.state.left(bucket);
    }

    /// The link has connected to a run of the server.
    pub(super) fn met(&self, up: &Up) {
        *self.run_id.lock() = Some(Arc::clone(&up.run_id));
        if !up.new_run {
            return;
        }
        self.run.fetch_add(1, Ordering::AcqRel);
        self.state.new_run();
    }
}

impl<S> Server<S> {
    /// Whether it is connected and its circuit breaker lets commands through.
    pub(super) fn is_well(&self) -> bool {
        self.link.is_up() && self.link.breaker().refusing().is_none()
    }

    /// Whether it has only a part of the buckets, which may change.
    pub(crate) fn is_partial(&self) -> bool {
        self.node.is_some()
    }

    pub(crate) fn run(&self) -> Run {
        Run { server: self.id, number: self.run.load(Ordering::Acquire) }
    }

    /// The server's name for its run, set before the first command of a connection is sent. `None` before the first
    /// connection.
    pub(crate) fn run_id(&self) -> Option<Arc<str>> {
        self.run_id.lock().clone()
    }

    /// Whether a message in this bucket would reach this process.
    pub(crate) fn hears(&self, bucket: Bucket) -> bool {
        let Some(subscriptions) = &self.subscriptions else { return true };
        let connection = subscriptions.heard_on(bucket);
        connection != 0 && connection == self.link.generation()
    }

    /// Calls `start` to send on the command connection. Returns also which connection that was; `None` if it changed
    /// meanwhile.
    pub(crate) fn carried<T>(&self, start: impl FnOnce(&Link) -> T) -> (Option<Carrier>, T) {
        let before = self.link.generation();
        let started = start(&self.link);
        let same = self.link.generation() == before;
        (same.then_some(Carrier { server: self.id, connection: before }), started)
    }
}

impl<S> fmt::Debug for Server<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("id", &self.id).field("link", &self.link).finish_non_exhaustive()
    }
}
