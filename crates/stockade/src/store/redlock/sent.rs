use crate::clock::Instant;

/// A sending that may have taken the lock on one server, or may yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) at: Instant,
    /// The connection that carried it, as the link counts them; `None` if that changed meanwhile.
    pub(super) generation: Option<u64>,
    /// When an earlier sending was made that had no answer, on a connection that is gone: it may still arrive.
    pub(super) stray: Option<Instant>,
    /// After this nothing is left of it at the server, even if nobody undoes it.
    pub(super) forgotten: Instant,
}

impl Sent {
    /// The same sending behind another one, which was answered or not. One that strays goes on to do so, however many
    /// are answered after it.
    pub(super) fn after(self, before: Self, answered: bool) -> Self {
        let same = before.generation.is_some() && before.generation == self.generation;
        let stray = if answered || same { before.stray } else { Some(before.at) };
        Self { stray, ..self }
    }
}
