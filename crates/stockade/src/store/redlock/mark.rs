use super::sent::Sent;

/// What one server may hold of a value.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mark {
    /// The last sending that may have taken the lock there, or may yet; `None` when there is none.
    pub(super) sent: Option<Sent>,
    /// Whether it was answered.
    pub(super) answered: bool,
    /// The run of the server that was asked.
    pub(super) run: u64,
}
