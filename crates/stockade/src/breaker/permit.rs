use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use super::state::{Shared, State};

/// Failures in a row that open the breaker.
const THRESHOLD: u32 = 5;
/// How long the breaker stays open the first time. Each probe that fails doubles the time, up to [`LONGEST_OPEN`].
pub(super) const FIRST_OPEN: Duration = Duration::from_secs(1);
pub(super) const LONGEST_OPEN: Duration = Duration::from_secs(10);

#[derive(Debug)]
#[must_use = "report success or failure"]
pub(crate) struct Permit {
    pub(super) shared: Arc<Shared>,
    /// The number of the probe, if this call is one. The probe decides whether the breaker closes.
    pub(super) probe: Option<u64>,
    pub(super) settled: bool,
}

impl Permit {
    pub(crate) fn successes(&self) -> u64 {
        self.shared.successes.load(Ordering::Relaxed)
    }

    /// Whether this call decides whether the breaker closes.
    pub(crate) fn is_probe(&self) -> bool {
        self.probe.is_some()
    }

    pub(crate) fn succeeded(mut self) {
        self.settled = true;
        self.shared.successes.fetch_add(1, Ordering::Relaxed);
        let mut state = self.shared.lock();
        match *state {
            State::Closed { .. } => *state = State::Closed { failures: 0 },
            State::HalfOpen { probe, .. } if probe.is_some() && probe == self.probe => {
                self.shared.set(&mut state, State::Closed { failures: 0 });
            }
            // A call that began before the breaker opened says nothing about the server now.
            State::HalfOpen { .. } | State::Open { .. } => {}
        }
    }

    pub(crate) fn failed(mut self) {
        self.settled = true;
        let mut state = self.shared.lock();
        match *state {
            State::Closed { failures } if failures + 1 >= THRESHOLD => self.shared.open(&mut state, FIRST_OPEN),
            State::Closed { failures } => *state = State::Closed { failures: failures + 1 },
            State::HalfOpen { probe, period, .. } if probe.is_some() && probe == self.probe => {
                self.shared.open(&mut state, (period * 2).min(LONGEST_OPEN));
            }
            State::HalfOpen { .. } | State::Open { .. } => {}
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.settled || self.probe.is_none() {
            return;
        }
        let mut state = self.shared.lock();
        if let State::HalfOpen { probe, period, probes } = *state
            && probe == self.probe
        {
            *state = State::HalfOpen { probe: None, period, probes };
        }
    }
}
