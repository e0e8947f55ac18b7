use std::{borrow::Cow, collections::BTreeMap, fmt, time::Duration};

use serde::{Serialize, Serializer};

use super::{
    Verdict,
    scrape::Counters,
    tally::{Latencies, Tally},
};
use crate::orders::Skip;

/// What a replay came to.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// The order lines.
    pub lines: Lines,
    /// Latency of an order line from its first attempt to its answer, retries and their pauses included.
    pub adjust: Latency,
    /// Latency of a read.
    pub get: Latency,
    /// Where reads were answered from, as their `Cache-Status` says.
    pub reads: ReadSources,
    /// What the instances counted meanwhile; absent when none was asked.
    pub fleet: Option<Fleet>,
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
    /// Answers from the idempotency store: an earlier attempt had succeeded although its answer was lost.
    pub replayed: u64,
    /// Attempts after the first.
    pub retries: u64,
    /// Lines of the file that move no stock, by reason.
    pub skipped: BTreeMap<Skip, u64>,
    /// Lines given up, failed or unknown, by the reason of the last attempt: the type of a problem, a status, or what
    /// became of the connection.
    pub failures: BTreeMap<Cow<'static, str>, u64>,
}

/// Latency of one kind of request.
#[derive(Clone, Copy, Debug, Serialize)]
#[non_exhaustive]
pub struct Latency {
    /// How many were answered.
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

/// Where reads were answered from.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ReadSources {
    /// The part answered without the database; absent when no read said where it came from.
    pub hit_ratio: Option<f64>,
    /// The process of the instance.
    pub local: u64,
    /// Redis.
    pub redis: u64,
    /// A remembered absence.
    pub negative: u64,
    /// A value past its lifetime, within its grace.
    pub stale: u64,
    /// A load for this read.
    pub loads: u64,
    /// A load that another read had begun.
    pub collapsed: u64,
    /// Refused, because too many loads were under way.
    pub shed: u64,
    /// Answered while a store was down.
    pub degraded: u64,
    /// Unanswered, or answered with an error.
    pub failed: u64,
    /// Of those how many for which reason.
    pub failures: BTreeMap<Cow<'static, str>, u64>,
}

/// What the instances counted during the replay.
#[derive(Clone, Copy, Debug, Serialize)]
#[non_exhaustive]
pub struct Fleet {
    /// Loads sent to the database.
    pub loads: u64,
    /// Locks handed from a releaser straight to a waiter.
    pub handoffs: u64,
    /// Locks that ended against the holder's will.
    pub locks_lost: u64,
    /// Write transactions that the fence refused.
    pub fence_rejected: u64,
}

impl Report {
    pub(crate) fn new(
        verdicts: &[Verdict],
        tally: &Tally,
        skipped: BTreeMap<Skip, u64>,
        counters: Option<Counters>,
        elapsed: Duration,
    ) -> Self {
        let failures = tally.line_failures.clone();
        let mut lines =
            Lines { replayed: tally.replayed, retries: tally.retries, skipped, failures, ..Lines::default() };
        for verdict in verdicts {
            *match verdict {
                Verdict::Applied => &mut lines.applied,
                Verdict::Refused => &mut lines.refused,
                Verdict::Failed => &mut lines.failed,
                Verdict::Unknown => &mut lines.unknown,
            } += 1;
        }
        let answered = lines.applied + lines.refused;
        Self {
            lines,
            adjust: Latency::new(&tally.adjust),
            get: Latency::new(&tally.get),
            reads: ReadSources::new(tally),
            fleet: counters.map(Fleet::new),
            elapsed,
            lines_per_second: per_second(answered, elapsed),
            requests_per_second: per_second(answered + tally.get.count(), elapsed),
        }
    }
}

impl Latency {
    fn new(latencies: &Latencies) -> Self {
        Self { count: latencies.count(), p50: latencies.at(0.5), p99: latencies.at(0.99), max: latencies.max() }
    }
}

