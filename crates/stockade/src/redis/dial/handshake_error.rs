use std::sync::Arc;

use redis::{ErrorKind, RedisError};

use super::look_error::LookError;
#[cfg(feature = "tls")]
use crate::redis::address;
use crate::redis::{
    ConnectError, LinkError,
    address::{Kind, NODE},
};

/// Why no connection was made, or why the one that was made can't be used.
#[derive(Debug, thiserror::Error)]
pub(in crate::redis) enum HandshakeError {
    #[error("the server refused the credentials")]
    Credentials,
    #[error("the server's maxmemory-policy `{policy}` may delete locks: set noeviction, or allow_eviction for a cache")]
    Evicts { policy: String },
    #[error("the server refuses this user {what} (NOPERM): grant what the documentation of `stockade::redis` lists")]
    Forbidden { what: String },
    #[error("the server has no database {database}")]
    Database { database: i64 },
    #[error("no TLS connection: {0}")]
    Tls(String),
    #[error("the server is a replica of {primary}, not the primary")]
    NotPrimary { primary: String },
    #[error(transparent)]
    Kind(Kind),
    #[error("the server is Redis {found}: 7.0 or newer is needed")]
    Version { found: String },
    #[error("the server's INFO lacks {field}")]
    Info { field: &'static str },
    #[error("no answer in time")]
    Timeout,
    #[error("the sentinels made another server the primary meanwhile")]
    Moved,
    #[error(
        "the server hung up at once: if it wants TLS, write `rediss://`; if it is in protected mode, give its user a \
         password"
    )]
    HungUp,
    #[error("the server was not prepared: {0}")]
    Prepare(LinkError),
    #[error(transparent)]
    Sentinel(#[from] LookError),
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
        // The text of this error is left out: it repeats the password.
        let text = error.to_string();
        if text.contains("HELLO") && ["unknown command", "doesn't support"].iter().any(|words| text.contains(words)) {
            return Self::Version { found: "before 6.0 (it does not know HELLO)".to_owned() };
        }
        if says("not allowed in cluster mode") {
            return Self::Kind(NODE);
        }
        #[cfg(feature = "tls")]
        if let Some(reason) = address::explain(&error) {
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
    /// Keeps only what was refused from the server's words, and the name of a command, which stands in quotation marks.
    fn forbidden(words: &str) -> Self {
        let what = match words.split('\'').nth(1) {
            Some(command) if words.contains("to run the") => format!("the command `{command}`"),
            _ if words.contains("channel") => "the channels of its namespace".to_owned(),
            _ if words.contains("keys") => "the keys of its namespace".to_owned(),
            // A refused script does not name the command. The first script publishes. The commands of the scripts after
            // it are checked before those scripts run.
            _ => "`publish`, or another command of a script".to_owned(),
        };
        Self::Forbidden { what }
    }

    /// The refusal that tells a person what to change in the configuration; `None` if waiting may mend the error.
    pub(super) fn refusal(&self) -> Option<ConnectError> {
        Some(match self {
            Self::Credentials => ConnectError::Credentials,
            Self::Evicts { policy } => ConnectError::Evicts { policy: policy.clone() },
            Self::Forbidden { what } => ConnectError::Forbidden { what: what.clone() },
            Self::Database { database } => ConnectError::Database { database: *database },
            Self::Kind(Kind { found, remedy }) => ConnectError::Kind { found, remedy },
            Self::Version { found } => ConnectError::Version { found: found.clone() },
            Self::Tls(reason) | Self::Sentinel(LookError::Tls(reason)) => ConnectError::Tls { reason: reason.clone() },
            Self::Sentinel(error) if error.is_final() => ConnectError::Config { reason: error.to_string() },
            _ => return None,
        })
    }

    pub(in crate::redis) fn is_final(&self) -> bool {
        self.refusal().is_some()
    }

    /// Whether the server closed the connection before it sent anything.
    pub(in crate::redis) fn is_hang_up(&self) -> bool {
        matches!(self, Self::HungUp | Self::Sentinel(LookError::HungUp))
    }

    /// Why a server that was reached can't be used; `None` if no server was reached.
    pub(in crate::redis) fn said(&self) -> Option<Arc<str>> {
        let was_reached = match self {
            Self::Timeout | Self::Moved => false,
            // Often the server is just shutting down.
            error if error.is_hang_up() => false,
            Self::Prepare(error) => matches!(error, LinkError::Refused { .. }),
            Self::Redis(error) => error.code().is_some(),
            Self::Sentinel(error) => !matches!(error, LookError::Silence),
            _ => true,
        };
        was_reached.then(|| self.to_string().into())
    }

    /// Whether the server answers that it has no such database.
    pub(in crate::redis) fn is_of_database(error: &RedisError) -> bool {
        // The last text is the answer of a sentinel, which has no databases.
        let unknown = ["out of range", "invalid DB index", "unknown command 'SELECT'"];
        unknown.iter().any(|text| error.detail().is_some_and(|detail| detail.contains(text)))
    }
}
