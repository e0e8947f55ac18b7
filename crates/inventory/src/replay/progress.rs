use std::sync::atomic::{AtomicU64, Ordering};

use indicatif::{ProgressBar, ProgressStyle};

use crate::console;

/// Parts of the whole after which a plain line is written.
const STEPS: u64 = 10;

/// How far the replay is: a bar on a terminal, a line for every tenth elsewhere.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    done: AtomicU64,
    total: u64,
}

impl Progress {
    pub(crate) fn new(total: u64) -> Self {
        let bar = ProgressBar::new(total);
        let style = ProgressStyle::with_template("{bar:40} {human_pos}/{human_len} order lines, {per_sec}, {eta} left")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style);
        Self { bar, done: AtomicU64::new(0), total }
    }

    pub(crate) fn advance(&self) {
        self.bar.inc(1);
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        if self.bar.is_hidden() && is_step(done, self.total) {
            console::note(&format!("{done}/{} order lines", self.total));
        }
    }

    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// Whether the count reaches the next tenth of the whole.
fn is_step(done: u64, total: u64) -> bool {
    done * STEPS / total.max(1) > (done - 1) * STEPS / total.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_ten_steps_and_the_last_is_the_end() {
        for total in [10, 99, 21_338] {
            let steps: Vec<_> = (1..=total).filter(|&done| is_step(done, total)).collect();
            assert_eq!(steps.len(), 10, "{total}");
            assert_eq!(steps.last(), Some(&total));
        }
    }
}