impl ReadSources {
    fn new(tally: &Tally) -> Self {
        let reads = tally.reads;
        Self {
            hit_ratio: (reads.known() > 0).then(|| as_f64(reads.hits()) / as_f64(reads.known())),
            local: reads.local,
            redis: reads.redis,
            negative: reads.negative,
            stale: reads.stale,
            loads: reads.loads,
            collapsed: reads.collapsed,
            shed: reads.shed,
            degraded: reads.degraded,
            failed: tally.read_failures.values().sum(),
            failures: tally.read_failures.clone(),
        }
    }
}

impl Fleet {
    fn new(counters: Counters) -> Self {
        Self {
            loads: as_u64(counters.loads),
            handoffs: as_u64(counters.handoffs),
            locks_lost: as_u64(counters.lost),
            fence_rejected: as_u64(counters.fence_rejected),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Lines { applied, refused, failed, unknown, replayed, retries, skipped, failures } = &self.lines;
        let reads = &self.reads;
        writeln!(f, "order lines   applied {applied}, refused {refused}, failed {failed}, unknown {unknown}")?;
        writeln!(f, "              retries {retries}, answered from the idempotency store {replayed}")?;
        for (reason, count) in skipped {
            writeln!(f, "              skipped {count}: {reason}")?;
        }
        for (reason, count) in failures {
            writeln!(f, "              given up {count}: {reason}")?;
        }
        writeln!(f, "adjust        {}", self.adjust)?;
        writeln!(f, "get           {}, failed {}", self.get, reads.failed)?;
        for (reason, count) in &reads.failures {
            writeln!(f, "              failed {count}: {reason}")?;
        }
        if let Some(ratio) = reads.hit_ratio {
            writeln!(
                f,
                "cache         hit ratio {:.1} %: local {}, redis {}, absent {}, stale {}; loads {}, collapsed {}, shed {}",
                ratio * 100.0,
                reads.local,
                reads.redis,
                reads.negative,
                reads.stale,
                reads.loads,
                reads.collapsed,
                reads.shed
            )?;
        }
        if reads.degraded > 0 {
            writeln!(f, "              degraded answers {}", reads.degraded)?;
        }
        if let Some(fleet) = &self.fleet {
            let Fleet { loads, handoffs, locks_lost, fence_rejected } = fleet;
            writeln!(
                f,
                "fleet         database loads {loads}, hand-offs {handoffs}, locks lost {locks_lost}, fence refusals {fence_rejected}"
            )?;
        }
        write!(
            f,
            "throughput    {:.0} lines/s, {:.0} requests/s over {:.1} s",
            self.lines_per_second,
            self.requests_per_second,
            self.elapsed.as_secs_f64()
        )
    }
}

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = |time: Duration| time.as_secs_f64() * 1_000.0;
        let (p50, p99, max) = (millis(self.p50), millis(self.p99), millis(self.max));
        write!(f, "p50 {p50:.2} ms, p99 {p99:.2} ms, max {max:.1} ms ({} answers)", self.count)
    }
}

fn per_second(count: u64, elapsed: Duration) -> f64 {
    as_f64(count) / elapsed.as_secs_f64().max(f64::EPSILON)
}

#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
fn as_f64(count: u64) -> f64 {
    count as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float cast saturates; counters are whole"
)]
fn as_u64(counter: f64) -> u64 {
    counter.round() as u64
}

fn millis<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64() * 1_000.0)
}

fn seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let mut tally = Tally::new();
        tally.adjust.record(Duration::from_millis(2));
        tally.reads.redis = 3;
        tally.reads.loads = 1;
        tally.line_failed("outcome-unknown".into());
        tally.read_failed("no connection".into());
        let verdicts = [Verdict::Applied, Verdict::Applied, Verdict::Refused, Verdict::Unknown];
        let counters = Counters { loads: 1.0, handoffs: 7.0, lost: 0.0, fence_rejected: 0.0 };
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
        assert_eq!(json["lines_per_second"], 1.5);
    }
}
