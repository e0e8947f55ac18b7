use std::{
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use rand::Rng;
use tokio::time::Instant;

use super::{
    quorum::Quorum,
    series::{LABELS, number, tell},
};

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
    number: u64,
    quorum: Option<Arc<Quorum>>,
    state: Mutex<State>,
    pub(super) successes: AtomicU64,
}

impl Shared {
    pub(super) fn new(name: &'static str, quorum: Option<Arc<Quorum>>) -> Self {
        let state = State::Closed { failures: 0 };
        let new = Self { name, number: number(), quorum, state: Mutex::new(state), successes: AtomicU64::new(0) };
        new.tell(Some(state.badness()));
        new
    }

    fn tell(&self, state: Option<usize>) {
        tell(self.name, self.number, state);
        if let Some(quorum) = &self.quorum {
            quorum.tell(self.number, state);
        }
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
            self.tell(Some(to));
        }
    }

    pub(super) fn open(&self, state: &mut State, period: Duration) {
        let until = Instant::now() + period.mul_f64(rand::rng().random_range(0.75..=1.0));
        self.set(state, State::Open { until, period });
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.tell(None);
    }
}
