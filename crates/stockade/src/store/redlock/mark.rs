use crate::clock::Instant;

/// Whether one server may store a value.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mark {
    /// The last request that may have taken the lock on the server, or still may. `None` if there is none.
    pub(super) sent: Option<Sent>,
    pub(super) answered: bool,
    /// The run of the server that was asked.
    pub(super) run: u64,
}

/// A request that may have taken the lock on one server, or still may.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) at: Instant,
    /// The number of the connection that carried the request. `None` if the link reconnected meanwhile.
    pub(super) generation: Option<u64>,
    /// When an earlier request was sent that got no answer before its connection was replaced. It may still arrive.
    pub(super) stray: Option<Instant>,
    /// From this time on the server stores nothing of this request, even if no release undoes it.
    pub(super) forgotten: Instant,
}

impl Sent {
    /// The same request, sent after `before`; `answered` says whether `before` was answered.
    ///
    /// A stray request stays one, however many later requests are answered.
    pub(super) fn after(self, before: Self, answered: bool) -> Self {
        let same = before.generation.is_some() && before.generation == self.generation;
        let stray = if answered || same { before.stray } else { Some(before.at) };
        Self { stray, ..self }
    }
}
