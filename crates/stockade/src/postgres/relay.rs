use std::{sync::Arc, time::Duration};

use sqlx::PgPool;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{RelayError, relaying::Worker, replay::Replay};
use crate::cache::Invalidator;

/// Applies the invalidations that their committers could not, and forgets old ones.
///
/// Run one in each process that writes, on the pool on which it begins its transactions. Only such a relay learns which
/// invalidations a commit has made itself. Relays elsewhere make each of them a second time, two seconds after the
/// commit, and so drop the values that were loaded since.
///
/// Relays share the work: each locks the rows that it applies and skips rows locked by another. Applying a row twice is
/// harmless. The relay survives outages of the cache and of Postgres; it tries again after 5 s at most.
///
/// A row is applied when it is 2 s old and its committer has not reported success. Applied rows are kept for 10
/// minutes, for [`Relay::reapply`]; rows that are marked together become one row. The gauge
/// `stockade_outbox_lag_seconds` is the age of the oldest row that waits for a relay of the process.
///
/// When the store of a cache comes up as a new run, it may be a replica that was promoted without the newest
/// invalidations. The relay then applies all kept rows again. If the store has replicas, the relay applies the rows
/// once more after 13 s, because the old primary may have accepted invalidations until then. A strict cache believes no
/// value of a new run until this is done.
///
/// If a cache refuses a row and takes others, the refused row does not delay the others. It is tried again after a
/// second, then after twice as long each time, at least once a minute. It counts in `stockade_outbox_refused_rows`
/// until it is applied, and a warning says when the first row is refused. No new run of a strict cache's store is
/// vouched for meanwhile.
///
/// Once a second the relay also reads the intents of strict caches, by one script for each cache, and ends every intent
/// whose transaction has ended: its writer died.
///
/// Dropping the relay stops it; [`Relay::shutdown`] also waits.
#[derive(Debug)]
#[must_use = "dropping the relay stops it"]
pub struct Relay {
    worker: Arc<Worker>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Relay {
    /// Starts a relay for these caches, see [`Cache::invalidator`](crate::cache::Cache::invalidator). Rows of other
    /// caches are left to the relays that know those.
    ///
    /// `pool` must be the pool of the transactions of this process, or a clone of it. With another pool, even to the
    /// same database, each invalidation is made twice.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn spawn(pool: PgPool, caches: impl IntoIterator<Item = Invalidator>) -> Self {
        let worker = Arc::new(Worker::new(pool, caches.into_iter().collect()));
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        tasks.spawn(Arc::clone(&worker).run(stop.clone()));
        tasks.close();
        Self { worker, tasks, stop }
    }

    /// Applies every kept row again, and returns how many invalidations there were. Use it when the store of a cache
    /// may hold values that were invalidated in the last 10 minutes, for instance after a backup was restored. For a
    /// new run of a store the relay does this by itself. If the future is dropped, some rows may not have been applied.
    ///
    /// # Errors
    ///
    /// [`RelayError`]. Call it again then.
    pub async fn reapply(&self) -> Result<u64, RelayError> {
        let Replay { rows, refusal, .. } = self.worker.reapply_all().await?;
        refusal.map_or(Ok(rows), Err)
    }

    /// Stops, and waits for it, `limit` at most. A round under way is cut off. Rows that are not applied stay in the
    /// outbox.
    pub async fn shutdown(self, limit: Duration) {
        self.stop.cancel();
        if tokio::time::timeout(limit, self.tasks.wait()).await.is_err() {
            tracing::warn!("the relay did not stop in time; its rows stay in the outbox");
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
