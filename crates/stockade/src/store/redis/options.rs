use std::time::Duration;

use crate::redis::Replicas;

/// Safety against failovers and restarts beyond the answer of one server.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options {
    /// How many replicas must confirm a grant before its holder enters. `None` asks no replicas.
    pub(crate) replicas: Option<Replicas>,
    /// How long a run of the server must have served the namespace before it is asked for locks. Zero: not at all.
    pub(crate) quarantine: Duration,
}
