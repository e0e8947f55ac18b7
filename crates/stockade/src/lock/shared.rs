use std::{fmt, sync::Arc, time::Duration};

use tokio::runtime::Handle;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{LocksBuilder, delegations::Delegations, renewal::Renewals, series::AllSeries};
use crate::store::{LockStore, LossReason};

/// The time limit of the last releases in a shutdown.
const LAST_RELEASES: Duration = Duration::from_secs(1);

/// What all handles, requests and guards of one [`Locks`](super::Locks) share.
pub(super) struct Shared {
    pub(super) store: Arc<dyn LockStore>,
    pub(super) lease: Duration,
    pub(super) max_waiters: u32,
    pub(super) renewals: Arc<Renewals>,
    pub(super) series: AllSeries,
    /// The delegations, if the store can recall them and they are enabled.
    pub(super) delegations: Option<Arc<Delegations>>,
    /// Ends all waits: no more grants.
    pub(super) closing: CancellationToken,
    /// Cancelled when a shutdown has reached its limit, right before it takes away the locks that are left.
    #[cfg(feature = "axum")]
    pub(super) taken_away: CancellationToken,
    /// One token per ownership that a guard holds, and per handler of a write that goes on without its lock.
    pub(super) guards: TaskTracker,
    /// Work under guards that outlives its caller.
    pub(super) tasks: TaskTracker,
    /// Values that `route_lock` keeps with the locks.
    #[cfg(feature = "axum")]
    pub(super) extensions: http::Extensions,
}

impl Shared {
    pub(super) fn new(store: Arc<dyn LockStore>, settings: LocksBuilder) -> Self {
        let home = Handle::try_current().ok();
        let renewals = Arc::new(Renewals::new(Arc::clone(&store), home.clone()));
        let (closing, guards, tasks) = (CancellationToken::new(), TaskTracker::new(), TaskTracker::new());
        guards.close();
        tasks.close();
        let delegations = home
            .filter(|_| settings.delegate && store.delegates())
            .map(|home| Arc::new(Delegations::new(&store, &renewals, &closing, &tasks, &home, settings.delegation)));
        Self {
            store,
            lease: settings.lease,
            max_waiters: settings.max_waiters,
            renewals,
            series: AllSeries::new(settings.observer),
            delegations,
            closing,
            #[cfg(feature = "axum")]
            taken_away: CancellationToken::new(),
            guards,
            tasks,
            #[cfg(feature = "axum")]
            extensions: settings.extensions,
        }
    }

    fn end_delegations(&self) {
        if let Some(delegations) = &self.delegations {
            delegations.close();
        }
    }

    pub(super) async fn shutdown(&self, limit: Duration) {
        self.closing.cancel();
        self.end_delegations();
        let started = tokio::time::Instant::now();
        // Renewal goes on: a holder that still works keeps its lock until the limit.
        let _ = tokio::time::timeout(limit, self.guards.wait()).await;
        #[cfg(feature = "axum")]
        self.taken_away.cancel();
        for ownership in self.renewals.close() {
            // The lock is taken from its holder by decision, as an administrator would take it.
            ownership.lose(LossReason::Forced);
            // Given back once, here or by its guard or delegation; and not at all if it was handed over meanwhile.
            if ownership.give_back() {
                self.store.release_detached(ownership);
            }
        }
        let left = limit.saturating_sub(started.elapsed()).max(LAST_RELEASES);
        self.store.shutdown(left).await;
        // A task of a runtime that nobody drives any more does not end.
        let _ = tokio::time::timeout(LAST_RELEASES, self.renewals.ended()).await;
        // A holder whose lock was taken knows it by now. Work that is left may still wait for a commit.
        let _ = tokio::time::timeout(LAST_RELEASES, self.tasks.wait()).await;
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // No guard is left, and no request can come.
        self.end_delegations();
    }
}

/// Shows the settings only.
impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("lease", &self.lease)
            .field("max_waiters", &self.max_waiters)
            .finish_non_exhaustive()
    }
}
