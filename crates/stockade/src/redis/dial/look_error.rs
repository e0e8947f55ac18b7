/// Why no primary was found.
#[derive(Clone, Debug, thiserror::Error)]
pub(in crate::redis) enum LookError {
    #[error("no sentinel answers")]
    Silence,
    #[error(
        "the sentinels hung up at once: if they want TLS, write `rediss-sentinel://`; if they are in protected mode, \
         give their user a password"
    )]
    HungUp,
    #[error("no TLS connection to a sentinel: {0}")]
    Tls(String),
    #[error("the sentinels refused the credentials: give `sentinel_username` and `sentinel_password`")]
    Credentials,
    #[error("the sentinels know no primary of the name `{name}`")]
    Unknown { name: String },
    #[error("the sentinels name different primaries")]
    Disagreement,
    #[error("what answers is no sentinel: write `redis://` for a single server, or name the sentinels' port (26379)")]
    NoSentinel,
    #[error("a sentinel can't be asked: {reason}")]
    Refused { reason: String },
}

impl LookError {
    /// Whether a person has to change the configuration.
    pub(super) fn is_final(&self) -> bool {
        matches!(self, Self::Credentials | Self::Unknown { .. } | Self::Tls(_) | Self::NoSentinel)
    }
}
