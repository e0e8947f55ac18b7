use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use crate::lock::Mode;

/// How long requests of a route hold their lock, as a moving average. `Retry-After` is estimated from it.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Microseconds, zero before the first request.
    reads: AtomicU64,
    /// The same of all others. Cached reads are much faster than writes, and who waits, waits for writes.
    others: AtomicU64,
}

/// The shortest `Retry-After`: requests that are refused together would otherwise come back together.
const SHORTEST: Duration = Duration::from_millis(50);
/// The longest `Retry-After`, however many requests wait.
const LONGEST: Duration = Duration::from_secs(60);

const UNMEASURED: Duration = Duration::from_secs(1);

impl Pace {
    pub(crate) fn record(&self, mode: Mode, held: Duration) {
        let average = if mode == Mode::Read { &self.reads } else { &self.others };
        let sample = u64::try_from(held.as_micros()).unwrap_or(u64::MAX).max(1);
        // A new sample counts for an eighth. A concurrent update may be lost, which hardly changes an average.
        let mean = average.load(Ordering::Relaxed);
        let next = if mean == 0 { sample } else { mean - mean / 8 + sample / 8 };
        average.store(next.max(1), Ordering::Relaxed);
    }

    /// An estimate of how long `ahead` requests take, `at_once` of them at a time. A second if nothing was measured
    /// yet. The lease of the holder is no measure, because it is renewed while the holder works.
    pub(crate) fn after(&self, ahead: u64, at_once: u32) -> Duration {
        let means = [&self.others, &self.reads].map(|mean| mean.load(Ordering::Relaxed));
        let estimate = match means.into_iter().find(|mean| *mean > 0).unwrap_or_default() {
            0 => UNMEASURED,
            mean => Duration::from_micros(mean.saturating_mul(ahead.div_ceil(at_once.max(1).into()))),
        };
        estimate.clamp(SHORTEST, LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_ahead_are_reckoned_at_the_pace_seen_so_far() {
        let pace = Pace::default();
        assert_eq!(pace.after(100, 1), UNMEASURED);
        pace.record(Mode::Read, Duration::from_millis(1));
        assert_eq!(pace.after(100, 1), Duration::from_millis(100), "there are reads only");
        pace.record(Mode::Write, Duration::from_millis(20));
        assert_eq!(pace.after(100, 1), Duration::from_secs(2));
        assert_eq!(pace.after(100, 8), Duration::from_millis(260));
        assert_eq!(pace.after(1, 1), SHORTEST);
        assert_eq!(pace.after(1_000_000, 1), LONGEST);
    }

    #[test]
    fn the_average_follows_the_latest_requests() {
        let pace = Pace::default();
        pace.record(Mode::Write, Duration::from_millis(800));
        for _ in 0..100 {
            pace.record(Mode::Write, Duration::from_millis(8));
        }
        assert!(pace.after(100, 1) < Duration::from_millis(900));
    }
}
