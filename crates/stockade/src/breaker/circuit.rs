use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rand::Rng;
use tokio::time::Instant;

use super::{
    Permit,
    series::{LABELS, tell},
};

/// Failures in a row that open the breaker.
pub(super) const THRESHOLD: u32 = 5;
/// How long it stays open the first time; doubles with every probe that fails.
pub(super) const FIRST_OPEN: Duration = Duration::from_secs(1);
pub(super) const LONGEST_OPEN: Duration = Duration::from_secs(10);
/// What callers are told while a probe is under way.
const PROBING: Duration = Duration::from_millis(100);

/// Refused by an open breaker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refused {
    pub(crate) retry_after: Duration,
}

/// Closed until several calls in a row failed (time-outs count), then open for a while, then half-open: one call is let
/// through and decides. Used for Redis here and for the database in the cache; no Redis type in its interface.
#[derive(Debug)]
pub(crate) struct Breaker {
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(super) struct Shared {
    name: &'static str,
    state: Mutex<State>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum State {
    Closed { failures: u32 },
    Open { until: Instant, period: Duration },
    HalfOpen { probe: Option<u64>, period: Duration, probes: u64 },
}

impl State {
    fn label(self) -> &'static str {
        LABELS[self.badness()]
    }

    /// The place of its label.
    pub(super) fn badness(self) -> usize {
        match self {
            Self::Closed { .. } => 0,
            Self::HalfOpen { .. } => 1,
            Self::Open { .. } => 2,
        }
    }
}

impl Breaker {
    /// `name` is the closed metric label: `redis_lock`, `redis_cache` or `database`. Breakers of one name share a series.
    pub(crate) fn new(name: &'static str) -> Self {
        let state = State::Closed { failures: 0 };
        tell(name, None, Some(state));
        Self { shared: Arc::new(Shared { name, state: Mutex::new(state) }) }
    }

    /// Asks to make a call; the permit reports success or failure, and counts as neither when dropped.
    pub(crate) fn permit(&self) -> Result<Permit, Refused> {
        let mut state = self.shared.lock();
        let probe = match *state {
            State::Closed { .. } => None,
            State::Open { until, period } => {
                let now = Instant::now();
                if now < until {
                    return Err(Refused { retry_after: until - now });
                }
                self.shared.set(&mut state, State::HalfOpen { probe: Some(1), period, probes: 1 });
                Some(1)
            }
            State::HalfOpen { probe: Some(_), .. } => return Err(Refused { retry_after: PROBING }),
            State::HalfOpen { probe: None, period, probes } => {
                let number = probes + 1;
                *state = State::HalfOpen { probe: Some(number), period, probes: number };
                Some(number)
            }
        };
        Ok(Permit { shared: Arc::clone(&self.shared), probe, settled: false })
    }

    /// Whether a call would be refused now, without taking the half-open place.
    pub(crate) fn refusing(&self) -> Option<Refused> {
        match *self.shared.lock() {
            State::Closed { .. } | State::HalfOpen { probe: None, .. } => None,
            State::HalfOpen { probe: Some(_), .. } => Some(Refused { retry_after: PROBING }),
            State::Open { until, .. } => {
                let left = until.saturating_duration_since(Instant::now());
                (!left.is_zero()).then_some(Refused { retry_after: left })
            }
        }
    }

    /// There is a sign of life from the other side: an open breaker lets the next call through to find out, instead of
    /// after its period. Closes nothing by itself, since an answer that comes too late is no success.
    pub(crate) fn alive(&self) {
        let mut state = self.shared.lock();
        if let State::Open { period, .. } = *state {
            self.shared.set(&mut state, State::HalfOpen { probe: None, period, probes: 0 });
        }
    }

    /// Closes it: the other side was just found to be well, by a new connection for instance.
    pub(crate) fn close(&self) {
        let mut state = self.shared.lock();
        self.shared.set(&mut state, State::Closed { failures: 0 });
    }
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // No code that can panic runs under this lock, so a poisoned state is still whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set(&self, state: &mut State, new: State) {
        let old = std::mem::replace(state, new);
        if old.badness() != new.badness() {
            tracing::info!(breaker = self.name, state = new.label(), "circuit breaker changed state");
            tell(self.name, Some(old), Some(new));
        }
    }

    pub(super) fn open(&self, state: &mut State, period: Duration) {
        let until = Instant::now() + period.mul_f64(rand::rng().random_range(0.75..=1.0));
        self.set(state, State::Open { until, period });
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        tell(self.name, Some(*self.lock()), None);
    }
}
