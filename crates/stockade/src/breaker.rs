//! The circuit breaker in front of a store or a database.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rand::Rng;
use tokio::time::Instant;

use crate::metrics::{self, BREAKER_STATE, tag};

/// Failures in a row that open the breaker.
const THRESHOLD: u32 = 5;
/// How long it stays open the first time; doubles with every probe that fails.
const FIRST_OPEN: Duration = Duration::from_secs(1);
const LONGEST_OPEN: Duration = Duration::from_secs(10);
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
struct Shared {
    name: &'static str,
    state: Mutex<State>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Closed { failures: u32 },
    Open { until: Instant, period: Duration },
    HalfOpen { probe: Option<u64>, period: Duration, probes: u64 },
}

impl State {
    fn label(self) -> &'static str {
        LABELS[self.badness()]
    }

    /// The place of its label.
    fn badness(self) -> usize {
        match self {
            Self::Closed { .. } => 0,
            Self::HalfOpen { .. } => 1,
            Self::Open { .. } => 2,
        }
    }
}

/// The states, the better ones first.
const LABELS: [&str; 3] = ["closed", "half_open", "open"];

/// How many breakers of each name are in each state. The nodes of a cluster have one each, and all of them share the
/// metric's series: the last to change must not speak for the others.
static ALL: Mutex<BTreeMap<&'static str, [usize; 3]>> = Mutex::new(BTreeMap::new());

/// One breaker of the name changed from one state to another, or came, or went. The metric shows the worst of them.
fn tell(name: &'static str, from: Option<State>, to: Option<State>) {
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    let counts = all.entry(name).or_default();
    if let Some(from) = from {
        counts[from.badness()] = counts[from.badness()].saturating_sub(1);
    }
    if let Some(to) = to {
        counts[to.badness()] += 1;
    }
    let worst = counts.iter().rposition(|count| *count > 0).unwrap_or_default();
    // Told before others can count, so that the last one told is the last one counted.
    for (place, label) in LABELS.into_iter().enumerate() {
        let value = if place == worst { 1.0 } else { 0.0 };
        metrics::gauge(BREAKER_STATE, &[tag("breaker", name), tag("state", label)], value);
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
    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that can panic runs under this lock, so a poisoned state is still whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, state: &mut State, new: State) {
        let old = std::mem::replace(state, new);
        if old.badness() != new.badness() {
            tracing::info!(breaker = self.name, state = new.label(), "circuit breaker changed state");
            tell(self.name, Some(old), Some(new));
        }
    }

    fn open(&self, state: &mut State, period: Duration) {
        let until = Instant::now() + period.mul_f64(rand::rng().random_range(0.75..=1.0));
        self.set(state, State::Open { until, period });
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        tell(self.name, Some(*self.lock()), None);
    }
}

/// Leave to make one call.
#[derive(Debug)]
#[must_use = "report success or failure"]
pub(crate) struct Permit {
    shared: Arc<Shared>,
    /// The number of the probe, when this call is to decide.
    probe: Option<u64>,
    settled: bool,
}

impl Permit {
    pub(crate) fn succeeded(mut self) {
        self.settled = true;
        let mut state = self.shared.lock();
        match *state {
            State::Closed { .. } => *state = State::Closed { failures: 0 },
            State::HalfOpen { probe, .. } if probe.is_some() && probe == self.probe => {
                self.shared.set(&mut state, State::Closed { failures: 0 });
            }
            // A call from before it opened says nothing about now.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn fail(breaker: &Breaker, times: u32) {
        for _ in 0..times {
            breaker.permit().unwrap().failed();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn opens_after_five_failures_in_a_row_and_not_before() {
        let breaker = Breaker::new("database");
        fail(&breaker, 4);
        breaker.permit().unwrap().succeeded();
        fail(&breaker, 4);
        assert!(breaker.refusing().is_none());
        fail(&breaker, 1);
        let refused = breaker.permit().unwrap_err();
        assert!(refused.retry_after <= FIRST_OPEN && refused.retry_after >= FIRST_OPEN.mul_f64(0.7));
        assert!(breaker.refusing().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn half_open_lets_one_through_which_decides() {
        let breaker = Breaker::new("database");
        fail(&breaker, 5);
        tokio::time::advance(FIRST_OPEN).await;
        assert!(breaker.refusing().is_none());
        let probe = breaker.permit().unwrap();
        assert!(breaker.permit().is_err());
        probe.failed();
        tokio::time::advance(FIRST_OPEN).await;
        assert!(breaker.permit().is_err(), "the second period is twice as long");
        tokio::time::advance(FIRST_OPEN).await;
        breaker.permit().unwrap().succeeded();
        fail(&breaker, 4);
        assert!(breaker.refusing().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_probe_frees_its_place_and_counts_as_neither() {
        let breaker = Breaker::new("database");
        fail(&breaker, 5);
        tokio::time::advance(FIRST_OPEN).await;
        drop(breaker.permit().unwrap());
        let probe = breaker.permit().unwrap();
        assert!(breaker.permit().is_err());
        probe.succeeded();
        assert!(breaker.permit().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn the_period_ends_at_ten_seconds() {
        let breaker = Breaker::new("database");
        fail(&breaker, 5);
        for _ in 0..8 {
            tokio::time::advance(LONGEST_OPEN).await;
            breaker.permit().unwrap().failed();
        }
        assert!(breaker.permit().unwrap_err().retry_after <= LONGEST_OPEN);
    }

    #[tokio::test(start_paused = true)]
    async fn calls_from_before_it_opened_decide_nothing() {
        let breaker = Breaker::new("database");
        let (early, late) = (breaker.permit().unwrap(), breaker.permit().unwrap());
        fail(&breaker, 5);
        early.succeeded();
        assert!(breaker.permit().is_err());
        tokio::time::advance(FIRST_OPEN).await;
        let probe = breaker.permit().unwrap();
        late.failed();
        probe.succeeded();
        assert!(breaker.permit().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_sign_of_life_ends_the_waiting_but_closes_nothing() {
        let breaker = Breaker::new("database");
        fail(&breaker, 5);
        breaker.alive();
        let probe = breaker.permit().unwrap();
        assert!(breaker.permit().is_err());
        probe.failed();
        assert!(breaker.permit().is_err());
        breaker.close();
        assert!(breaker.permit().is_ok());
    }

    #[cfg(feature = "metrics")]
    #[tokio::test(start_paused = true)]
    async fn of_several_breakers_with_one_name_the_metric_shows_the_worst() {
        const NAME: &str = "of-several";
        let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
        let handle = recorder.handle();
        let _recorder = ::metrics::set_default_local_recorder(&recorder);
        let shown = || {
            let rendered = handle.render();
            let shows = |label: &&str| {
                let series = format!("stockade_breaker_state{{breaker=\"{NAME}\",state=\"{label}\"}} 1");
                rendered.lines().any(|line| line == series)
            };
            LABELS.into_iter().filter(shows).collect::<Vec<_>>()
        };
        let (one, other) = (Breaker::new(NAME), Breaker::new(NAME));
        assert_eq!(shown(), ["closed"]);
        fail(&one, 5);
        fail(&other, 5);
        assert_eq!(shown(), ["open"]);
        other.close();
        assert_eq!(shown(), ["open"], "the other one is");
        one.alive();
        assert_eq!(shown(), ["half_open"]);
        let third = Breaker::new(NAME);
        assert_eq!(shown(), ["half_open"], "the first one is");
        fail(&third, 5);
        drop(one);
        assert_eq!(shown(), ["open"]);
        // A node that left its cluster.
        drop(third);
        assert_eq!(shown(), ["closed"]);
    }
}
