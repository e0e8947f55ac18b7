use std::{fmt, sync::Arc, time::Duration};

#[cfg(feature = "redlock")]
use super::dial::process_of;
use super::{ConnectError, Pool, Source, address::TlsOptions, claims::Claims, dial::Dialer};
use crate::resource::{KeyError, Namespace};

/// The limits of a command time-out. Sums of several time-outs are within what clocks can count.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_secs(3600);

/// A Redis to build locks and caches on. Cheap to clone. The only connections of a handle are those of its pool: locks
/// and caches open their own.
#[derive(Clone)]
pub struct Redis {
    server: Arc<Server>,
    namespace: Namespace,
}

struct Server {
    pool: Option<Pool>,
    dialer: Dialer,
    /// Names the run of the single server that answered when the handle was made.
    #[cfg_attr(not(feature = "redlock"), expect(dead_code, reason = "asked for where several servers must differ"))]
    run_id: Option<Arc<str>>,
    claims: Arc<Claims>,
}

/// Settings of [`Redis`].
#[derive(Debug)]
#[must_use = "a builder does nothing until `connect()`"]
pub struct RedisBuilder {
    source: Source,
    tls: Option<TlsOptions>,
    timeout: Duration,
    eviction: bool,
}

impl RedisBuilder {
    /// How long one command may take from its sending, and how long [`RedisBuilder::connect`] may take in all. From 1 ms
    /// to 1 h; [`RedisBuilder::connect`] refuses anything else. Default 250 ms.
    ///
    /// While the connection delivers replies to other commands, a command may take four times as long: only a
    /// connection that is silent for this time counts as failed. The commands of a burst wait for their place on the
    /// connection before they are sent. A lock attempt waits there for as long as its own wait allows, any other
    /// command for at most twenty times this.
    pub fn command_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Accepts a server that may evict keys. Right for a cache, wrong for locks.
    pub fn allow_eviction(self) -> Self {
        Self { eviction: true, ..self }
    }

    /// Which authorities to trust over TLS, and which certificate to show. Default: the authorities of the operating
    /// system, and no certificate.
    #[cfg(feature = "tls")]
    pub fn tls(self, options: TlsOptions) -> Self {
        Self { tls: Some(options), ..self }
    }

    /// Checks configuration, credentials, TLS, the kind and version of the server, its role and its eviction policy.
    ///
    /// Returns within the command time-out. If the server can't be checked by then, the first connection of locks or
    /// caches makes the checks. A server that fails them is not used, and lock attempts report the reason as
    /// [`Unavailable::Unfit`](crate::lock::Unavailable::Unfit).
    ///
    /// # Errors
    ///
    /// [`ConnectError`] for problems that waiting can't mend. An unreachable server is no error, and neither is a
    /// replica that sentinels or a cluster may promote.
    pub async fn connect(self) -> Result<Redis, ConnectError> {
        if !(SHORTEST..=LONGEST).contains(&self.timeout) {
            let reason =
                format!("the command time-out is {:?}: it must be within {SHORTEST:?} and {LONGEST:?}", self.timeout);
            return Err(ConnectError::Config { reason });
        }
        let (topology, pool) = self.source.into_parts(self.tls.as_ref())?;
        let dialer = Dialer::new(topology, self.timeout, self.eviction);
        let run_id = match dialer.check().await {
            Ok(run_id) => run_id,
            Err(error) => {
                if let Some(refusal) = dialer.refusal(&error) {
                    return Err(refusal);
                }
                if dialer.outage.failed(error.is_final()) {
                    tracing::warn!(%error, server = %dialer, "Redis is not usable yet; going on without it");
                }
                None
            }
        };
        let server = Server { pool, dialer, run_id, claims: Arc::default() };
        Ok(Redis { server: Arc::new(server), namespace: Namespace::default() })
    }
}

impl Redis {
    /// [`RedisBuilder::connect`] with the default settings.
    ///
    /// # Errors
    ///
    /// [`ConnectError`].
    pub async fn connect(source: impl Into<Source>) -> Result<Self, ConnectError> {
        Self::builder(source).connect().await
    }

    /// A builder, to change settings before connecting.
    pub fn builder(source: impl Into<Source>) -> RedisBuilder {
        RedisBuilder { source: source.into(), tls: None, timeout: Duration::from_millis(250), eviction: false }
    }

    /// The same server with another first part for every key. Default `stockade`. A namespace does not
    /// separate two programs in Postgres, where the fence knows a resource by its kind and id only.
    ///
    /// # Panics
    ///
    /// If [`Redis::try_namespace`] would return an error.
    #[must_use]
    #[track_caller]
    pub fn namespace(self, name: &str) -> Self {
        match self.try_namespace(name) {
            Ok(redis) => redis,
            Err(error) => panic!("{error}"),
        }
    }

    /// [`Redis::namespace`] with a name that is known only when the program runs, such as a setting.
    ///
    /// # Errors
    ///
    /// [`KeyError::Name`] unless the name matches `[a-z0-9_-]+`.
    pub fn try_namespace(self, name: &str) -> Result<Self, KeyError> {
        Ok(Self { namespace: Namespace::new(name)?, ..self })
    }

    /// A pool of the same configuration for the application's own commands.
    ///
    /// `None` if you set certificates of your own behind sentinels or in a cluster: deadpool-redis can't use them
    /// there.
    #[must_use]
    pub fn pool(&self) -> Option<&Pool> {
        self.server.pool.as_ref()
    }

    /// Whether the keys are divided among several servers.
    pub(crate) fn is_cluster(&self) -> bool {
        self.server.dialer.seeds().is_some()
    }

    /// One node of the cluster; `None` unless it is one.
    pub(crate) fn node(&self, node: &super::Node) -> Option<Self> {
        let dialer = self.server.dialer.to_node(node)?;
        let server = Server { pool: None, dialer, run_id: None, claims: Arc::clone(&self.server.claims) };
        Some(Self { server: Arc::new(server), namespace: self.namespace.clone() })
    }

    pub(crate) fn key_prefix(&self) -> &Namespace {
        &self.namespace
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.server.dialer.timeout
    }

    /// Whether both are known to lead to the same server: by the same address, or by the same process when they were
    /// made.
    #[cfg(feature = "redlock")]
    pub(crate) fn is_same_server(&self, other: &Self) -> bool {
        let runs = self.server.run_id.as_ref().zip(other.server.run_id.as_ref());
        runs.is_some_and(|(one, other)| process_of(one) == process_of(other))
            || self.dialer().is_same_place(other.dialer())
    }

    pub(crate) fn may_evict(&self) -> bool {
        self.server.dialer.eviction
    }

    /// Whether the primary that was checked last goes on taking writes without limit after another one has replaced it.
    pub(crate) fn is_unbounded(&self) -> bool {
        self.server.dialer.is_unbounded()
    }

    /// Whether sentinels decide which server is the primary.
    pub(crate) fn has_sentinels(&self) -> bool {
        self.server.dialer.has_sentinels()
    }

    /// The names in use on this handle and its clones, whatever their namespace.
    pub(crate) fn claims(&self) -> &Arc<Claims> {
        &self.server.claims
    }

    pub(super) fn dialer(&self) -> &Dialer {
        &self.server.dialer
    }
}

/// Shows where the server is, without the password.
impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis")
            .field("server", &format_args!("{}", self.server.dialer))
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}
