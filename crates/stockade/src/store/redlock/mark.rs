use crate::store::redis::parts::Sent;

/// Whether one server may store a value.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mark {
    /// The last request that may have taken the lock on the server, or still may. `None` if there is none. Its carrier
    /// is the number of the connection.
    pub(super) sent: Option<Sent<u64>>,
    pub(super) answered: bool,
    /// The run of the server that was asked.
    pub(super) run: u64,
}
