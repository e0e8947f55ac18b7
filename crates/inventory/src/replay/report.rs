use std::{collections::BTreeMap, time::Duration};

use serde::{Serialize, Serializer};

use super::{Fleet, Latency, Lines, ReadSources, Verdict, scrape::Counters, tally::Tally};
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
    /// The counts of the instances during the replay; absent when no ops URL was given.
    pub fleet: Option<Fleet>,
    /// How long the replay took.
    #[serde(serialize_with = "seconds")]
    pub elapsed: Duration,
    /// Answered order lines per second.
    pub lines_per_second: f64,
    /// Answered order lines and reads per second.
    pub requests_per_second: f64,
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
            fleet: counters.map(Fleet::new),
            elapsed,
            lines_per_second: per_second(answered, elapsed),
            requests_per_second: per_second(answered + tally.get.count(), elapsed),
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
