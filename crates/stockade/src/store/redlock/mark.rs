use super::sent::Sent;

/// Whether one server may store a value.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mark {
    /// The last request that may have taken the lock on the server, or still may. `None` if there is none.
    pub(super) sent: Option<Sent>,
    /// Whether the server answered `sent`.
    pub(super) answered: bool,
    /// The run of the server that was asked.
    pub(super) run: u64,
}
