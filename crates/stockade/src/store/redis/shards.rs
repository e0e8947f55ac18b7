use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::time::timeout;

use super::{commands::keys::Keys, inner::Inner, nodes::Nodes, shard::Shard};
use crate::{
    redis::{LinkError, Redis},
    resource::Bucket,
};

/// The servers of the store, and which of them has which bucket.
#[derive(Debug)]
pub(super) enum Shards {
    Only(Arc<Shard>),
    Nodes(Box<Nodes>),
}

impl Shards {
    /// `process` names the inbox.
    pub(super) fn new(redis: &Redis, keys: &Keys, process: &str, inner: &Weak<Inner>) -> Self {
        if let Some(nodes) = Nodes::open(redis, inner) {
            return Self::Nodes(Box::new(nodes));
        }
        let inbox = format!("{}{process}", keys.inbox_prefix());
        Self::Only(Shard::new(redis, inbox, inner))
    }

    /// Starts connecting; to the nodes of a cluster when they are asked for.
    pub(super) fn start(&self) {
        if let Self::Only(shard) = self {
            shard.link.start();
        }
    }

    /// The server that has the bucket; `None` while none is known.
    pub(super) fn of(&self, bucket: Bucket) -> Option<Arc<Shard>> {
        match self {
            Self::Only(shard) => Some(Arc::clone(shard)),
            Self::Nodes(nodes) => nodes.of(bucket),
        }
    }

    /// What the server of this bucket has against its use, or any server where that one is not known.
    pub(super) fn unfit(&self, bucket: Bucket) -> Option<Arc<str>> {
        match (self.of(bucket), self) {
            (Some(shard), _) => shard.link.unfit(),
            (None, Self::Only(_)) => None,
            (None, Self::Nodes(nodes)) => nodes.fleet.unfit(),
        }
    }

    /// The server that runs one script on all of these buckets; `None` when none does.
    pub(super) fn of_all(&self, mut buckets: impl Iterator<Item = Bucket>) -> Option<Arc<Shard>> {
        match self {
            Self::Only(shard) => Some(Arc::clone(shard)),
            // A script in a cluster has the keys of one slot.
            Self::Nodes(nodes) => {
                let first = buckets.next()?;
                buckets.all(|bucket| bucket == first).then(|| nodes.of(first))?
            }
        }
    }

    /// Those in use.
    pub(super) fn all(&self) -> Vec<Arc<Shard>> {
        match self {
            Self::Only(shard) => vec![Arc::clone(shard)],
            Self::Nodes(nodes) => nodes.all(),
        }
    }

    /// All that have buckets, in use or not.
    pub(super) fn every(&self) -> Vec<Arc<Shard>> {
        match self {
            Self::Only(shard) => vec![Arc::clone(shard)],
            Self::Nodes(nodes) => nodes.every(),
        }
    }

    /// Whether all in use are connected and answer. The nodes of a cluster are connected to when they are needed: until
    /// then it is enough that they are known.
    pub(super) fn are_well(&self) -> bool {
        match self {
            Self::Only(shard) => shard.is_well(),
            Self::Nodes(nodes) => !nodes.fleet.nodes().is_empty() && nodes.all().iter().all(|shard| shard.is_well()),
        }
    }

    /// Whether this is the server that has the bucket.
    pub(super) fn has(&self, shard: &Shard, bucket: Bucket) -> bool {
        match self {
            Self::Only(only) => only.id == shard.id,
            Self::Nodes(nodes) => nodes.has(shard, bucket),
        }
    }

    /// Whether buckets go from one server to another.
    pub(super) fn may_move(&self) -> bool {
        !matches!(self, Self::Only(_))
    }

    pub(super) fn nodes(&self) -> Option<&Nodes> {
        match self {
            Self::Only(_) => None,
            Self::Nodes(nodes) => Some(nodes),
        }
    }

    /// A bucket may have another server by now, if this went wrong for that reason: sees to it that this is found out.
    pub(super) fn suspect(&self, error: &LinkError) {
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

    pub(super) fn doubt(&self) {
        match self {
            Self::Only(_) => {}
            Self::Nodes(nodes) => nodes.fleet.doubt(),
        }
    }

    /// Returns when it was asked anew which server has which bucket, or after `limit`.
    pub(super) async fn asked_again(&self, limit: Duration) {
        match self {
            Self::Only(_) => {}
            Self::Nodes(nodes) => {
                let _ = timeout(limit, nodes.fleet.asked_again()).await;
            }
        }
    }

    /// Returns once the first attempt to connect to the server of this bucket has ended, or after `limit`: an attempt
    /// made right after the store was opened would otherwise be refused by a healthy server.
    pub(super) async fn attempted(&self, bucket: Bucket, limit: Duration) {
        let attempted = async {
            if let Self::Nodes(nodes) = self {
                nodes.fleet.attempted().await;
            }
            if let Some(shard) = self.of(bucket) {
                shard.link.attempted().await;
            }
        };
        let _ = timeout(limit, attempted).await;
    }

    pub(super) async fn shutdown(&self, limit: Duration) {
        if let Self::Nodes(nodes) = self {
            nodes.fleet.shutdown().await;
        }
        let shards = self.all();
        futures_util::future::join_all(shards.iter().map(|shard| shard.link.shutdown(limit))).await;
    }
}
