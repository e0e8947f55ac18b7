use std::collections::HashMap;

use super::{operation::Operation, reply::Reply};

/// What was leased and what was invalidated, in the order in which the server was asked. By it alone a value is good or
/// not, whatever the scripts have noted.
#[derive(Debug, Default)]
pub(super) struct History {
    now: u64,
    /// By token.
    leased: HashMap<String, u64>,
    /// By place: the last time that its key was invalidated.
    dropped: HashMap<usize, u64>,
    /// By tag.
    tags: HashMap<&'static str, u64>,
    /// The last time that the cache was cleared.
    cleared: u64,
}

impl History {
    /// Takes down what a call did, and fails when it served or stored what had been invalidated since its load began.
    pub(super) fn goes_on(&mut self, place: usize, step: &Operation, reply: &Reply) {
        self.now += 1;
        if let Some((value, tags)) = reply.gave(step) {
            let token = value.split(' ').next().unwrap_or_default();
            let since = self.leased[token];
            let dropped = self.dropped.get(&place).copied().unwrap_or_default();
            assert!(dropped < since, "{step:?} gave `{value}`, whose key was invalidated after it was leased");
            assert!(self.cleared < since, "{step:?} gave `{value}`, which was leased before the cache was cleared");
            for tag in tags.split('\n').filter(|tag| !tag.is_empty()) {
                let dropped = self.tags.get(tag).copied().unwrap_or_default();
                assert!(
                    dropped < since,
                    "{step:?} gave `{value}`, whose tag {tag} was invalidated after it was leased"
                );
            }
        }
        match step {
            Operation::Lease { token, .. } if reply.word == "LEASED" => {
                self.leased.insert(token.clone(), self.now);
            }
            Operation::Invalidate | Operation::Begin { .. } | Operation::End { .. } => {
                self.dropped.insert(place, self.now);
            }
            Operation::InvalidateTag { tag, .. } => drop(self.tags.insert(tag, self.now)),
            Operation::Clear { .. } => self.cleared = self.now,
            _ => {}
        }
    }
}
