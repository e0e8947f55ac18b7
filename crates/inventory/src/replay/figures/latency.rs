use std::{fmt, time::Duration};

use serde::{Serialize, Serializer};

use crate::replay::tally::Latencies;

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

impl Latency {
    pub(in crate::replay) fn new(latencies: &Latencies) -> Self {
        Self { count: latencies.count(), p50: latencies.at(0.5), p99: latencies.at(0.99), max: latencies.max() }
    }
}

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = |time: Duration| time.as_secs_f64() * 1_000.0;
        let (p50, p99, max) = (millis(self.p50), millis(self.p99), millis(self.max));
        write!(f, "p50 {p50:.2} ms, p99 {p99:.2} ms, max {max:.1} ms ({} answers)", self.count)
    }
}

fn millis<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64() * 1_000.0)
}
