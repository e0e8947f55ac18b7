use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;

use super::mark::Mark;
use crate::store::{Owner, Ownership};

/// The values that this process holds, and the servers that may store them.
#[derive(Debug, Default)]
pub(super) struct HeldTable(Mutex<HashMap<Owner, HeldValue>>);

#[derive(Debug)]
struct HeldValue {
    ownership: Weak<Ownership>,
    marks: Vec<Mark>,
}

impl HeldTable {
    pub(super) fn insert(&self, ownership: &Arc<Ownership>, marks: Vec<Mark>) {
        let held = HeldValue { ownership: Arc::downgrade(ownership), marks };
        self.0.lock().insert(ownership.owner.clone(), held);
    }

    /// Removes an ownership and returns where it must be released; `None` if it was removed before.
    pub(super) fn remove(&self, owner: &Owner) -> Option<Vec<Mark>> {
        self.0.lock().remove(owner).map(|held| held.marks)
    }

    /// Changes the mark of one server, unless the ownership was removed.
    ///
    /// `change` runs under the lock of the table. A command that it sends is therefore written before the release,
    /// which removes the ownership first.
    pub(super) fn update<T>(&self, owner: &Owner, node: usize, change: impl FnOnce(&mut Mark) -> T) -> Option<T> {
        self.0.lock().get_mut(owner).and_then(|held| held.marks.get_mut(node)).map(change)
    }

    pub(super) fn all(&self) -> Vec<Arc<Ownership>> {
        let mut table = self.0.lock();
        table.retain(|_, held| held.ownership.strong_count() > 0);
        table.values().filter_map(|held| held.ownership.upgrade()).collect()
    }
}
