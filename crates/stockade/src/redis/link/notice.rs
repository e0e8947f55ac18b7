use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::{Instant, error::Elapsed, timeout_at};

use super::flight::Started;
use crate::redis::LinkError;

/// Tells a caller what became of its command that waited.
pub(super) struct Teller(Arc<Mutex<State>>);

/// The caller's side. `None`: the wire is gone, and the command was certainly never sent.
///
/// A command that was sent does not wake its caller. The caller would only go on to wait for the reply, which wakes it
/// then. So who waits for a notice looks again from time to time, see [`Told::until`].
pub(super) struct Told(Arc<Mutex<State>>);

/// What was to be told to callers that are gone. Must not be dropped under the lock of the wire, since dropping a flight
/// takes that lock. A caller that gives up takes its command back, or leaves its side to a task, so callers are gone only
/// when a runtime ends.
pub(super) type Untold = Vec<Result<Started, LinkError>>;

#[derive(Default)]
struct State {
    outcome: Option<Result<Started, LinkError>>,
    caller: Option<Waker>,
    /// Whether one of the two sides is gone.
    is_left: bool,
}

pub(super) fn notice() -> (Teller, Told) {
    let notice = Arc::<Mutex<State>>::default();
    (Teller(Arc::clone(&notice)), Told(notice))
}

impl Teller {
    /// Returns the outcome if the caller is gone.
    pub(super) fn tell(self, outcome: Result<Started, LinkError>) -> Option<Result<Started, LinkError>> {
        let mut state = self.0.lock();
        if state.is_left {
            return Some(outcome);
        }
        match (&outcome, state.caller.take()) {
            (Ok(started), Some(caller)) => started.flight.wakes(caller),
            (Err(_), Some(caller)) => caller.wake(),
            (_, None) => {}
        }
        state.outcome = Some(outcome);
        None
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.is_left = true;
        if let Some(caller) = state.caller.take() {
            caller.wake();
        }
    }
}

impl Told {
    /// Waits for the outcome until the limit, and looks at it once in each `period`.
    pub(super) async fn until(
        &mut self,
        limit: Option<Instant>,
        period: Duration,
    ) -> Result<Option<Result<Started, LinkError>>, Elapsed> {
        loop {
            let look = Instant::now() + period;
            let outcome = timeout_at(limit.map_or(look, |limit| limit.min(look)), &mut *self).await;
            if outcome.is_ok() || limit.is_some_and(|limit| limit <= look) {
                return outcome;
            }
        }
    }
}

impl Future for Told {
    type Output = Option<Result<Started, LinkError>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.0.lock();
        if let Some(outcome) = state.outcome.take() {
            return Poll::Ready(Some(outcome));
        }
        if state.is_left {
            return Poll::Ready(None);
        }
        state.caller = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        // The outcome is dropped here and not with the other side, which may hold the lock of the wire.
        let outcome = {
            let mut state = self.0.lock();
            state.is_left = true;
            state.outcome.take()
        };
        drop(outcome);
    }
}
