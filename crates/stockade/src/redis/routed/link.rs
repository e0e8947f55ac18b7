use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{runtime::Handle, time::timeout};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    events::RoutedEvents,
    nodes::Nodes,
    server::{Server, ServerState},
};
use crate::{redis::LinkError, resource::Bucket};

/// The connections of one role to all servers that have a part of its keys.
pub(crate) struct RoutedLink<S> {
    pub(super) servers: Servers<S>,
    pub(super) events: Arc<dyn RoutedEvents<S>>,
    pub(super) timeout: Duration,
    /// The buckets whose channels are kept subscribed, wherever they are.
    pub(super) listened: [AtomicBool; 256],
    /// Whether commands have stopped looking for another server.
    pub(super) retired: AtomicBool,
    /// Subscriptions that no caller waits for.
    pub(super) tasks: TaskTracker,
    pub(super) runtime: Handle,
    /// Ends the tasks, whether done or not.
    pub(super) ended: CancellationToken,
}

/// The servers, and which of them has which bucket.
pub(super) enum Servers<S> {
    Only(Arc<Server<S>>),
    Nodes(Box<Nodes<S>>),
}

impl<S: ServerState> RoutedLink<S> {
    /// The server that has the bucket; `None` while none is known.
    pub(crate) fn of(&self, bucket: Bucket) -> Option<Arc<Server<S>>> {
        match &self.servers {
            Servers::Only(server) => Some(Arc::clone(server)),
            Servers::Nodes(nodes) => nodes.of(bucket),
        }
    }

    /// Why the server of this bucket can't be used. If that server is not known: why all nodes of the cluster, or some
    /// of them, can't be.
    pub(crate) fn unfit(&self, bucket: Bucket) -> Option<Arc<str>> {
        match (self.of(bucket), &self.servers) {
            (Some(server), _) => server.link.unfit(),
            (None, Servers::Only(_)) => None,
            (None, Servers::Nodes(nodes)) => nodes.discovery.unfit(),
        }
    }

    /// The server that can run one script on all of these buckets; `None` if there is none.
    pub(crate) fn of_all(&self, mut buckets: impl Iterator<Item = Bucket>) -> Option<Arc<Server<S>>> {
        match &self.servers {
            Servers::Only(server) => Some(Arc::clone(server)),
            // In a cluster, all keys of a script must be in one slot.
            Servers::Nodes(nodes) => {
                let first = buckets.next()?;
                buckets.all(|bucket| bucket == first).then(|| nodes.of(first))?
            }
        }
    }

    /// The servers in use.
    pub(crate) fn all(&self) -> Vec<Arc<Server<S>>> {
        match &self.servers {
            Servers::Only(server) => vec![Arc::clone(server)],
            Servers::Nodes(nodes) => nodes.all(),
        }
    }

    /// All servers that have buckets, in use or not.
    pub(crate) fn every(&self) -> Vec<Arc<Server<S>>> {
        match &self.servers {
            Servers::Only(server) => vec![Arc::clone(server)],
            Servers::Nodes(nodes) => nodes.every(),
        }
    }

    /// Whether all servers in use are connected and answer. Nodes of a cluster are connected to on demand: until then
    /// it is enough that they are known.
    pub(crate) fn are_well(&self) -> bool {
        match &self.servers {
            Servers::Only(server) => server.is_well(),
            Servers::Nodes(nodes) => {
                !nodes.discovery.nodes().is_empty() && nodes.all().iter().all(|server| server.is_well())
            }
        }
    }

    /// Whether this is the server that has the bucket.
    pub(crate) fn has(&self, server: &Server<S>, bucket: Bucket) -> bool {
        match &self.servers {
            Servers::Only(only) => only.id == server.id,
            Servers::Nodes(nodes) => nodes.has(server, bucket),
        }
    }

    /// Whether buckets may move from one server to another.
    pub(crate) fn may_move(&self) -> bool {
        !matches!(self.servers, Servers::Only(_))
    }

    /// If this error may mean that a bucket has moved, asks the cluster again.
    pub(crate) fn suspect(&self, error: &LinkError) {
        let of_a_change = match error {
            LinkError::Timeout | LinkError::Lost | LinkError::Down | LinkError::Moved | LinkError::Moving => true,
            LinkError::Unsent { silent } => *silent,
            LinkError::Refused { code } => matches!(code.as_str(), "CLUSTERDOWN" | "READONLY" | "LOADING"),
            LinkError::Open { .. } | LinkError::NoScript | LinkError::Protocol { .. } => false,
        };
        if of_a_change {
            self.doubt();
        }
    }

    pub(crate) fn doubt(&self) {
        match &self.servers {
            Servers::Only(_) => {}
            Servers::Nodes(nodes) => nodes.discovery.doubt(),
        }
    }

    /// Returns once the cluster has been asked again which server has which bucket, or after `limit`.
    pub(crate) async fn asked_again(&self, limit: Duration) {
        match &self.servers {
            Servers::Only(_) => {}
            Servers::Nodes(nodes) => {
                let _ = timeout(limit, nodes.discovery.asked_again()).await;
            }
        }
    }

    /// Returns once the first attempt to connect to the server of this bucket has ended, or after `limit`. Without this
    /// wait, an attempt right after the start would be refused although the server is healthy.
    pub(crate) async fn attempted(&self, bucket: Bucket, limit: Duration) {
        let attempted = async {
            if let Servers::Nodes(nodes) = &self.servers {
                nodes.discovery.attempted().await;
            }
            if let Some(server) = self.of(bucket) {
                server.link.attempted().await;
            }
        };
        let _ = timeout(limit, attempted).await;
    }

    /// Makes commands for a bucket that is moving give up at once, see [`Redirects`](super::Redirects).
    pub(crate) fn retire(&self) {
        self.retired.store(true, Ordering::Release);
    }

    pub(super) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    /// Ends the tasks, waits up to `limit` for replies under way, then closes all connections.
    pub(crate) async fn shutdown(&self, limit: Duration) {
        self.ended.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        if let Servers::Nodes(nodes) = &self.servers {
            nodes.discovery.shutdown().await;
        }
        let servers = self.all();
        futures_util::future::join_all(servers.iter().map(|server| server.link.shutdown(limit))).await;
    }
}

impl<S: ServerState> fmt::Debug for RoutedLink<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RoutedLink").field("servers", &self.all()).finish_non_exhaustive()
    }
}
