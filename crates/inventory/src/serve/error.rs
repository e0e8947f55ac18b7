use std::{io, net::SocketAddr, process::ExitCode};

use stockade::{cache::BuildError, redis::ConnectError};

use crate::config::{ConfigError, ConfigErrors, EX_CONFIG};

/// Why the service did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Settings can't be used.
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    /// A Redis server can't be used as it is configured.
    #[error("{variable} (or REDIS_URL) = {url:?}: {source}")]
    Redis {
        /// The variable that names the server.
        variable: &'static str,
        /// The address, without user and password.
        url: String,
        /// The fault.
        source: ConnectError,
    },
    /// The servers of the locks make no quorum.
    #[cfg(feature = "redlock")]
    #[error("LOCK_REDIS_URL: {0}")]
    Redlock(#[from] stockade::lock::RedlockError),
    /// Locks on a quorum are asked for in a build without them.
    #[cfg(not(feature = "redlock"))]
    #[error(
        "LOCK_REDIS_URL=redlock://…: this build has no Redlock: build it with the feature `redlock`, or use one Redis"
    )]
    NoRedlock,
    /// The lab is on, and the locks are on a cluster.
    #[error("LAB=on: its schemes can't lock on a cluster: point LOCK_REDIS_URL to one server, or set LAB=off")]
    LabOnCluster,
    /// Spans can't be exported as the variables say.
    #[error(transparent)]
    Traces(ConfigError),
    /// The cache can't be built on this Redis.
    #[error("CACHE_REDIS_URL (or REDIS_URL): {0}")]
    Cache(#[from] BuildError),
    /// The metrics recorder can't be installed.
    #[error("the metrics recorder can't be installed")]
    Metrics(#[from] metrics_exporter_prometheus::BuildError),
    /// A port can't be bound.
    #[error("{variable}={address}: can't listen there: choose another address or end what listens there")]
    Bind {
        /// The variable of the port.
        variable: &'static str,
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// Signals can't be waited for, or a listener has no address.
    #[error("the system refused")]
    Io(#[from] io::Error),
}

impl StartError {
    /// 78 where the configuration has to change, 1 otherwise.
    pub(super) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Metrics(_) | Self::Bind { .. } | Self::Io(_) => ExitCode::FAILURE,
            _ => ExitCode::from(EX_CONFIG),
        }
    }
}
