use std::collections::HashMap;

use super::{operation::Operation, reply::Reply};

/// The leases and invalidations in the order in which the server ran them. They alone decide whether a value is valid,
/// whatever the scripts have stored.
#[derive(Debug, Default)]
pub(super) struct History {
    now: u64,
    /// When each token was leased.
    leased: HashMap<String, u64>,
    /// When the key of each place was last invalidated.
    dropped: HashMap<usize, u64>,
    /// When each tag was last invalidated.
    tags: HashMap<&'static str, u64>,
    /// When the cache was last cleared.
    cleared: u64,
}

impl History {
    /// Notes a call. Fails if the call served or stored a value that was invalidated after its load was leased.
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
