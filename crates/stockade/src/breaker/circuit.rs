use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{
    Permit,
    quorum::Quorum,
    state::{Shared, State},
};

/// The time for calls that are refused while a probe is under way.
const PROBING: Duration = Duration::from_millis(100);

/// Refuses calls to a server that keeps failing.
///
/// The breaker is closed until several calls in a row have failed; time-outs count as failures. Then it is open for a
/// while and refuses every call. Then it is half-open: it lets one call through, the probe, whose outcome closes it or
/// opens it again. Connections to Redis and the cache's loads use breakers.
#[derive(Debug)]
pub(crate) struct Breaker {
    shared: Arc<Shared>,
}

impl Breaker {
    /// `name` is the label in metrics: `redis_lock`, `redis_cache` or `database`. Breakers of one name share a series.
    pub(crate) fn new(name: &'static str) -> Self {
        Self { shared: Arc::new(Shared::new(name, None)) }
    }

    /// A breaker in front of one of the servers of a quorum.
    #[cfg_attr(not(feature = "redlock"), allow(dead_code, reason = "one server needs no quorum"))]
    pub(crate) fn of(quorum: &Arc<Quorum>) -> Self {
        Self { shared: Arc::new(Shared::new("redlock_node", Some(Arc::clone(quorum)))) }
    }

    /// Asks to make a call. The caller reports its outcome by the permit. A permit that is dropped counts as neither
    /// success nor failure. A refusal says when another call makes sense.
    pub(crate) fn permit(&self) -> Result<Permit, Duration> {
        let mut state = self.shared.lock();
        let probe = match *state {
            State::Closed { .. } => None,
            State::Open { until, period } => {
                let now = Instant::now();
                if now < until {
                    return Err(until - now);
                }
                self.shared.set(&mut state, State::HalfOpen { probe: Some(1), period, probes: 1 });
                Some(1)
            }
            State::HalfOpen { probe: Some(_), .. } => return Err(PROBING),
            State::HalfOpen { probe: None, period, probes } => {
                let number = probes + 1;
                *state = State::HalfOpen { probe: Some(number), period, probes: number };
                Some(number)
            }
        };
        Ok(Permit { shared: Arc::clone(&self.shared), probe, settled: false })
    }

    /// The refusal that a call would get now. Does not begin a probe.
    pub(crate) fn refusing(&self) -> Option<Duration> {
        match *self.shared.lock() {
            State::Closed { .. } | State::HalfOpen { probe: None, .. } => None,
            State::HalfOpen { probe: Some(_), .. } => Some(PROBING),
            State::Open { until, .. } => {
                let left = until.saturating_duration_since(Instant::now());
                (!left.is_zero()).then_some(left)
            }
        }
    }

    /// The server has shown a sign of life. An open breaker lets the next call through as the probe, without waiting
    /// for the end of its period. The sign does not close the breaker, because an answer that came too late is no
    /// success.
    pub(crate) fn alive(&self) {
        let mut state = self.shared.lock();
        if let State::Open { period, .. } = *state {
            self.shared.set(&mut state, State::HalfOpen { probe: None, period, probes: 0 });
        }
    }

    /// The server was found to work, but not by a call. Closes the breaker if it would let the next call through, and
    /// no call is under way. While calls come, they decide.
    pub(crate) fn answered(&self) {
        let mut state = self.shared.lock();
        let waits = match *state {
            State::Closed { .. } | State::HalfOpen { probe: Some(_), .. } => false,
            State::HalfOpen { probe: None, .. } => true,
            State::Open { until, .. } => until <= Instant::now(),
        };
        if waits {
            self.shared.set(&mut state, State::Closed { failures: 0 });
        }
    }

    /// Closes the breaker. Call it when the server was just found to work, for example by a new connection.
    pub(crate) fn close(&self) {
        let mut state = self.shared.lock();
        self.shared.set(&mut state, State::Closed { failures: 0 });
    }
}
