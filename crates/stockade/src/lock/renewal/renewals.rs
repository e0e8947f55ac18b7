use std::sync::Arc;

use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

use super::{queue::RenewalQueue, task::RenewalTask};
use crate::{
    clock::Instant,
    store::{LockStore, LossReason, Ownership},
};

/// All ownerships that the guards of one `Locks` hold, in a [`RenewalQueue`] with a task that renews them and watches
/// their deadlines.
///
/// The task sleeps until something is due. If it then finds nothing left, it ends, and the next guard starts another.
#[derive(Debug)]
pub(in crate::lock) struct Renewals {
    queue: Arc<RenewalQueue>,
    tasks: TaskTracker,
    /// The runtime in which this was made.
    home: Option<Handle>,
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
        Self { queue: Arc::new(RenewalQueue::new(store)), tasks, home }
    }

    /// Renews an ownership from now on, until it is ended, lost or at the end of its longest hold.
    pub(in crate::lock) fn add(&self, ownership: &Arc<Ownership>, ends_at: Option<Instant>) -> Renewal {
        let id = match self.queue.add(ownership, ends_at) {
            Some((id, idle)) => {
                if idle {
                    self.start(&self.queue);
                }
                id
            }
            None => {
                ownership.lose(LossReason::Forced);
                u64::MAX
            }
        };
        Renewal { queue: Arc::clone(&self.queue), id }
    }

    /// Starts the task of the queue at home. The runtime of the caller may stand still as soon as the caller has its
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
        self.queue.close()
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
        self.queue.rearm.notify_one();
    }
}
