use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
};

use foldhash::HashMap;
use parking_lot::Mutex;

use crate::{
    clock::Instant,
    redis::{RoutedLink, Run},
    resource::Key,
    store::{
        LossReason, Owner, Ownership, Recall, Token,
        redis::shard::{Shard, ShardState},
    },
};

/// The ownerships of this process by owner, to find the one that a reply or a message of the server is about.
#[derive(Debug, Default)]
pub(crate) struct HeldTable {
    held: Mutex<HashMap<Owner, HeldOwnership>>,
    /// The owners of the last [`MOST_HANDED_OVER`] ownerships that were handed over.
    handed_over: Mutex<VecDeque<Owner>>,
}

/// How many handovers are remembered: more than one process makes while a message of the server waits in its inbox.
const MOST_HANDED_OVER: usize = 256;

#[derive(Debug)]
struct HeldOwnership {
    ownership: Weak<Ownership>,
    /// The run of the server that granted or last confirmed the ownership.
    run: Run,
    /// When an acquire command for the ownership was sent that may still arrive after the release.
    stray: Option<Instant>,
}

impl HeldTable {
    pub(crate) fn insert(&self, ownership: &Arc<Ownership>, run: Run, stray: Option<Instant>) {
        let held = HeldOwnership { ownership: Arc::downgrade(ownership), run, stray };
        self.held.lock().insert(ownership.owner.clone(), held);
    }

    /// Returns when an acquire command for the ownership was sent that may still arrive.
    pub(crate) fn remove(&self, owner: &Owner) -> Option<Instant> {
        self.held.lock().remove(owner).and_then(|held| held.stray)
    }

    /// When an acquire command for the ownership was sent that may still arrive.
    pub(crate) fn stray(&self, owner: &Owner) -> Option<Instant> {
        self.held.lock().get(owner).and_then(|held| held.stray)
    }

    /// Recalls an ownership because somebody waits for the resource.
    pub(crate) fn recall(&self, owner: &Owner) {
        let ownership = self.held.lock().get(owner).and_then(|held| held.ownership.upgrade());
        if let Some(ownership) = ownership {
            ownership.recall(Recall::Wanted);
        }
    }

    /// Recalls the shared ownerships on resources for which `of` is true, because this process no longer receives the
    /// messages that somebody waits for them.
    pub(crate) fn recall_all(&self, of: impl Fn(&Key) -> bool) {
        let held: Vec<_> = self.held.lock().values().filter_map(|held| held.ownership.upgrade()).collect();
        let recalled = held.iter().filter(|ownership| ownership.readers().is_some() && of(&ownership.key));
        recalled.for_each(|ownership| ownership.recall(Recall::Disconnected));
    }

    pub(crate) fn lose(&self, owner: &Owner, reason: LossReason) {
        // Its record stays for the release, which makes up for an acquire that may still arrive.
        let ownership = self.held.lock().get(owner).and_then(|held| held.ownership.upgrade());
        if let Some(ownership) = ownership {
            ownership.lose(reason);
        }
    }

    /// Whether the owner holds its resource with this token or a later one, or did until it was handed over. A grant
    /// may arrive late, when another server has granted the resource to the same owner again.
    pub(crate) fn knows(&self, owner: &Owner, token: Token) -> bool {
        let ownership = self.held.lock().get(owner).and_then(|held| held.ownership.upgrade());
        ownership.is_some_and(|ownership| ownership.token >= token) || self.handed_over.lock().contains(owner)
    }

    /// Leaves an ownership to another process to adopt. The owner is remembered, because the message of its grant may
    /// still be on its way to the inbox.
    pub(crate) fn hand_over(&self, owner: &Owner) {
        let mut handed_over = self.handed_over.lock();
        if handed_over.len() == MOST_HANDED_OVER {
            handed_over.pop_front();
        }
        handed_over.push_back(owner.clone());
        drop(handed_over);
        self.remove(owner);
    }

    /// Records that the server confirmed the ownership in this run.
    pub(crate) fn confirmed(&self, owner: &Owner, run: Run) {
        if let Some(held) = self.held.lock().get_mut(owner) {
            // Replies may be read out of order, so an older run must not replace a newer one.
            let older = held.run.server == run.server && held.run.number > run.number;
            held.run = if older { held.run } else { run };
        }
    }

    /// Ends an ownership that the server no longer has, as its run `run` said.
    pub(crate) fn gone(&self, ownership: &Ownership, run: Run) {
        let confirmed = self.held.lock().get(&ownership.owner).map(|held| held.run);
        let reason = match confirmed {
            Some(confirmed) if confirmed != run => LossReason::StoreLostData,
            _ => ownership.loss().unwrap_or(LossReason::Stolen),
        };
        ownership.lose(reason);
    }

    /// The ownerships on this server that were last granted or confirmed by another run of it, or by another server.
    pub(crate) fn unsure(&self, shards: &RoutedLink<ShardState>, shard: &Shard) -> Vec<Arc<Ownership>> {
        let run = shard.run();
        let mut table = self.held.lock();
        table.retain(|_, held| held.ownership.strong_count() > 0);
        let other = table.values().filter(|held| held.run != run).filter_map(|held| held.ownership.upgrade());
        let held = other.filter(|ownership| ownership.loss().is_none());
        held.filter(|ownership| shards.has(shard, ownership.key.bucket())).collect()
    }
}
