use std::{sync::Arc, time::Duration};

use tokio_util::task::task_tracker::TaskTrackerToken;

use super::{renewal::Renewal, shared::Shared};
use crate::{
    clock::Instant,
    lock::Fence,
    metrics::{self, Tag},
    store::{LockError, Ownership, Released},
};

/// An ownership that guards share. It gives back when it is dropped, unless the store was asked to before
/// and has answered.
#[derive(Debug)]
pub(super) struct Held {
    fence: Fence,
    shared: Arc<Shared>,
    renewal: Renewal,
    since: Instant,
    state: State,
    _counted: TaskTrackerToken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Held,
    /// Renewal has ended and the hold time is recorded, but the store has not answered to a release.
    Releasing,
    Released,
}

impl Held {
    pub(super) fn new(
        shared: Arc<Shared>,
        ownership: Arc<Ownership>,
        max_hold: Option<Duration>,
        counted: TaskTrackerToken,
    ) -> Self {
        let since = Instant::now();
        let renewal = shared.renewals.add(&ownership, max_hold.map(|max| since + max));
        let fence = Fence { ownership, store: Arc::clone(&shared.store) };
        let held = Self { fence, shared, renewal, since, state: State::Held, _counted: counted };
        metrics::gauge_add(metrics::LOCKS_HELD, &held.tags(), 1.0);
        held
    }

    pub(super) fn fence(&self) -> &Fence {
        &self.fence
    }

    /// The longest time for which it is held from now on.
    pub(super) fn limit(&self, max_hold: Duration) {
        self.renewal.limit(Instant::now() + max_hold);
    }

    pub(super) async fn release(mut self) -> Result<Released, LockError> {
        self.stop();
        let released = self.shared.store.release(&self.fence.ownership).await;
        self.state = State::Released;
        released
    }

    /// Ends renewal before the release is sent, so that none can follow it.
    fn stop(&mut self) {
        if self.state != State::Held {
            return;
        }
        self.state = State::Releasing;
        self.fence.ownership.give_back();
        self.renewal.end();
        metrics::gauge_add(metrics::LOCKS_HELD, &self.tags(), -1.0);
        metrics::observe(metrics::LOCK_HOLD, &self.tags(), self.since.elapsed());
    }

    fn tags(&self) -> [Tag; 2] {
        [("lock", self.fence.key().label().clone()), metrics::tag("mode", self.fence.mode().as_str())]
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.stop();
        if self.state != State::Released {
            self.shared.store.release_detached(Arc::clone(&self.fence.ownership));
        }
    }
}
