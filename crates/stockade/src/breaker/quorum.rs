use std::collections::BTreeMap;

use parking_lot::Mutex;

use super::series::{number, tell};

/// The breakers of the servers of a quorum.
///
/// In the metric each of them is `redlock_node`. The quorum has a name of its own, and the best state that as many
/// servers have as a quorum needs.
#[derive(Debug)]
pub(crate) struct Quorum {
    name: &'static str,
    needed: usize,
    number: u64,
    members: Mutex<BTreeMap<u64, usize>>,
}

impl Quorum {
    #[cfg_attr(not(feature = "redlock"), allow(dead_code, reason = "one server needs no quorum"))]
    pub(crate) fn new(name: &'static str, needed: usize) -> Self {
        Self { name, needed, number: number(), members: Mutex::default() }
    }

    /// As [`tell`], for a member.
    pub(super) fn tell(&self, number: u64, state: Option<usize>) {
        let mut members = self.members.lock();
        match state {
            Some(state) => members.insert(number, state),
            None => members.remove(&number),
        };
        let mut states: Vec<_> = members.values().copied().collect();
        states.sort_unstable();
        // Told under the mutex, so that the last change is the last that is told.
        tell(self.name, self.number, self.needed.checked_sub(1).and_then(|last| states.get(last)).copied());
    }
}
