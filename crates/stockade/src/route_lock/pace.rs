use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// How long requests of a route hold their lock, as a moving average. `Retry-After` is estimated from it.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Microseconds, zero before the first request.
    mean: AtomicU64,
}

/// The shortest `Retry-After`: requests that are refused together would otherwise come back together.
const SHORTEST: Duration = Duration::from_millis(50);
/// The longest `Retry-After`, however many requests wait.
const LONGEST: Duration = Duration::from_secs(60);

const UNMEASURED: Duration = Duration::from_secs(1);

impl Pace {
    pub(crate) fn record(&self, held: Duration) {
        let sample = u64::try_from(held.as_micros()).unwrap_or(u64::MAX).max(1);
        // A new sample counts for an eighth. A concurrent update may be lost, which hardly changes an average.
        let mean = self.mean.load(Ordering::Relaxed);
        let next = if mean == 0 { sample } else { mean - mean / 8 + sample / 8 };
        self.mean.store(next.max(1), Ordering::Relaxed);
    }

    /// An estimate of how long `ahead` requests take, `at_once` of them at a time. A second if nothing was measured
    /// yet. The lease of the holder is no measure, because it is renewed while the holder works.
    pub(crate) fn after(&self, ahead: u64, at_once: u32) -> Duration {
        let estimate = match self.mean.load(Ordering::Relaxed) {
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
        pace.record(Duration::from_millis(20));
        assert_eq!(pace.after(100, 1), Duration::from_secs(2));
        assert_eq!(pace.after(100, 8), Duration::from_millis(260));
        assert_eq!(pace.after(1, 1), SHORTEST);
        assert_eq!(pace.after(1_000_000, 1), LONGEST);
    }

    #[test]
    fn the_average_follows_the_latest_requests() {
        let pace = Pace::default();
        pace.record(Duration::from_millis(800));
        for _ in 0..100 {
            pace.record(Duration::from_millis(8));
        }
        assert!(pace.after(100, 1) < Duration::from_millis(900));
    }
}
