use std::sync::Arc;

use foldhash::HashMap;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

use super::{
    queue::{Added, RenewalQueue},
    schedule::Schedule,
    task::RenewalTask,
};
use crate::{
    clock::Instant,
    store::{LockStore, LossReason, Ownership},
};

/// All ownerships that the guards of one `Locks` hold. Each shard of the store has a [`RenewalQueue`] with a task that
/// renews them and watches their deadlines.
///
/// A task sleeps until something is due. If it then finds nothing left, it ends, and the next guard starts another.
#[derive(Debug)]
pub(in crate::lock) struct Renewals {
    store: Arc<dyn LockStore>,
    schedule: Arc<Schedule>,
    queues: Mutex<Queues>,
    tasks: TaskTracker,
    /// The runtime in which this was made.
    home: Option<Handle>,
}

#[derive(Debug, Default)]
struct Queues {
    by_shard: HashMap<u32, Arc<RenewalQueue>>,
    closed: bool,
}

/// A guard's entry. The guard removes it at its end.
#[derive(Debug)]
pub(in crate::lock) struct Renewal {
    queue: Arc<RenewalQueue>,
    id: u64,
}

impl Renewal {
    /// Sets the longest hold of an ownership that is already being renewed.
    pub(in crate::lock) fn limit(&self, ends_at: Instant) {
        self.queue.limit(self.id, ends_at);
    }

    /// Ends the renewal. No renewal is sent for it after this.
    pub(in crate::lock) fn end(&self) {
        self.queue.remove(self.id);
    }
}

impl Renewals {
    pub(in crate::lock) fn new(store: Arc<dyn LockStore>, home: Option<Handle>) -> Self {
        let tasks = TaskTracker::new();
        tasks.close();
        Self { store, schedule: Arc::new(Schedule::new()), queues: Mutex::default(), tasks, home }
    }

    /// The queue of the shard that has the resource now. The ownership stays in this queue when its slot moves: its
    /// renewals then go to the new shard, in a batch of their own.
    fn queue(&self, ownership: &Ownership) -> Arc<RenewalQueue> {
        let shard = self.store.shard(&ownership.key);
        let mut queues = self.queues.lock();
        if let Some(queue) = queues.by_shard.get(&shard) {
            return Arc::clone(queue);
        }
        // A node that joins a cluster is a new shard, even if it was in the cluster before. So whenever a queue is
        // made, the empty queues are removed.
        queues.by_shard.retain(|_, queue| !queue.retire());
        let queue = Arc::new(RenewalQueue::new(Arc::clone(&self.store), Arc::clone(&self.schedule)));
        if queues.closed {
            queue.close();
        }
        queues.by_shard.insert(shard, Arc::clone(&queue));
        queue
    }

    /// Renews an ownership from now on, until it is ended, lost or at the end of its longest hold.
    pub(in crate::lock) fn add(&self, ownership: &Arc<Ownership>, ends_at: Option<Instant>) -> Renewal {
        loop {
            let queue = self.queue(ownership);
            let id = match queue.add(ownership, ends_at) {
                Added::Renewed { id, idle } => {
                    if idle {
                        self.start(&queue);
                    }
                    id
                }
                Added::Closed => {
                    ownership.lose(LossReason::Forced);
                    u64::MAX
                }
                // The queue was retired between the look-up and its use.
                Added::Retired => continue,
            };
            return Renewal { queue, id };
        }
    }

    /// Starts the task of a queue at home. The runtime of the caller may stand still as soon as the caller has its
    /// guard. It is taken if there is no home, or if the home has ended.
    fn start(&self, queue: &Arc<RenewalQueue>) {
        let task = || RenewalTask::new(Arc::clone(queue)).run();
        if let Some(home) = &self.home {
            let is_dropped = self.tasks.spawn_on(task(), home).is_finished();
            if !is_dropped {
                return;
            }
        }
        if let Ok(runtime) = Handle::try_current()
            && (self.home.is_none() || queue.take_over())
        {
            self.tasks.spawn_on(task(), &runtime);
        }
    }

    /// Takes all ownerships, and accepts no more. For a shutdown.
    pub(in crate::lock) fn close(&self) -> Vec<Arc<Ownership>> {
        let queues: Vec<_> = {
            let mut queues = self.queues.lock();
            queues.closed = true;
            queues.by_shard.values().cloned().collect()
        };
        queues.iter().flat_map(|queue| queue.close()).collect()
    }

    #[cfg(test)]
    pub(in crate::lock) fn shards(&self) -> usize {
        self.queues.lock().by_shard.len()
    }

    #[cfg(test)]
    pub(in crate::lock) fn tasks(&self) -> usize {
        self.tasks.len()
    }

    /// Resolves once no task is left.
    pub(in crate::lock) async fn ended(&self) {
        self.tasks.wait().await;
    }
}

impl Drop for Renewals {
    fn drop(&mut self) {
        self.queues.lock().by_shard.values().for_each(|queue| queue.rearm.notify_one());
    }
}
