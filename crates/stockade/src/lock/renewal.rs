use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

use super::{
    cadence::Cadence,
    lane::{Added, Lane},
    renewer::Renewer,
};
use crate::{
    clock::Instant,
    store::{LockStore, LossReason, Ownership},
};

/// All ownerships that guards of one `Locks` hold: for each shard of the store a [`Lane`] with a task that renews them
/// and watches their deadlines.
///
/// A task runs while there is something to renew and ends after the last guard; the next one starts another.
#[derive(Debug)]
pub(super) struct Renewals {
    store: Arc<dyn LockStore>,
    cadence: Arc<Cadence>,
    lanes: Mutex<Lanes>,
    tasks: TaskTracker,
    /// The runtime this was made in, for guards made outside of one.
    home: Option<Handle>,
}

#[derive(Debug, Default)]
struct Lanes {
    by_shard: HashMap<u32, Arc<Lane>>,
    closed: bool,
}

/// What a guard removes when it goes.
#[derive(Debug)]
pub(super) struct Renewal {
    lane: Arc<Lane>,
    id: u64,
}

impl Renewal {
    /// Sets the longest hold of an ownership that is renewed already.
    pub(super) fn limit(&self, ends_at: Instant) {
        self.lane.limit(self.id, ends_at);
    }

    /// Ends the renewal. Nothing is sent for it from here on.
    pub(super) fn end(&self) {
        self.lane.remove(self.id);
    }
}

impl Renewals {
    pub(super) fn new(store: Arc<dyn LockStore>, home: Option<Handle>) -> Self {
        let tasks = TaskTracker::new();
        tasks.close();
        Self { store, cadence: Arc::new(Cadence::new()), lanes: Mutex::default(), tasks, home }
    }

    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lane of the shard that has the resource at present. It keeps the ownership when its slot moves on: what it
    /// sends then goes to the new shard, in a batch of its own.
    fn lane(&self, ownership: &Ownership) -> Arc<Lane> {
        let shard = self.store.shard(&ownership.key);
        let mut lanes = self.lanes();
        if let Some(lane) = lanes.by_shard.get(&shard) {
            return Arc::clone(lane);
        }
        // A node of a cluster that comes is another shard, also one that was there before: for each that comes, those go that
        // have nothing.
        lanes.by_shard.retain(|_, lane| !lane.retire());
        let lane = Arc::new(Lane::new(Arc::clone(&self.store), Arc::clone(&self.cadence)));
        if lanes.closed {
            lane.close();
        }
        lanes.by_shard.insert(shard, Arc::clone(&lane));
        lane
    }

    /// Renews an ownership from now on until that is ended, lost or as old as allowed.
    pub(super) fn add(&self, ownership: &Arc<Ownership>, ends_at: Option<Instant>) -> Renewal {
        loop {
            let lane = self.lane(ownership);
            let id = match lane.add(ownership, ends_at) {
                Added::Renewed { id, idle } => {
                    if idle {
                        self.start(&lane);
                    }
                    id
                }
                Added::Closed => {
                    ownership.lose(LossReason::Forced);
                    u64::MAX
                }
                // It was found, and went before it was used.
                Added::Retired => continue,
            };
            return Renewal { lane, id };
        }
    }

    fn start(&self, lane: &Arc<Lane>) {
        let renewer = Renewer::new(Arc::clone(lane));
        if let Some(runtime) = Handle::try_current().ok().as_ref().or(self.home.as_ref()) {
            self.tasks.spawn_on(renewer.run(), runtime);
        }
    }

    /// Takes all ownerships and accepts no more, for a shutdown.
    pub(super) fn close(&self) -> Vec<Arc<Ownership>> {
        let lanes: Vec<_> = {
            let mut lanes = self.lanes();
            lanes.closed = true;
            lanes.by_shard.values().cloned().collect()
        };
        lanes.iter().flat_map(|lane| lane.close()).collect()
    }

    #[cfg(test)]
    pub(super) fn shards(&self) -> usize {
        self.lanes().by_shard.len()
    }

    #[cfg(test)]
    pub(super) fn tasks(&self) -> usize {
        self.tasks.len()
    }

    /// Resolves when no task is left.
    pub(super) async fn ended(&self) {
        self.tasks.wait().await;
    }
}

impl Drop for Renewals {
    fn drop(&mut self) {
        self.lanes().by_shard.values().for_each(|lane| lane.rearm.notify_one());
    }
}
