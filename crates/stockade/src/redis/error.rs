use std::time::Duration;

/// Why [`Redis::connect`](super::Redis::connect) refused. An unreachable server is no error: the link starts down.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The URL or configuration can't be used.
    #[error("the Redis configuration is not usable: {reason}")]
    Config {
        /// The fault, without the password.
        reason: String,
    },
    /// The configuration needs a cargo feature that is not enabled.
    #[error("the Redis configuration needs the cargo feature `{feature}` of stockade: enable it in Cargo.toml")]
    Feature {
        /// The name of the feature.
        feature: &'static str,
    },
    /// The server refused the credentials.
    #[error("Redis refused the credentials: check user name and password")]
    Credentials,
    /// The server may not be used by this user.
    #[error("Redis refuses this user {what} (NOPERM): grant what the documentation of `stockade::redis` lists")]
    Forbidden {
        /// The commands, keys or channels that are not allowed.
        what: String,
    },
    /// The server has no database of this number.
    #[error("Redis has no database {database}: use one below the server's `databases` setting (16 by default), or 0")]
    Database {
        /// The number that was asked for.
        database: i64,
    },
    /// The server may evict keys, which would delete locks.
    #[error(
        "Redis runs with maxmemory-policy `{policy}`, which may delete a lock that is held: set `noeviction`, use another \
         server for locks, or build with `allow_eviction` if this one serves only as a cache"
    )]
    Evicts {
        /// The policy found.
        policy: String,
    },
    /// The server is a replica, and no sentinel or cluster is known that could promote it.
    #[error(
        "Redis at this address is a replica of {primary}, where nothing can be locked: name the primary, or with \
         `redis-sentinel://` the sentinels that know it"
    )]
    Replica {
        /// The address of its primary, as the server says it.
        primary: String,
    },
    /// The server is of another kind than the URL says.
    #[error("Redis at this address is {found}: {remedy}")]
    Kind {
        /// The kind of server that was found.
        found: &'static str,
        /// The remedy.
        remedy: &'static str,
    },
    /// The server lacks commands that the scripts need.
    #[error("Redis at this address is version {found}: 7.0 or newer is needed")]
    Version {
        /// The version that the server reports.
        found: String,
    },
    /// No TLS connection can be made with this server.
    #[error("no TLS connection to Redis: {reason}")]
    Tls {
        /// The cause and the remedy.
        reason: String,
    },
}

impl ConnectError {
    pub(super) fn config(reason: &str) -> Self {
        Self::Config { reason: reason.to_owned() }
    }
}

/// Why a command on the link has no usable reply.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum LinkError {
    /// Sent, and no reply within the command time-out: it may still be executed.
    #[error("no reply within the command time-out")]
    Timeout,
    /// No place on the wire in time: certainly not sent. `silent` if the connection owed a reply for a whole command
    /// time-out. Otherwise the connection had too much to do.
    #[error("{}", if *silent { "no reply within the command time-out" } else { "no place on the wire in time" })]
    Unsent { silent: bool },
    /// Written, but the connection ended before the reply: the command may have been executed.
    #[error("the connection ended before the reply")]
    Lost,
    /// There is no connection: certainly not executed.
    #[error("no connection")]
    Down,
    /// The breaker is open: certainly not sent.
    #[error("circuit breaker open")]
    Open { retry_after: Duration },
    /// NOSCRIPT: not executed. The link has already sent its scripts again, or did so within the last second.
    #[error("the server had lost its scripts")]
    NoScript,
    /// MOVED: not executed, because another node of the cluster serves the slot.
    #[error("another node serves the slot")]
    Moved,
    /// ASK or TRYAGAIN: not executed, because the slot is moving to another node. That node executes the command once
    /// the whole slot has arrived.
    #[error("the slot is on its way to another node")]
    Moving,
    /// LOADING, READONLY, OOM, NOPERM, CLUSTERDOWN and the like: not executed.
    #[error("the server refused: {code}")]
    Refused { code: String },
    /// A reply that the caller could not parse.
    #[error("unexpected reply to {op}")]
    Protocol { op: &'static str },
}

impl LinkError {
    /// Whether the command was certainly not executed and never will be. False for NOSCRIPT: such a command is sent
    /// again.
    pub(crate) fn is_never_executed(&self) -> bool {
        matches!(self, Self::Unsent { .. } | Self::Down | Self::Open { .. } | Self::Moved | Self::Moving)
    }
}
