use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use super::{
    shard::{Run, Shard},
    shards::Shards,
};
use crate::{
    clock::Instant,
    store::{LossReason, Owner, Ownership, Token},
};

/// What this process holds, for what the server says about it.
#[derive(Debug, Default)]
pub(super) struct HeldTable(Mutex<HashMap<Owner, Held>>);

#[derive(Debug)]
struct Held {
    ownership: Weak<Ownership>,
    /// The run of the server that granted or last confirmed it.
    run: Run,
    /// When an acquire of it was sent that may still arrive after its release.
    stray: Option<Instant>,
}

impl HeldTable {
    fn table(&self) -> MutexGuard<'_, HashMap<Owner, Held>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn insert(&self, ownership: &Arc<Ownership>, run: Run, stray: Option<Instant>) {
        let held = Held { ownership: Arc::downgrade(ownership), run, stray };
        self.table().insert(ownership.owner.clone(), held);
    }

    /// Returns when an acquire of it was sent that may still arrive.
    pub(super) fn remove(&self, owner: &Owner) -> Option<Instant> {
        self.table().remove(owner).and_then(|held| held.stray)
    }

    /// When an acquire of it was sent that may still arrive.
    pub(super) fn stray(&self, owner: &Owner) -> Option<Instant> {
        self.table().get(owner).and_then(|held| held.stray)
    }

    pub(super) fn lose(&self, owner: &Owner, reason: LossReason) {
        let held = self.table().remove(owner);
        if let Some(ownership) = held.and_then(|held| held.ownership.upgrade()) {
            ownership.lose(reason);
        }
    }

    pub(super) fn holds(&self, owner: &Owner, token: Token) -> bool {
        let table = self.table();
        let ownership = table.get(owner).and_then(|held| held.ownership.upgrade());
        ownership.is_some_and(|ownership| ownership.token == token)
    }

    /// The server confirmed it in this run.
    pub(super) fn confirmed(&self, owner: &Owner, run: Run) {
        if let Some(held) = self.table().get_mut(owner) {
            // Replies may be read in another order than they were made.
            let older = held.run.shard == run.shard && held.run.number > run.number;
            held.run = if older { held.run } else { run };
        }
    }

    /// The server doesn't know it any more.
    pub(super) fn gone(&self, ownership: &Ownership, run: Run) {
        let held = self.table().remove(&ownership.owner);
        let reason = match held {
            Some(held) if held.run != run => LossReason::StoreLostData,
            // What was released meanwhile is lost to nobody; the reason then goes unread.
            _ => ownership.loss().unwrap_or(LossReason::Stolen),
        };
        ownership.lose(reason);
    }

    /// All on this server that another run of it, or another server, granted or confirmed last.
    pub(super) fn unsure(&self, shards: &Shards, shard: &Shard) -> Vec<Arc<Ownership>> {
        let run = shard.run();
        let mut table = self.table();
        table.retain(|_, held| held.ownership.strong_count() > 0);
        let other = table.values().filter(|held| held.run != run).filter_map(|held| held.ownership.upgrade());
        other.filter(|ownership| shards.has(shard, ownership.key.bucket())).collect()
    }
}
