use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

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
    fn table(&self) -> MutexGuard<'_, HashMap<Owner, HeldValue>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn insert(&self, ownership: &Arc<Ownership>, marks: Vec<Mark>) {
        let held = HeldValue { ownership: Arc::downgrade(ownership), marks };
        self.table().insert(ownership.owner.clone(), held);
    }

    /// Removes an ownership and returns where it must be released; `None` if it was removed before.
    pub(super) fn remove(&self, owner: &Owner) -> Option<Vec<Mark>> {
        self.table().remove(owner).map(|held| held.marks)
    }

    /// Changes the mark of one server, unless the ownership was removed.
    ///
    /// `change` runs under the lock of the table. A command that it sends is therefore written before the release,
    /// which removes the ownership first.
    pub(super) fn update<T>(&self, owner: &Owner, node: usize, change: impl FnOnce(&mut Mark) -> T) -> Option<T> {
        self.table().get_mut(owner).and_then(|held| held.marks.get_mut(node)).map(change)
    }

    pub(super) fn all(&self) -> Vec<Arc<Ownership>> {
        let mut table = self.table();
        table.retain(|_, held| held.ownership.strong_count() > 0);
        table.values().filter_map(|held| held.ownership.upgrade()).collect()
    }
}
