use std::sync::Arc;

use futures_util::{StreamExt, stream::FuturesUnordered};

use super::{batch::Batch, queue::RenewalQueue};
use crate::{clock::Instant, store::LockStore};

/// The task behind a [`RenewalQueue`].
///
/// Renewals on their way are polled beside the timer, so that one that hangs delays no deadline and no other renewal.
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
        loop {
            let (batches, next) = self.queue.due(Instant::now());
            let Some(next) = next else {
                self.finished = true;
                return;
            };
            on_their_way.extend(batches.into_iter().map(|batch| renew(Arc::clone(&self.queue.store), batch)));
            tokio::select! {
                () = tokio::time::sleep(next.remaining()) => {}
                () = self.queue.rearm.notified() => {}
                Some(batch) = on_their_way.next() => self.queue.renewed(&batch),
            }
        }
    }
}

impl Drop for RenewalTask {
    fn drop(&mut self) {
        // Dropped with its runtime: the next guard starts another. After its end another may run already.
        if !self.finished {
            self.queue.abandoned();
        }
    }
}

/// The store moves the deadline of each as its confirmation arrives: what came in time counts, whatever did not.
async fn renew(store: Arc<dyn LockStore>, batch: Batch) -> Batch {
    match tokio::time::timeout(batch.patience, store.renew(&batch.ownerships)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, locks = batch.ownerships.len(), "renewal failed, will retry"),
        Err(_) => tracing::debug!(locks = batch.ownerships.len(), "renewal hangs, will retry"),
    }
    batch
}
