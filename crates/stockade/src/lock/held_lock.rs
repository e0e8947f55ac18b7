use std::{sync::Arc, time::Duration};

use tokio_util::task::task_tracker::TaskTrackerToken;
use tracing::Span;

use super::{delegations::Inside, renewal::Renewal, series::Series, shared::Shared};
use crate::{
    clock::Instant,
    lock::{Fence, Handover, Mode},
    spans,
    store::{LockError, Ownership, Released},
};

/// An ownership that guards share. It gives back when it is dropped, unless the store was asked to before
/// and has answered.
pub(super) struct HeldLock {
    fence: Fence,
    shared: Arc<Shared>,
    way: Way,
    /// As what it is counted: the ownership itself may be shared by now.
    mode: Mode,
    series: Arc<Series>,
    since: Instant,
    /// The end of the longest hold that its request allowed.
    ends_at: Option<Instant>,
    state: State,
    /// Ends with the hold.
    span: Span,
    _counted: TaskTrackerToken,
}

/// What keeps the ownership alive.
enum Way {
    Renewed(Renewal),
    /// Shared with other readers of this process, the last of whom gives it back.
    Shared(Inside),
    /// Nobody any more.
    Ended,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Held,
    /// Renewal has ended and the hold time is recorded, but the store has not answered to a release.
    Releasing,
    Released,
}

impl HeldLock {
    pub(super) fn new(
        shared: Arc<Shared>,
        ownership: Arc<Ownership>,
        max_hold: Option<Duration>,
        counted: TaskTrackerToken,
    ) -> Self {
        let ends_at = max_hold.map(|max| Instant::now() + max);
        let way = Way::Renewed(shared.renewals.add(&ownership, ends_at));
        let series = shared.series.of(ownership.key.label(), ownership.mode());
        Self::by(way, shared, ownership, ends_at, series, counted)
    }

    /// A reader's part in what it shares with others of this process.
    pub(super) fn shared(shared: Arc<Shared>, inside: Inside, series: Arc<Series>, counted: TaskTrackerToken) -> Self {
        let ownership = Arc::new(inside.ownership());
        Self::by(Way::Shared(inside), shared, ownership, None, series, counted)
    }

    fn by(
        way: Way,
        shared: Arc<Shared>,
        ownership: Arc<Ownership>,
        ends_at: Option<Instant>,
        series: Arc<Series>,
        counted: TaskTrackerToken,
    ) -> Self {
        let (since, mode) = (Instant::now(), ownership.mode());
        series.held.add(1.0);
        let span = spans::lock_hold(ownership.key.label(), mode, ownership.token);
        let fence = Fence { ownership, store: Arc::clone(&shared.store) };
        Self { fence, shared, way, mode, series, since, ends_at, state: State::Held, span, _counted: counted }
    }

    pub(super) fn fence(&self) -> &Fence {
        &self.fence
    }

    /// The longest time for which it is held from now on.
    pub(super) fn limit(&self, max_hold: Duration) {
        if let Way::Renewed(renewal) = &self.way {
            renewal.limit(Instant::now() + max_hold);
        }
    }

    pub(super) async fn release(mut self) -> Result<Released, LockError> {
        self.stop();
        if self.state == State::Released {
            let lost = self.fence.ownership.loss().is_some();
            return Ok(if lost { Released::Lost } else { Released::Released });
        }
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
        if let (Way::Shared(_), Some(reason)) = (&self.way, self.fence.loss()) {
            // Nobody else counts it.
            self.fence.ownership.lose(reason);
        }
        self.fence.ownership.give_back();
        match std::mem::replace(&mut self.way, Way::Ended) {
            Way::Renewed(renewal) => renewal.end(),
            Way::Shared(inside) => {
                drop(inside);
                self.state = State::Released;
            }
            Way::Ended => {}
        }
        self.span = Span::none();
        self.count_end();
    }

    fn count_end(&self) {
        self.series.held.add(-1.0);
        self.series.hold.observe(self.since.elapsed());
    }

    /// Goes on as a reader. Also on an error it is counted as what it may be by then.
    pub(super) async fn downgrade(&mut self) -> Result<(), LockError> {
        let ownership = &self.fence.ownership;
        if ownership.mode() == Mode::Permit {
            let instead = "release the permit and acquire the lock for reading";
            return Err(LockError::Unsupported { store: "semaphore", operation: "downgrade", instead });
        }
        if ownership.loss().is_some() {
            return Err(ownership.lost_error());
        }
        if matches!(self.way, Way::Shared(_)) {
            // A reader already, whose lease is renewed all the while.
            return Ok(());
        }
        if !ownership.commits.share() {
            return Err(LockError::Committing { key: ownership.key.clone() });
        }
        let downgraded = self.shared.store.downgrade(ownership).await;
        if ownership.mode() == Mode::Write {
            ownership.commits.share_no_more();
        }
        if self.mode != ownership.mode() {
            self.count_end();
            self.mode = self.fence.mode();
            self.since = Instant::now();
            self.series = self.shared.series.of(self.fence.key().label(), self.mode);
            self.series.held.add(1.0);
        }
        // Forced, say, while the reply was on its way.
        let ownership = &self.fence.ownership;
        downgraded.and_then(|()| if ownership.loss().is_some() { Err(ownership.lost_error()) } else { Ok(()) })
    }

    /// Ends it here without giving the lock back. On an error nothing has changed.
    ///
    /// Who adopts it may share it at once, and knows nothing of the commits here: as for a downgrade, none may be on
    /// its way, and none follows.
    pub(super) fn hand_over(&mut self) -> Result<Handover, LockError> {
        let ownership = &self.fence.ownership;
        if ownership.loss().is_some() {
            return Err(ownership.lost_error());
        }
        if matches!(self.way, Way::Shared(_)) {
            let instead = "acquire the lock without `delegate` for what is to be handed over";
            return Err(LockError::Unsupported { store: "delegated", operation: "handing over", instead });
        }
        let exclusive = ownership.mode() == Mode::Write;
        if exclusive && !ownership.commits.share() {
            return Err(LockError::Committing { key: ownership.key.clone() });
        }
        let handed = self.shared.store.hand_over(ownership).inspect_err(|_| {
            if exclusive {
                ownership.commits.share_no_more();
            }
        })?;
        let hold_left = self.ends_at.map(|end| end.remaining());
        // For the fences that are left: the fence row would take their claims until who adopts it has claimed.
        self.fence.ownership.hand_over();
        self.stop();
        self.state = State::Released;
        Ok(Handover::new(handed, hold_left))
    }
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        self.stop();
        if self.state != State::Released {
            self.shared.store.release_detached(Arc::clone(&self.fence.ownership));
        }
    }
}
