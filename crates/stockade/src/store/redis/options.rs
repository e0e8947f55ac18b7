use std::time::Duration;

use crate::redis::Replicas;

/// What a store on Redis asks for beyond the answer of one server.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options {
    /// Replicas that must have a grant before its holder enters.
    pub(crate) replicas: Option<Replicas>,
    /// How long a run of the server must have served the namespace before anything is asked of it.
    pub(crate) quarantine: Duration,
}
