use crate::metrics::{Counter, GROUP_CHANGES, GROUP_COMMITS, tag};

/// Counts the transactions of a [`GroupCommit`](super::GroupCommit) and the changes in them.
#[derive(Debug)]
pub(super) struct Tally {
    ok: Counter,
    changes: Counter,
    /// Rolled back, and its changes are made one by one.
    pub(super) apart: Counter,
    pub(super) error: Counter,
}

impl Default for Tally {
    fn default() -> Self {
        let ended = |outcome| Counter::of(GROUP_COMMITS, &[tag("outcome", outcome)]);
        let changes = Counter::of(GROUP_CHANGES, &[]);
        Self { ok: ended("ok"), changes, apart: ended("apart"), error: ended("error") }
    }
}

impl Tally {
    pub(super) fn ok(&self, changes: usize) {
        self.ok.count();
        self.changes.add(changes as u64);
    }
}
