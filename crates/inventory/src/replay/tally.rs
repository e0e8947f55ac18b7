use std::{collections::BTreeMap, time::Duration};

use hdrhistogram::Histogram;
use reqwest::StatusCode;

use super::{
    cache_status::{CacheStatus, Source},
    reason::{self, Reason},
};

/// A minute: beyond it, a latency counts as a minute.
const LONGEST_MICROS: u64 = 60_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;

/// The counts of one worker. They are added up at the end, so that workers share nothing while they run.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) adjust: Latencies,
    pub(crate) get: Latencies,
    pub(crate) retries: u64,
    pub(crate) replayed: u64,
    /// Lines given up, by the reason of the last attempt.
    pub(crate) line_failures: BTreeMap<Reason, u64>,
    /// Reads without an answer, or answered with an error, by reason.
    pub(crate) read_failures: BTreeMap<Reason, u64>,
    pub(crate) reads: Reads,
}

/// Latencies, in microseconds.
#[derive(Debug)]
pub(crate) struct Latencies(Histogram<u64>);

/// Answers to reads, by where they came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reads {
    pub(crate) local: u64,
    pub(crate) redis: u64,
    pub(crate) negative: u64,
    pub(crate) stale: u64,
    pub(crate) loads: u64,
    pub(crate) collapsed: u64,
    pub(crate) shed: u64,
    pub(crate) other: u64,
    pub(crate) degraded: u64,
}

impl Tally {
    pub(crate) fn new() -> Self {
        Self {
            adjust: Latencies::new(),
            get: Latencies::new(),
            retries: 0,
            replayed: 0,
            line_failures: BTreeMap::new(),
            read_failures: BTreeMap::new(),
            reads: Reads::default(),
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.adjust.add(&other.adjust);
        self.get.add(&other.get);
        self.retries += other.retries;
        self.replayed += other.replayed;
        add(&mut self.line_failures, &other.line_failures);
        add(&mut self.read_failures, &other.read_failures);
        self.reads.add(other.reads);
    }

    pub(crate) fn line_failed(&mut self, why: Reason) {
        *self.line_failures.entry(why).or_default() += 1;
    }

    pub(crate) fn read_failed(&mut self, why: Reason) {
        *self.read_failures.entry(why).or_default() += 1;
    }

    /// Counts the answer to a read. An absent row is an answer; a refusal or a fault is not.
    pub(crate) fn read(&mut self, status: StatusCode, cache: CacheStatus, body: &[u8]) {
        if !(status.is_success() || status == StatusCode::NOT_FOUND) {
            self.read_failed(reason::of_answer(status, body));
        }
        self.reads.count(cache);
    }
}

fn add(all: &mut BTreeMap<Reason, u64>, other: &BTreeMap<Reason, u64>) {
    for (why, count) in other {
        *all.entry(why.clone()).or_default() += count;
    }
}

impl Latencies {
    pub(crate) fn new() -> Self {
        let histogram = Histogram::new_with_max(LONGEST_MICROS, SIGNIFICANT_DIGITS)
            .expect("the bounds are constants that the histogram accepts");
        Self(histogram)
    }

    pub(crate) fn record(&mut self, latency: Duration) {
        self.0.saturating_record(u64::try_from(latency.as_micros()).unwrap_or(LONGEST_MICROS));
    }

    fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("both have the same bounds");
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }

    /// The latency that the given part of all stays within; zero when there are none.
    pub(crate) fn at(&self, quantile: f64) -> Duration {
        Duration::from_micros(self.0.value_at_quantile(quantile))
    }

    pub(crate) fn max(&self) -> Duration {
        Duration::from_micros(self.0.max())
    }
}

impl Reads {
    fn count(&mut self, cache: CacheStatus) {
        let counter = match cache.source {
            Source::Local => &mut self.local,
            Source::Redis => &mut self.redis,
            Source::Negative => &mut self.negative,
            Source::Stale => &mut self.stale,
            Source::Load => &mut self.loads,
            Source::Collapsed => &mut self.collapsed,
            Source::Shed => &mut self.shed,
            Source::Other => &mut self.other,
        };
        *counter += 1;
        self.degraded += u64::from(cache.degraded);
    }

    fn add(&mut self, other: Self) {
        self.local += other.local;
        self.redis += other.redis;
        self.negative += other.negative;
        self.stale += other.stale;
        self.loads += other.loads;
        self.collapsed += other.collapsed;
        self.shed += other.shed;
        self.other += other.other;
        self.degraded += other.degraded;
    }

    pub(crate) fn hits(&self) -> u64 {
        self.local + self.redis + self.negative + self.stale
    }

    /// The reads whose source is known.
    pub(crate) fn known(&self) -> u64 {
        self.hits() + self.loads + self.collapsed + self.shed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tallies_of_workers_add_up() {
        let mut all = Tally::new();
        for millis in [1, 3] {
            let mut one = Tally::new();
            one.adjust.record(Duration::from_millis(millis));
            one.retries = 2;
            one.read(StatusCode::OK, CacheStatus { source: Source::Redis, degraded: false }, b"{}");
            let shed = br#"{"type":"/problems/load-shed"}"#;
            one.read(StatusCode::SERVICE_UNAVAILABLE, CacheStatus { source: Source::Shed, degraded: true }, shed);
            all.add(&one);
        }
        assert_eq!((all.adjust.count(), all.retries), (2, 4));
        assert_eq!(all.read_failures, BTreeMap::from([("load-shed".into(), 2)]));
        assert_eq!((all.reads.hits(), all.reads.known(), all.reads.degraded), (2, 4, 2));
        assert!((2_900..3_100).contains(&all.adjust.at(0.99).as_micros()), "{:?}", all.adjust.at(0.99));
    }

    #[test]
    fn a_latency_beyond_the_bounds_counts_as_the_longest() {
        let mut latencies = Latencies::new();
        latencies.record(Duration::from_secs(3600));
        assert_eq!(latencies.count(), 1);
        assert!(latencies.max() <= Duration::from_secs(61));
    }
}
