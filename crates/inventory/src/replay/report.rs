use std::{borrow::Cow, collections::BTreeMap, fmt, time::Duration};

use serde::{Serialize, Serializer};

use super::{
    Counters, Verdict,
    tally::{Latencies, Reads, Tally},
};
use crate::orders::Skip;

/// The result of a replay.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// The order lines.
    pub lines: Lines,
    /// Latency of an order line from when it was begun, or due, to its outcome, retries and their pauses included.
    pub adjust: Latency,
    /// Latency of a read.
    pub get: Latency,
    /// Reads by the source that their `Cache-Status` names.
    pub reads: ReadSources,
    /// The counts of the instances during the replay; absent when no ops URL was given, or when an
    /// instance was gone or restarted at the end.
    pub fleet: Option<Counters>,
    /// How long the replay took.
    #[serde(serialize_with = "seconds")]
    pub elapsed: Duration,
    /// Answered order lines per second.
    pub lines_per_second: f64,
    /// Answered order lines and reads per second.
    pub requests_per_second: f64,
}

/// The order lines, by outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Lines {
    /// Acknowledged: in the ledger.
    pub applied: u64,
    /// Refused for lack of stock (409).
    pub refused: u64,
    /// Given up; the service said that nothing was applied.
    pub failed: u64,
    /// Given up without knowing: in the ledger once, or not at all.
    pub unknown: u64,
    /// Of the applied ones: answered from the idempotency store, since an earlier attempt or run had applied them.
    pub replayed: u64,
    /// Attempts after the first.
    pub retries: u64,
    /// Lines of the file that move no stock, by reason.
    pub skipped: BTreeMap<Skip, u64>,
    /// Lines given up, failed or unknown, by the reason of the last attempt: the type of a problem, a status, or how
    /// the connection failed.
    pub failures: BTreeMap<Cow<'static, str>, u64>,
}

/// Latency of one kind of request.
#[derive(Clone, Copy, Debug, Serialize)]
#[non_exhaustive]
pub struct Latency {
    /// How many were measured.
    pub count: u64,
    /// Half stay within this.
    #[serde(rename = "p50_ms", serialize_with = "millis")]
    pub p50: Duration,
    /// 99 of 100 stay within this.
    #[serde(rename = "p99_ms", serialize_with = "millis")]
    pub p99: Duration,
    /// The longest.
    #[serde(rename = "max_ms", serialize_with = "millis")]
    pub max: Duration,
}

/// Reads by the source of their answer.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ReadSources {
    /// The part answered without the database; absent when no read said where it came from.
    pub hit_ratio: Option<f64>,
    /// The answers.
    #[serde(flatten)]
    pub answers: Reads,
    /// Unanswered, or answered with an error.
    pub failed: u64,
    /// How many failed for each reason.
    pub failures: BTreeMap<Cow<'static, str>, u64>,
}

impl Report {
    pub(crate) fn new(
        verdicts: &[Verdict],
        tally: &Tally,
        skipped: BTreeMap<Skip, u64>,
        counters: Option<Counters>,
        elapsed: Duration,
    ) -> Self {
        let lines = Lines::new(verdicts, tally, skipped);
        let answered = lines.answered();
        Self {
            lines,
            adjust: Latency::new(&tally.adjust),
            get: Latency::new(&tally.get),
            reads: ReadSources::new(tally),
            fleet: counters,
            elapsed,
            lines_per_second: per_second(answered, elapsed),
            requests_per_second: per_second(answered + tally.get.count(), elapsed),
        }
    }
}

impl Lines {
    fn new(verdicts: &[Verdict], tally: &Tally, skipped: BTreeMap<Skip, u64>) -> Self {
        let failures = tally.line_failures.clone();
        let mut lines = Self { replayed: tally.replayed, retries: tally.retries, skipped, failures, ..Self::default() };
        for verdict in verdicts {
            *match verdict {
                Verdict::Applied => &mut lines.applied,
                Verdict::Refused => &mut lines.refused,
                Verdict::Failed => &mut lines.failed,
                Verdict::Unknown => &mut lines.unknown,
            } += 1;
        }
        lines
    }

    /// The lines with a final answer.
    fn answered(&self) -> u64 {
        self.applied + self.refused
    }
}

impl Latency {
    fn new(latencies: &Latencies) -> Self {
        Self { count: latencies.count(), p50: latencies.at(0.5), p99: latencies.at(0.99), max: latencies.max() }
    }
}

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = |time: Duration| time.as_secs_f64() * 1_000.0;
        let (p50, p99, max) = (millis(self.p50), millis(self.p99), millis(self.max));
        write!(f, "p50 {p50:.2} ms, p99 {p99:.2} ms, max {max:.1} ms")
    }
}

impl ReadSources {
    #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
    fn new(tally: &Tally) -> Self {
        let (hits, known) = (tally.reads.hits(), tally.reads.known());
        Self {
            hit_ratio: (known > 0).then(|| hits as f64 / known as f64),
            answers: tally.reads.clone(),
            failed: tally.read_failures.values().sum(),
            failures: tally.read_failures.clone(),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
fn per_second(count: u64, elapsed: Duration) -> f64 {
    count as f64 / elapsed.as_secs_f64().max(f64::EPSILON)
}

fn seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

fn millis<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64() * 1_000.0)
}

#[cfg(test)]
mod tests {
    use reqwest::StatusCode;

    use super::*;
    use crate::replay::cache_status::{CacheStatus, Source};

    fn report() -> Report {
        let mut tally = Tally::default();
        tally.adjust.record(Duration::from_millis(2));
        for source in [Source::Redis, Source::Redis, Source::Redis, Source::Load] {
            let cache = CacheStatus { source: Some(source), degraded: false };
            tally.read(StatusCode::OK, cache, b"{}");
        }
        tally.line_failed("outcome-unknown".into());
        tally.read_failed("no connection".into());
        let verdicts = [Verdict::Applied, Verdict::Applied, Verdict::Refused, Verdict::Unknown];
        let counters = Counters { loads: 1, handoffs: 7, ..Counters::default() };
        let skipped = BTreeMap::from([(Skip::ZeroQuantity, 2)]);
        Report::new(&verdicts, &tally, skipped, Some(counters), Duration::from_secs(2))
    }

    #[test]
    fn the_text_names_every_outcome() {
        let text = report().to_string();
        assert!(text.contains("applied 2, refused 1, failed 0, unknown 1"), "{text}");
        assert!(text.contains("skipped 2: zero quantity"), "{text}");
        assert!(text.contains("given up 1: outcome-unknown") && text.contains("failed 1: no connection"), "{text}");
        assert!(text.contains("hit ratio 75.0 %"), "{text}");
        assert!(text.contains("hand-offs 7"), "{text}");
    }

    #[test]
    fn the_json_has_units_in_its_names() {
        let json = serde_json::to_value(report()).unwrap();
        assert_eq!(json["lines"]["skipped"]["zero-quantity"], 2);
        assert_eq!(
            (&json["lines"]["failures"]["outcome-unknown"], &json["reads"]["failures"]["no connection"]),
            (&1.into(), &1.into())
        );
        assert!(json["adjust"]["p99_ms"].as_f64().unwrap() >= 2.0);
        assert_eq!(json["reads"]["hit_ratio"], 0.75);
        assert_eq!((&json["reads"]["loads"], &json["reads"]["shed"]), (&1.into(), &0.into()));
        assert_eq!(json["lines_per_second"], 1.5);
    }
}
