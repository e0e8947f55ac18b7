use std::{sync::atomic::AtomicU64, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use rand::Rng;
use tokio::time::Instant;

use super::series::{LABELS, tell};

#[derive(Clone, Copy, Debug)]
pub(super) enum State {
    Closed { failures: u32 },
    Open { until: Instant, period: Duration },
    HalfOpen { probe: Option<u64>, period: Duration, probes: u64 },
}

impl State {
    /// The place of the state's label in [`LABELS`].
    fn badness(self) -> usize {
        match self {
            Self::Closed { .. } => 0,
            Self::HalfOpen { .. } => 1,
            Self::Open { .. } => 2,
        }
    }
}

/// What a breaker and its permits share.
#[derive(Debug)]
pub(super) struct Shared {
    name: &'static str,
    state: Mutex<State>,
    pub(super) successes: AtomicU64,
}

impl Shared {
    pub(super) fn new(name: &'static str) -> Self {
        let state = State::Closed { failures: 0 };
        tell(name, None, Some(state.badness()));
        Self { name, state: Mutex::new(state), successes: AtomicU64::new(0) }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    pub(super) fn set(&self, state: &mut State, new: State) {
        let old = std::mem::replace(state, new);
        let (from, to) = (old.badness(), new.badness());
        if from != to {
            if matches!(new, State::Open { .. }) {
                tracing::warn!(
                    breaker = self.name,
                    "circuit breaker open: calls are refused at once until one gets through"
                );
            } else {
                tracing::info!(breaker = self.name, state = LABELS[to], "circuit breaker changed state");
            }
            tell(self.name, Some(from), Some(to));
        }
    }

    pub(super) fn open(&self, state: &mut State, period: Duration) {
        let until = Instant::now() + period.mul_f64(rand::rng().random_range(0.75..=1.0));
        self.set(state, State::Open { until, period });
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        tell(self.name, Some(self.lock().badness()), None);
    }
}
