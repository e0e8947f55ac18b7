use std::time::Duration;

/// Safety against restarts beyond the answer of one server.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options {
    /// How long a run of the server must have served the namespace before it is asked for locks. Zero: not at all.
    pub(crate) quarantine: Duration,
}
