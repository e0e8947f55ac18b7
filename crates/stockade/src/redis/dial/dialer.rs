use std::{
    fmt, slice,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
#[cfg(feature = "tls")]
use futures_util::{StreamExt, stream::FuturesUnordered};
use redis::{AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, PushInfo, aio::MultiplexedConnection};
use tokio::time::{sleep, timeout};

use super::{
    handshake_error::HandshakeError,
    outage::Outage,
    sentinel::{Address, Sentinels},
    server_info::{Expected, ServerInfo},
    succession::Succession,
};
use crate::redis::{
    ConnectError, Node,
    address::{self, Topology},
    link::MAX_IN_FLIGHT,
};

/// A handshake may take this long in all. Longer than a command may, so that most of the time without a server is spent
/// in a connection that waits for it rather than between two attempts: a server that thaws is found at once.
pub(in crate::redis) const HANDSHAKE: Duration = Duration::from_secs(2);

/// How long a server may be silent before it is asked whether it speaks TLS at all. Shorter than sentinels may be.
#[cfg(feature = "tls")]
const SLOW_TLS: Duration = Duration::from_millis(200);

/// Makes connections and checks what is at the other end.
pub(in crate::redis) struct Dialer {
    topology: Topology,
    sentinels: Option<Sentinels>,
    timeout: Duration,
    eviction: bool,
    expected: Expected,
    /// Whether the last primary that was seen takes writes for ever after it was replaced.
    unbounded: AtomicBool,
    outage: Outage,
}

/// Called by a connection's driver for every push.
pub(in crate::redis) type PushFn = Box<dyn Fn(PushInfo) + Send + Sync>;

/// A connection to a server that is fit to be used.
pub(in crate::redis) struct Opened {
    pub(in crate::redis) connection: MultiplexedConnection,
    pub(in crate::redis) run_id: Arc<str>,
    pub(in crate::redis) succession: Succession,
    pub(in crate::redis) place: Place,
}

/// Where a connection leads, as far as others may move it.
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

    /// What is known of the server's being away.
    pub(in crate::redis) fn outage(&self) -> &Outage {
        &self.outage
    }

    /// Whether both lead to one address of a single server, of whichever of its databases.
    #[cfg(feature = "redlock")]
    pub(in crate::redis) fn is_same_place(&self, other: &Self) -> bool {
        match (&self.topology, &other.topology) {
            (Topology::Single(one), Topology::Single(other)) => one.addr() == other.addr(),
            _ => false,
        }
    }

    /// Whether a server is accepted that may evict keys.
    pub(in crate::redis) fn may_evict(&self) -> bool {
        self.eviction
    }

    /// Whether the primary was seen to take writes for ever after it was replaced; false while none was seen.
    pub(in crate::redis) fn is_unbounded(&self) -> bool {
        self.unbounded.load(Ordering::Acquire)
    }

    /// Whether others decide which server is the primary.
    pub(in crate::redis) fn has_sentinels(&self) -> bool {
        matches!(self.topology, Topology::Sentinel { .. })
    }

    pub(in crate::redis) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The nodes by which a cluster is found; `None` unless it is one.
    pub(in crate::redis) fn seeds(&self) -> Option<&[ConnectionInfo]> {
        let Topology::Cluster { seeds, .. } = &self.topology else { return None };
        Some(seeds)
    }

    /// How to reach a node of the cluster.
    pub(in crate::redis) fn info_of(&self, place: &Node) -> Option<ConnectionInfo> {
        let Topology::Cluster { node, .. } = &self.topology else { return None };
        Some(node.at(&place.host, place.port))
    }

    /// Makes connections to one node of the cluster.
    pub(in crate::redis) fn to_node(&self, node: &Node) -> Option<Self> {
        let alone = Self::new(Topology::Single(self.info_of(node)?), self.timeout, self.eviction);
        Some(Self { expected: Expected::Node, ..alone })
    }

    /// A connection to the server, or to the primary as the sentinels know it.
    pub(in crate::redis) async fn open(&self, push: Option<PushFn>) -> Result<Opened, HandshakeError> {
        match &self.topology {
            Topology::Single(info) => self.open_at(info, push, Place::default()).await,
            Topology::Sentinel { node, .. } => {
                let Some(sentinels) = &self.sentinels else { return Err(HandshakeError::Timeout) };
                let primary = sentinels.look().await?;
                let info = node.at(&primary.host, primary.port);
                self.open_at(&info, push, Place { primary: Some(primary) }).await
            }
            Topology::Cluster { seeds, .. } => self.open_at(&seeds[0], push, Place::default()).await,
        }
    }

    async fn open_at(
        &self,
        info: &ConnectionInfo,
        push: Option<PushFn>,
        place: Place,
    ) -> Result<Opened, HandshakeError> {
        let mut connection = dial(info, push).await?;
        let (run_id, succession) = self.inspect(&mut connection).await?;
        Ok(Opened { connection, run_id, succession, place })
    }

    /// The run id of a server that is fit to be used, and what it does when it is replaced.
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
        Ok((info.field("run_id")?.into(), succession))
    }

    /// Connects, asks and closes, within the command time-out. Which run of a single server that is.
    pub(in crate::redis) async fn check(&self) -> Result<Option<Arc<str>>, HandshakeError> {
        let checked = Box::pin(self.check_all());
        #[cfg(feature = "tls")]
        let checked = async {
            tokio::select! {
                checked = checked => checked,
                () = Box::pin(self.found_plain()) => Err(HandshakeError::Tls(address::NO_TLS.to_owned())),
            }
        };
        checked.await
    }

    async fn check_all(&self) -> Result<Option<Arc<str>>, HandshakeError> {
        match &self.topology {
            Topology::Single(info) => self.check_at(slice::from_ref(info), self.open(None)).await.map(Some),
            Topology::Sentinel { sentinels, .. } => match self.check_at(sentinels, self.open(None)).await {
                // It may be promoted before the first lock is asked for; the link looks again.
                Ok(_) | Err(HandshakeError::NotPrimary { .. }) => Ok(None),
                Err(error) => Err(error),
            },
            Topology::Cluster { seeds, .. } => self.check_seeds(seeds).await.map(|()| None),
        }
    }

    /// One that can't be reached, that is a replica or that is no node says nothing about the others.
    async fn check_seeds(&self, seeds: &[ConnectionInfo]) -> Result<(), HandshakeError> {
        let check = |seed| self.check_at(slice::from_ref(seed), self.open_at(seed, None, Place::default()));
        let (mut has_node, mut worst) = (false, HandshakeError::Timeout);
        for checked in join_all(seeds.iter().map(check)).await {
            match checked {
                Ok(_) | Err(HandshakeError::NotPrimary { .. }) => has_node = true,
                Err(error @ HandshakeError::Kind(_)) => worst = error,
                Err(error) if error.is_final() => return Err(error),
                Err(_) if worst.is_final() => {}
                Err(error) => worst = error,
            }
        }
        if has_node { Ok(()) } else { Err(worst) }
    }

    /// A server that hangs up at once may be about to end, or want TLS: it is asked.
    async fn check_at(
        &self,
        places: &[ConnectionInfo],
        opening: impl Future<Output = Result<Opened, HandshakeError>>,
    ) -> Result<Arc<str>, HandshakeError> {
        let checked = async {
            match opening.await {
                Err(error) if error.is_hang_up() && address::is_wanted(places).await => {
                    Err(HandshakeError::Tls(address::ONLY_TLS.to_owned()))
                }
                opened => Ok(opened?.run_id),
            }
        };
        timeout(self.timeout, checked).await.unwrap_or(Err(HandshakeError::Timeout))
    }

    /// The refusal of a server that no waiting mends; the error itself when waiting may.
    pub(in crate::redis) fn refusal(&self, error: HandshakeError) -> Result<ConnectError, HandshakeError> {
        match error {
            // Nobody is known who would promote it. Behind sentinels and in a cluster somebody is.
            HandshakeError::NotPrimary { primary } if matches!(self.topology, Topology::Single(_)) => {
                Ok(ConnectError::Replica { primary })
            }
            error => error.into_refusal(),
        }
    }

    /// Returns when a server that is to speak TLS has been silent for a while and then answered without.
    #[cfg(feature = "tls")]
    async fn found_plain(&self) {
        sleep(SLOW_TLS.min(self.timeout / 2)).await;
        let places = match &self.topology {
            Topology::Single(info) => slice::from_ref(info),
            Topology::Sentinel { sentinels, .. } => sentinels,
            Topology::Cluster { seeds, .. } => seeds,
        };
        let mut asked: FuturesUnordered<_> = places.iter().map(|place| address::is_plain(place.addr())).collect();
        while let Some(plain) = asked.next().await {
            if plain {
                return;
            }
        }
        std::future::pending().await
    }

    /// Returns when the sentinels have made another server the primary than the one at `place`.
    pub(in crate::redis) async fn moved(&self, place: &Place) {
        if let (Some(sentinels), Some(primary)) = (&self.sentinels, &place.primary) {
            return sentinels.moved_from(primary).await;
        }
        let _ = place;
        std::future::pending().await
    }

    /// Waits between two attempts to connect, not longer than until there is news of a primary.
    pub(in crate::redis) async fn pause(&self, pause: Duration) {
        if let Some(sentinels) = &self.sentinels {
            let _ = timeout(pause, sentinels.news()).await;
            return;
        }
        sleep(pause).await;
    }

    /// Listens to those who know where the servers are, for as long as it is polled.
    pub(in crate::redis) async fn watch(&self) {
        if let Some(sentinels) = &self.sentinels {
            return sentinels.watch().await;
        }
        std::future::pending().await
    }
}

/// A connection to one server, about which nothing is known yet.
pub(in crate::redis) async fn dial(
    info: &ConnectionInfo,
    push: Option<PushFn>,
) -> Result<MultiplexedConnection, HandshakeError> {
    // The crate's own response time-out would drop a request's receiver, and a request without one is not written:
    // the order of commands on the connection would no longer be that of the calls.
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(HANDSHAKE))
        .set_response_timeout(None)
        .set_pipeline_buffer_size(MAX_IN_FLIGHT);
    let config = match push {
        Some(push) => config.set_push_sender(move |info: PushInfo| {
            push(info);
            Ok::<_, ()>(())
        }),
        None => config,
    };
    Client::open(info.clone())?.get_multiplexed_async_connection_with_config(&config).await.map_err(|error| {
        let database = info.redis_settings().db();
        let hung_up = error.is_connection_dropped() && !error.is_connection_refusal();
        if HandshakeError::is_of_database(&error) {
            HandshakeError::Database { database }
        } else if hung_up && matches!(info.addr(), ConnectionAddr::Tcp(..)) {
            HandshakeError::HungUp
        } else {
            error.into()
        }
    })
}

/// Where the servers are, without user and password.
impl fmt::Display for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.topology.fmt(f)
    }
}
