use std::sync::atomic::{AtomicU64, Ordering};

use crate::measure::is_timed;

/// How many of a contender's answers were of the kind that its name promises.
pub(crate) struct Share {
    row: &'static str,
    /// What the head of such an answer contains.
    mark: &'static str,
    marked: AtomicU64,
    all: AtomicU64,
}

impl Share {
    pub(super) fn new(row: &'static str, mark: &'static str) -> Self {
        Self { row, mark, marked: AtomicU64::new(0), all: AtomicU64::new(0) }
    }

    /// Counts the answer with this head, if the round is timed.
    pub(super) fn count(&self, head: &str) {
        if !is_timed() {
            return;
        }
        self.all.fetch_add(1, Ordering::Relaxed);
        if head.contains(self.mark) {
            self.marked.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn text(&self) -> String {
        let [marked, all] = [&self.marked, &self.all].map(|count| count.load(Ordering::Relaxed));
        let part = marked as f64 * 100.0 / all.max(1) as f64;
        format!("{}: {part:.1} % of its {all} timed answers said `{}`", self.row, self.mark)
    }
}
