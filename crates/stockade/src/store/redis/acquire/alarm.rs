use crate::clock::Instant;

/// When a waiter looks whether the queue goes on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alarm {
    pub(super) at: Instant,
    /// When the waiter began to ask last; when it began to wait, if it has not asked since.
    pub(super) asked: Instant,
}

impl Alarm {
    /// Of an attempt that does not wait yet.
    pub(super) fn new(now: Instant) -> Self {
        Self { at: now, asked: now }
    }
}
