use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

#[cfg(feature = "tls")]
use futures_util::{StreamExt, stream::FuturesUnordered};
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, ErrorKind, PushInfo, RedisError,
    aio::MultiplexedConnection,
};
use tokio::time::{sleep, timeout};

#[cfg(feature = "sentinel")]
use super::sentinel::{Address, Sentinels};
#[cfg(feature = "cluster")]
use super::slot_map::Node;
use super::{ConnectError, LinkError, Succession, flight::MAX_IN_FLIGHT, topology::Topology};

/// A handshake may take this long in all. Longer than a command may, so that most of the time without a server is spent
/// in a connection that waits for it rather than between two attempts: a server that thaws is found at once.
pub(super) const HANDSHAKE: Duration = Duration::from_secs(2);

/// How long a server may be silent before it is asked whether it speaks TLS at all. Shorter than sentinels may be.
#[cfg(feature = "tls")]
const SLOW_TLS: Duration = Duration::from_millis(200);

/// Why a connection was made but can't be used, or not made.
#[derive(Debug, thiserror::Error)]
pub(super) enum HandshakeError {
    #[error("the server refused the credentials")]
    Credentials,
    #[error("the server's maxmemory-policy `{policy}` may delete locks: set noeviction, or allow_eviction for a cache")]
    Evicts { policy: String },
    #[error("the server refuses this user {what} (NOPERM): grant what the documentation of `stockade::redis` lists")]
    Forbidden { what: String },
    #[error("the server has no database {database}")]
    Database { database: i64 },
    #[cfg(feature = "tls")]
    #[error("no TLS connection: {0}")]
    Tls(String),
    #[error("the server is a {role}, not the primary")]
    NotPrimary { role: String },
    #[error("the server's INFO lacks {field}")]
    Info { field: &'static str },
    #[error("no answer in time")]
    Timeout,
    #[error("the server hung up at once: if it is one that wants TLS, write `rediss://`")]
    HungUp,
    #[error("the server was not prepared: {0}")]
    Prepare(LinkError),
    #[cfg(feature = "sentinel")]
    #[error(transparent)]
    Sentinel(#[from] super::sentinel::LookError),
    #[error(transparent)]
    Redis(RedisError),
}

impl From<RedisError> for HandshakeError {
    fn from(error: RedisError) -> Self {
        let says =
            |text: &str| error.code() == Some(text) || error.detail().is_some_and(|detail| detail.contains(text));
        if error.kind() == ErrorKind::AuthenticationFailed || says("WRONGPASS") || says("NOAUTH") {
            return Self::Credentials;
        }
        if says("NOPERM") || says("no permissions") || says("The user executing the script") {
            return Self::forbidden(error.detail().unwrap_or_default());
        }
        #[cfg(feature = "tls")]
        if let Some(reason) = super::tls::explain(&error) {
            return Self::Tls(reason);
        }
        Self::Redis(error)
    }
}

impl From<LinkError> for HandshakeError {
    fn from(error: LinkError) -> Self {
        match &error {
            LinkError::Refused { code } if code == "NOPERM" => {
                Self::Forbidden { what: "the command `evalsha`, or the keys of its namespace".to_owned() }
            }
            _ => Self::Prepare(error),
        }
    }
}

impl HandshakeError {
    /// Of the server's words only the kind of thing, and the name of a command, which stands in quotation marks.
    fn forbidden(words: &str) -> Self {
        let what = match words.split('\'').nth(1) {
            Some(command) if words.contains("to run the") => format!("the command `{command}`"),
            _ if words.contains("channel") => "the channels of its namespace".to_owned(),
            _ if words.contains("keys") => "the keys of its namespace".to_owned(),
            // Scripts tell no name. The first publishes; before those after it are run, they are asked about.
            _ => "`publish`, or another command of a script".to_owned(),
        };
        Self::Forbidden { what }
    }

    /// The refusal of a configuration that no waiting mends; the error itself when waiting may.
    pub(super) fn into_refusal(self) -> Result<ConnectError, Self> {
        Ok(match self {
            Self::Credentials => ConnectError::Credentials,
            Self::Evicts { policy } => ConnectError::Evicts { policy },
            Self::Forbidden { what } => ConnectError::Forbidden { what },
            Self::Database { database } => ConnectError::Database { database },
            #[cfg(feature = "tls")]
            Self::Tls(reason) => ConnectError::Tls { reason },
            #[cfg(all(feature = "sentinel", feature = "tls"))]
            Self::Sentinel(super::sentinel::LookError::Tls(reason)) => ConnectError::Tls { reason },
            #[cfg(feature = "sentinel")]
            Self::Sentinel(error) if error.is_final() => ConnectError::Config { reason: error.to_string() },
            other => return Err(other),
        })
    }

    /// Whether somebody has to change the configuration.
    pub(super) fn is_final(&self) -> bool {
        match self {
            Self::Credentials | Self::Evicts { .. } | Self::Forbidden { .. } | Self::Database { .. } => true,
            #[cfg(feature = "tls")]
            Self::Tls(_) => true,
            #[cfg(feature = "sentinel")]
            Self::Sentinel(error) => error.is_final(),
            _ => false,
        }
    }
}

/// Makes connections and checks what is at the other end.
pub(super) struct Dialer {
    topology: Topology,
    #[cfg(feature = "sentinel")]
    sentinels: Option<Sentinels>,
    timeout: Duration,
    eviction: bool,
    /// Whether the last primary that was seen takes writes for ever after it was replaced.
    unbounded: AtomicBool,
}

/// Called by a connection's driver for every push.
pub(super) type PushFn = Box<dyn Fn(PushInfo) + Send + Sync>;

/// A connection to a server that is fit to be used.
pub(super) struct Opened {
    pub(super) connection: MultiplexedConnection,
    pub(super) run_id: Arc<str>,
    pub(super) succession: Succession,
    pub(super) place: Place,
}

/// Where a connection leads, as far as others may move it.
#[derive(Clone, Debug, Default)]
pub(super) struct Place {
    #[cfg(feature = "sentinel")]
    primary: Option<Address>,
}

impl Dialer {
    pub(super) fn new(topology: Topology, timeout: Duration, eviction: bool) -> Self {
        let topology = topology.with_link_settings();
        Self {
            #[cfg(feature = "sentinel")]
            sentinels: Sentinels::of(&topology),
            topology,
            timeout,
            eviction,
            unbounded: AtomicBool::new(false),
        }
    }

    /// Whether a server is accepted that may evict keys.
    pub(super) fn may_evict(&self) -> bool {
        self.eviction
    }

    /// Whether the primary was seen to take writes for ever after it was replaced; false while none was seen.
    pub(super) fn is_unbounded(&self) -> bool {
        self.unbounded.load(Ordering::Acquire)
    }

    /// Whether others decide which server is the primary.
    pub(super) fn has_sentinels(&self) -> bool {
        match &self.topology {
            Topology::Single(_) => false,
            #[cfg(feature = "sentinel")]
            Topology::Sentinel { .. } => true,
            #[cfg(feature = "cluster")]
            Topology::Cluster { .. } => false,
        }
    }

    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The nodes by which a cluster is found; `None` unless it is one.
    #[cfg(feature = "cluster")]
    pub(super) fn seeds(&self) -> Option<&[ConnectionInfo]> {
        let Topology::Cluster { seeds, .. } = &self.topology else { return None };
        Some(seeds)
    }

    /// How to reach a node of the cluster.
    #[cfg(feature = "cluster")]
    pub(super) fn info_of(&self, place: &Node) -> Option<ConnectionInfo> {
        let Topology::Cluster { node, .. } = &self.topology else { return None };
        Some(node.at(&place.host, place.port))
    }

    /// Makes connections to one node of the cluster.
    #[cfg(feature = "cluster")]
    pub(super) fn to_node(&self, node: &Node) -> Option<Self> {
        Some(Self::new(Topology::Single(self.info_of(node)?), self.timeout, self.eviction))
    }

    /// A connection to the server, or to the primary as the sentinels know it.
    pub(super) async fn open(&self, push: Option<PushFn>) -> Result<Opened, HandshakeError> {
        match &self.topology {
            Topology::Single(info) => self.open_at(info, push, Place::default()).await,
            #[cfg(feature = "sentinel")]
            Topology::Sentinel { node, .. } => {
                let Some(sentinels) = &self.sentinels else { return Err(HandshakeError::Timeout) };
                let primary = sentinels.look().await?;
                let info = node.at(&primary.host, primary.port);
                self.open_at(&info, push, Place { primary: Some(primary) }).await
            }
            #[cfg(feature = "cluster")]
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
        let role = field(&info, "role")?;
        if role != "master" {
            return Err(HandshakeError::NotPrimary { role: role.to_owned() });
        }
        let policy = field(&info, "maxmemory_policy")?;
        if policy != "noeviction" && !self.eviction {
            return Err(HandshakeError::Evicts { policy: policy.to_owned() });
        }
        let succession = Succession::of(&info, self.has_sentinels());
        self.unbounded.store(succession == Succession::Unbounded, Ordering::Release);
        Ok((field(&info, "run_id")?.into(), succession))
    }

    /// Connects, asks and closes, within the command time-out.
    pub(super) async fn check(&self) -> Result<(), HandshakeError> {
        let opened = timeout(self.timeout, self.open(None));
        #[cfg(feature = "tls")]
        let opened = async {
            tokio::select! {
                opened = opened => opened,
                () = self.found_plain() => Ok(Err(HandshakeError::Tls(super::tls::NO_TLS.to_owned()))),
            }
        };
        match opened.await {
            // It may be promoted before the first lock is asked for; the link looks again.
            Ok(Ok(_) | Err(HandshakeError::NotPrimary { .. })) => Ok(()),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(HandshakeError::Timeout),
        }
    }

    /// Returns when a server that is to speak TLS has been silent for a while and then answered without.
    #[cfg(feature = "tls")]
    async fn found_plain(&self) {
        sleep(SLOW_TLS.min(self.timeout / 2)).await;
        let places = match &self.topology {
            Topology::Single(info) => std::slice::from_ref(info),
            #[cfg(feature = "sentinel")]
            Topology::Sentinel { sentinels, .. } => sentinels,
            #[cfg(feature = "cluster")]
            Topology::Cluster { seeds, .. } => seeds,
        };
        let mut asked: FuturesUnordered<_> = places.iter().map(|place| super::tls::is_plain(place.addr())).collect();
        while let Some(plain) = asked.next().await {
            if plain {
                return;
            }
        }
        std::future::pending().await
    }

    /// Returns when the sentinels have made another server the primary than the one at `place`.
    pub(super) async fn moved(&self, place: &Place) {
        #[cfg(feature = "sentinel")]
        if let (Some(sentinels), Some(primary)) = (&self.sentinels, &place.primary) {
            return sentinels.moved_from(primary).await;
        }
        let _ = place;
        std::future::pending().await
    }

    /// Waits between two attempts to connect, not longer than until there is news of a primary.
    pub(super) async fn pause(&self, pause: Duration) {
        #[cfg(feature = "sentinel")]
        if let Some(sentinels) = &self.sentinels {
            let _ = timeout(pause, sentinels.news()).await;
            return;
        }
        sleep(pause).await;
    }

    /// Listens to those who know where the servers are, for as long as it is polled.
    pub(super) async fn watch(&self) {
        #[cfg(feature = "sentinel")]
        if let Some(sentinels) = &self.sentinels {
            return sentinels.watch().await;
        }
        std::future::pending().await
    }
}

/// A connection to one server, about which nothing is known yet.
pub(super) async fn dial(info: &ConnectionInfo, push: Option<PushFn>) -> Result<MultiplexedConnection, HandshakeError> {
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
        let unknown = ["out of range", "invalid DB index", "not allowed in cluster mode"];
        let detail = error.detail().unwrap_or_default();
        let hung_up = error.is_connection_dropped() && !error.is_connection_refusal();
        if unknown.iter().any(|text| detail.contains(text)) {
            HandshakeError::Database { database }
        } else if hung_up && matches!(info.addr(), ConnectionAddr::Tcp(..)) {
            HandshakeError::HungUp
        } else {
            error.into()
        }
    })
}

/// INFO names the eviction policy also where CONFIG is not allowed, and the role and run id beside it, in one command.
fn field<'a>(info: &'a str, name: &'static str) -> Result<&'a str, HandshakeError> {
    info.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .map(str::trim_end)
        .ok_or(HandshakeError::Info { field: name })
}

/// Where the servers are, without user and password.
impl fmt::Display for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.topology.fmt(f)
    }
}
