use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{
    Permit,
    state::{Shared, State},
};

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

impl Breaker {
    /// `name` is the closed metric label: `redis_lock`, `redis_cache` or `database`. Breakers of one name share a
    /// series.
    pub(crate) fn new(name: &'static str) -> Self {
        Self { shared: Arc::new(Shared::new(name)) }
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
