use std::{fmt, sync::Arc, time::Duration};

use redis::{
    AsyncConnectionConfig, Client, ConnectionInfo, ErrorKind, PushInfo, RedisError, aio::MultiplexedConnection,
};

use super::flight::MAX_IN_FLIGHT;

/// A handshake may take this long in all. Longer than a command may, so that most of the time without a server is spent
/// in a connection that waits for it rather than between two attempts: a server that thaws is found at once.
pub(super) const HANDSHAKE: Duration = Duration::from_secs(2);

/// Why a connection was made but can't be used, or not made.
#[derive(Debug, thiserror::Error)]
pub(super) enum HandshakeError {
    #[error("the server refused the credentials")]
    Credentials,
    #[error("the server's maxmemory-policy `{policy}` may delete locks: set noeviction, or allow_eviction for a cache")]
    Evicts { policy: String },
    #[error("the server is a {role}, not the primary")]
    NotPrimary { role: String },
    #[error("the server's INFO lacks {field}")]
    Info { field: &'static str },
    #[error("no answer in time")]
    Timeout,
    #[error("the server was not prepared: {0}")]
    Prepare(#[from] super::LinkError),
    #[error(transparent)]
    Redis(RedisError),
}

impl From<RedisError> for HandshakeError {
    fn from(error: RedisError) -> Self {
        let refused = error.kind() == ErrorKind::AuthenticationFailed
            || matches!(error.code(), Some("WRONGPASS" | "NOAUTH"))
            || error.detail().is_some_and(|detail| detail.contains("WRONGPASS") || detail.contains("NOAUTH"));
        if refused { Self::Credentials } else { Self::Redis(error) }
    }
}

/// Makes connections to one server and checks what it is.
pub(super) struct Dialer {
    info: ConnectionInfo,
    timeout: Duration,
    eviction: bool,
}

/// Called by a connection's driver for every push.
pub(super) type PushFn = Box<dyn Fn(PushInfo) + Send + Sync>;

impl Dialer {
    pub(super) fn new(info: ConnectionInfo, timeout: Duration, eviction: bool) -> Self {
        Self { info, timeout, eviction }
    }

    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    pub(super) async fn dial(&self, push: Option<PushFn>) -> Result<MultiplexedConnection, HandshakeError> {
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
        Ok(Client::open(self.info.clone())?.get_multiplexed_async_connection_with_config(&config).await?)
    }

    /// The run id of a server that is fit to be used.
    pub(super) async fn inspect(&self, connection: &mut MultiplexedConnection) -> Result<Arc<str>, HandshakeError> {
        let info: String = redis::cmd("INFO").query_async(connection).await?;
        let role = field(&info, "role")?;
        if role != "master" {
            return Err(HandshakeError::NotPrimary { role: role.to_owned() });
        }
        let policy = field(&info, "maxmemory_policy")?;
        if policy != "noeviction" && !self.eviction {
            return Err(HandshakeError::Evicts { policy: policy.to_owned() });
        }
        Ok(field(&info, "run_id")?.into())
    }

    /// Connects, asks and closes.
    pub(super) async fn check(&self) -> Result<(), HandshakeError> {
        let mut connection = self.dial(None).await?;
        match self.inspect(&mut connection).await {
            // It may be promoted before the first lock is asked for; the link looks again.
            Ok(_) | Err(HandshakeError::NotPrimary { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// INFO names the eviction policy also where CONFIG is not allowed, and the role and run id beside it, in one command.
fn field<'a>(info: &'a str, name: &'static str) -> Result<&'a str, HandshakeError> {
    info.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .map(str::trim_end)
        .ok_or(HandshakeError::Info { field: name })
}

/// Where the server is, without user and password.
impl fmt::Display for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.info.addr(), self.info.redis_settings().db())
    }
}
