use std::sync::Arc;

use futures_util::{StreamExt, stream::FuturesUnordered};

use super::{batch::Batch, queue::RenewalQueue};
use crate::{clock::Instant, store::LockStore};

/// The task behind a [`RenewalQueue`].
///
/// Renewals under way are polled next to the timer, so that one that hangs delays no deadline and no other renewal.
#[derive(Debug)]
pub(super) struct RenewalTask {
    queue: Arc<RenewalQueue>,
    finished: bool,
}

impl RenewalTask {
    pub(super) fn new(queue: Arc<RenewalQueue>) -> Self {
        Self { queue, finished: false }
    }

    pub(super) async fn run(mut self) {
        let mut on_their_way = FuturesUnordered::new();
        // It sleeps before it looks. If it looked at once, a lock that is released by then would end it, and a process
        // that takes one short lock after another would start a task for each.
        let mut alarm = self.queue.alarm();
        while let Some(at) = alarm {
            tokio::select! {
                () = tokio::time::sleep(at.remaining()) => {}
                () = self.queue.rearm.notified() => {}
                Some(batch) = on_their_way.next() => self.queue.renewed(&batch),
            }
            let (batches, next) = self.queue.due(Instant::now());
            on_their_way.extend(batches.into_iter().map(|batch| renew(Arc::clone(&self.queue.store), batch)));
            alarm = next;
        }
        self.finished = true;
    }
}

impl Drop for RenewalTask {
    fn drop(&mut self) {
        // The task was dropped with its runtime, and the next guard starts another. After a normal end, another task
        // may already run.
        if !self.finished {
            self.queue.abandoned();
        }
    }
}

/// The store moves each deadline as its confirmation arrives. So a confirmation in time counts, even if others are
/// late.
async fn renew(store: Arc<dyn LockStore>, batch: Batch) -> Batch {
    match tokio::time::timeout(batch.patience, store.renew(&batch.ownerships)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, locks = batch.ownerships.len(), "renewal failed, will retry"),
        Err(_) => tracing::debug!(locks = batch.ownerships.len(), "renewal hangs, will retry"),
    }
    batch
}
