use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use redis::{ConnectionInfo, aio::MultiplexedConnection};
use tokio::time::{sleep, timeout};

use super::{
    connect::{PushFn, dial},
    handshake_error::HandshakeError,
    outage::Outage,
    sentinel::{Address, Sentinels},
    server_info::ServerInfo,
    succession::Succession,
};
use crate::redis::address::{Expected, Node, Topology};

/// Makes connections and checks the server at the other end.
pub(in crate::redis) struct Dialer {
    pub(super) topology: Topology,
    sentinels: Option<Sentinels>,
    pub(in crate::redis) timeout: Duration,
    pub(in crate::redis) eviction: bool,
    expected: Expected,
    /// Whether the primary that was checked last goes on taking writes without limit after another one has replaced it.
    unbounded: AtomicBool,
    /// Whether the server is away, for the log.
    pub(in crate::redis) outage: Outage,
}

/// A connection to a server that is fit to be used.
pub(in crate::redis) struct Opened {
    pub(in crate::redis) connection: MultiplexedConnection,
    pub(in crate::redis) run_id: Arc<str>,
    pub(in crate::redis) succession: Succession,
    pub(in crate::redis) place: Place,
}

/// Which server a connection leads to, if sentinels may name another one.
#[derive(Clone, Debug, Default)]
pub(in crate::redis) struct Place {
    primary: Option<Address>,
}

impl Dialer {
    pub(in crate::redis) fn new(topology: Topology, timeout: Duration, eviction: bool) -> Self {
        let topology = topology.with_link_settings();
        Self {
            expected: topology.expected(),
            sentinels: Sentinels::of(&topology),
            topology,
            timeout,
            eviction,
            unbounded: AtomicBool::new(false),
            outage: Outage::default(),
        }
    }

    /// The primary that the sentinels named last, for people. `None` without sentinels.
    pub(in crate::redis) fn primary(&self) -> Option<String> {
        self.sentinels.as_ref()?.primary()
    }

    /// Whether both lead to the same address of a single server, whatever the database.
    #[cfg(feature = "redlock")]
    pub(in crate::redis) fn is_same_place(&self, other: &Self) -> bool {
        match (&self.topology, &other.topology) {
            (Topology::Single(one), Topology::Single(other)) => one.addr() == other.addr(),
            _ => false,
        }
    }

    /// Whether the primary that was checked last goes on taking writes without limit after another one has replaced it.
    /// False before the first check.
    pub(in crate::redis) fn is_unbounded(&self) -> bool {
        self.unbounded.load(Ordering::Acquire)
    }

    pub(in crate::redis) fn has_sentinels(&self) -> bool {
        matches!(self.topology, Topology::Sentinel { .. })
    }

    /// The nodes that are asked for the other nodes of a cluster; `None` unless it is a cluster.
    pub(in crate::redis) fn seeds(&self) -> Option<&[ConnectionInfo]> {
        let Topology::Cluster { seeds, .. } = &self.topology else { return None };
        Some(seeds)
    }

    /// The address and settings to connect to a node of the cluster.
    pub(in crate::redis) fn info_of(&self, place: &Node) -> Option<ConnectionInfo> {
        let Topology::Cluster { node, .. } = &self.topology else { return None };
        Some(node.at(&place.host, place.port))
    }

    /// A dialer for one node of the cluster.
    pub(in crate::redis) fn to_node(&self, node: &Node) -> Option<Self> {
        let alone = Self::new(Topology::Single(self.info_of(node)?), self.timeout, self.eviction);
        Some(Self { expected: Expected::Node, ..alone })
    }

    /// A connection to the server, or to the primary that the sentinels name.
    pub(in crate::redis) async fn open(&self, push: Option<PushFn>) -> Result<Opened, HandshakeError> {
        match &self.topology {
            Topology::Single(info) => self.open_at(info, push, Place::default()).await,
            Topology::Sentinel { node, .. } => {
                let Some(sentinels) = &self.sentinels else { return Err(HandshakeError::Timeout) };
                let primary = sentinels.look().await?;
                let (info, place) = (node.at(&primary.host, primary.port), Place { primary: Some(primary) });
                tokio::select! {
                    opened = self.open_at(&info, push, place.clone()) => opened,
                    // The host of the old primary may be silent for the whole limit of an attempt.
                    () = self.moved(&place) => Err(HandshakeError::Moved),
                }
            }
            Topology::Cluster { seeds, .. } => self.open_at(&seeds[0], push, Place::default()).await,
        }
    }

    pub(super) async fn open_at(
        &self,
        info: &ConnectionInfo,
        push: Option<PushFn>,
        place: Place,
    ) -> Result<Opened, HandshakeError> {
        let mut connection = dial(info, push).await?;
        let (run_id, succession) = self.inspect(&mut connection).await?;
        Ok(Opened { connection, run_id, succession, place })
    }

    /// The run of a server that is fit to be used, and what the server does when it is replaced.
    async fn inspect(&self, connection: &mut MultiplexedConnection) -> Result<(Arc<str>, Succession), HandshakeError> {
        let info: String = redis::cmd("INFO").query_async(connection).await?;
        let info = ServerInfo(&info);
        info.is_a(self.expected)?;
        info.is_recent()?;
        info.is_primary()?;
        let policy = info.field("maxmemory_policy")?;
        if policy != "noeviction" && !self.eviction {
            return Err(HandshakeError::Evicts { policy: policy.to_owned() });
        }
        let succession = Succession::of(info.0, self.has_sentinels());
        self.unbounded.store(succession == Succession::Unbounded, Ordering::Release);
        Ok((info.run()?, succession))
    }

    /// Returns when the sentinels have made another server the primary than the one at `place`.
    pub(in crate::redis) async fn moved(&self, place: &Place) {
        if let (Some(sentinels), Some(primary)) = (&self.sentinels, &place.primary) {
            return sentinels.moved_from(primary).await;
        }
        std::future::pending().await
    }

    /// Waits between two attempts to connect. The wait ends early if the sentinels name another primary.
    pub(in crate::redis) async fn pause(&self, pause: Duration) {
        if let Some(sentinels) = &self.sentinels {
            let _ = timeout(pause, sentinels.news()).await;
            return;
        }
        sleep(pause).await;
    }

    /// Listens to the sentinels, if there are any, for as long as it is polled.
    pub(in crate::redis) async fn watch(&self) {
        if let Some(sentinels) = &self.sentinels {
            return sentinels.watch().await;
        }
        std::future::pending().await
    }
}

/// Where the servers are, without user and password.
impl fmt::Display for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.topology.fmt(f)
    }
}
