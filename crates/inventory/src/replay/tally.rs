use std::{collections::BTreeMap, time::Duration};

use hdrhistogram::Histogram;
use reqwest::StatusCode;
use serde::Serialize;

use super::{
    cache_status::{CacheStatus, Source},
    reason::{self, Reason},
};

/// An hour: beyond it, a latency counts as an hour. With a rate that the service can't keep, lines wait for minutes.
const LONGEST_MICROS: u64 = 3_600_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;

/// The counts of one worker. They are added up at the end, so that workers share nothing while they run.
#[derive(Debug, Default)]
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
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Reads {
    /// Answers whose source is known. Each source has a count, even if it is zero.
    #[serde(flatten)]
    by_source: BTreeMap<Source, u64>,
    /// Answered while a store was down.
    pub degraded: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Self) {
        self.adjust.add(&other.adjust);
        self.get.add(&other.get);
        self.retries += other.retries;
        self.replayed += other.replayed;
        add(&mut self.line_failures, &other.line_failures);
        add(&mut self.read_failures, &other.read_failures);
        self.reads.add(&other.reads);
    }

    pub(crate) fn line_failed(&mut self, why: Reason) {
        *self.line_failures.entry(why).or_default() += 1;
    }

    pub(crate) fn read_failed(&mut self, why: Reason) {
        *self.read_failures.entry(why).or_default() += 1;
    }

    /// Counts the answer to a read. An absent row is an answer; a refusal or a fault is not.
    pub(crate) fn read(&mut self, status: StatusCode, cache: CacheStatus, body: &[u8]) {
        if status.is_success() || status == StatusCode::NOT_FOUND {
            return self.reads.count(cache);
        }
        self.read_failed(reason::of_answer(status, body));
        if cache.source == Some(Source::Shed) {
            self.reads.count(cache);
        }
    }
}

fn add<K: Clone + Ord>(all: &mut BTreeMap<K, u64>, other: &BTreeMap<K, u64>) {
    for (key, count) in other {
        *all.entry(key.clone()).or_default() += count;
    }
}

impl Default for Latencies {
    fn default() -> Self {
        let histogram = Histogram::new_with_max(LONGEST_MICROS, SIGNIFICANT_DIGITS);
        Self(histogram.expect("the bounds are constants that the histogram accepts"))
    }
}

impl Latencies {
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

impl Default for Reads {
    fn default() -> Self {
        Self { by_source: Source::ALL.map(|source| (source, 0)).into(), degraded: 0 }
    }
}

impl Reads {
    fn count(&mut self, cache: CacheStatus) {
        if let Some(source) = cache.source {
            *self.by_source.entry(source).or_default() += 1;
        }
        self.degraded += u64::from(cache.degraded);
    }

    fn add(&mut self, other: &Self) {
        add(&mut self.by_source, &other.by_source);
        self.degraded += other.degraded;
    }

    /// The answers that came from `source`.
    #[must_use]
    pub fn from(&self, source: Source) -> u64 {
        self.by_source[&source]
    }

    pub(crate) fn hits(&self) -> u64 {
        let hits = [Source::Local, Source::Redis, Source::LocalOrRedis, Source::Negative, Source::Stale];
        hits.map(|source| self.from(source)).iter().sum()
    }

    /// The reads whose source is known.
    pub(crate) fn known(&self) -> u64 {
        self.by_source.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tallies_of_workers_add_up() {
        let mut all = Tally::default();
        for millis in [1, 3] {
            let mut one = Tally::default();
            one.adjust.record(Duration::from_millis(millis));
            one.retries = 2;
            one.read(StatusCode::OK, CacheStatus { source: Some(Source::Redis), degraded: false }, b"{}");
            let shed = br#"{"type":"/problems/load-shed"}"#;
            one.read(StatusCode::SERVICE_UNAVAILABLE, CacheStatus { source: Some(Source::Shed), degraded: true }, shed);
            // Refused while a store was down, so nothing was loaded.
            let refused = CacheStatus { source: Some(Source::Load), degraded: true };
            one.read(StatusCode::SERVICE_UNAVAILABLE, refused, shed);
            all.add(&one);
        }
        assert_eq!((all.adjust.count(), all.retries), (2, 4));
        assert_eq!(all.read_failures, BTreeMap::from([("load-shed".into(), 4)]));
        assert_eq!((all.reads.hits(), all.reads.known(), all.reads.degraded), (2, 4, 2));
        assert!((2_900..3_100).contains(&all.adjust.at(0.99).as_micros()), "{:?}", all.adjust.at(0.99));
    }

    #[test]
    fn a_latency_beyond_the_bounds_counts_as_the_longest() {
        let mut latencies = Latencies::default();
        latencies.record(Duration::from_secs(600));
        assert!(latencies.max() >= Duration::from_secs(600));
        latencies.record(Duration::from_secs(7200));
        assert_eq!(latencies.count(), 2);
        assert!(latencies.max() <= Duration::from_secs(3660));
    }
}
