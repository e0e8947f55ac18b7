use std::{borrow::Cow, collections::BTreeMap};

use serde::Serialize;

use crate::{
    orders::Skip,
    replay::{Verdict, tally::Tally},
};

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
    /// Lines given up, failed or unknown, by the reason of the last attempt: the type of a problem, a status, or how
    /// the connection failed.
    pub failures: BTreeMap<Cow<'static, str>, u64>,
}

impl Lines {
    pub(in crate::replay) fn new(verdicts: &[Verdict], tally: &Tally, skipped: BTreeMap<Skip, u64>) -> Self {
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
    pub(in crate::replay) fn answered(&self) -> u64 {
        self.applied + self.refused
    }
}
