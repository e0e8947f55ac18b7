use std::{borrow::Cow, collections::BTreeMap};

use serde::Serialize;

use crate::replay::tally::Tally;

/// Reads by the source of their answer.
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
    /// How many failed for each reason.
    pub failures: BTreeMap<Cow<'static, str>, u64>,
}

impl ReadSources {
    pub(in crate::replay) fn new(tally: &Tally) -> Self {
        let reads = tally.reads;
        Self {
            hit_ratio: (reads.known() > 0).then(|| part(reads.hits(), reads.known())),
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

#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
fn part(of: u64, all: u64) -> f64 {
    of as f64 / all as f64
}
