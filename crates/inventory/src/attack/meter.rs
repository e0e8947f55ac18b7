use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use parking_lot::Mutex;
use serde::Serialize;
use tokio::time::Instant;

use crate::{
    lab::{Count, Scheme},
    replay::Latencies,
};

/// The counts of one side since its run began.
#[derive(Debug, Default)]
pub(super) struct Meter {
    answered: AtomicU64,
    failed: AtomicU64,
    loads: AtomicU64,
    loading: AtomicU64,
    most_loading: AtomicU64,
    times: Mutex<Latencies>,
}

/// One side at a moment: counts since the attack began, and the statements under way.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Sample {
    answered: u64,
    loads: u64,
    loading: u64,
}

/// The totals of one side of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Figures {
    /// Callers that were answered.
    pub(super) answered: u64,
    /// Callers that got an error.
    pub(super) failed: u64,
    /// Statements that were sent to Postgres.
    pub(super) loads: u64,
    /// The most statements under way at once, including those that waited for a connection.
    pub(super) most_loading: u64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) slowest_ms: f64,
    /// The sales; `None` if the attack does not sell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stock: Option<Count>,
}

/// The sales of a scheme of the lab, or why they are not known.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct SoldBy {
    scheme: Scheme,
    title: &'static str,
    #[serde(flatten)]
    stock: Option<Count>,
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<&'static str>,
}

impl SoldBy {
    pub(super) fn new(scheme: Scheme, sold: Result<Count, &'static str>) -> Self {
        Self { scheme, title: scheme.title(), stock: sold.ok(), missing: sold.err() }
    }

    pub(super) fn is_of(&self, scheme: Scheme) -> bool {
        self.scheme == scheme
    }
}

/// A statement that is under way or waits for a connection. Dropping the value ends it.
pub(super) struct Loading<'a>(&'a Meter);

impl Meter {
    /// Sets all counts to zero, except that of the statements under way.
    pub(super) fn reset(&self) {
        for count in [&self.answered, &self.failed, &self.loads, &self.most_loading] {
            count.store(0, Relaxed);
        }
        *self.times.lock() = Latencies::default();
    }

    /// Counts a caller that asked at `since`.
    pub(super) fn count(&self, since: Instant, is_answered: bool) {
        let counter = if is_answered { &self.answered } else { &self.failed };
        counter.fetch_add(1, Relaxed);
        self.times.lock().record(since.elapsed());
    }

    /// Counts a statement, which is under way until the returned value is dropped.
    pub(super) fn loading(&self) -> Loading<'_> {
        self.loads.fetch_add(1, Relaxed);
        let now = self.loading.fetch_add(1, Relaxed) + 1;
        self.most_loading.fetch_max(now, Relaxed);
        Loading(self)
    }

    pub(super) fn is_loading(&self) -> bool {
        self.loading.load(Relaxed) > 0
    }

    pub(super) fn sample(&self) -> Sample {
        Sample {
            answered: self.answered.load(Relaxed),
            loads: self.loads.load(Relaxed),
            loading: self.loading.load(Relaxed),
        }
    }

    pub(super) fn figures(&self) -> Figures {
        let times = self.times.lock();
        let millis = |time: Duration| time.as_secs_f64() * 1000.0;
        Figures {
            answered: self.answered.load(Relaxed),
            failed: self.failed.load(Relaxed),
            loads: self.loads.load(Relaxed),
            most_loading: self.most_loading.load(Relaxed),
            p50_ms: millis(times.at(0.5)),
            p99_ms: millis(times.at(0.99)),
            slowest_ms: millis(times.max()),
            stock: None,
        }
    }
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        self.0.loading.fetch_sub(1, Relaxed);
    }
}
