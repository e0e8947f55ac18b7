use crate::clock::Instant;

/// When a waiter checks whether the queue moves on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alarm {
    pub(super) at: Instant,
    /// When the waiter last began to ask. If it has not asked since it began to wait, when it began to wait.
    pub(super) asked: Instant,
}

impl Alarm {
    /// The alarm of an attempt that does not wait yet.
    pub(super) fn new(now: Instant) -> Self {
        Self { at: now, asked: now }
    }
}
