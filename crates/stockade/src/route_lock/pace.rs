use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// How long requests of a route hold their lock, as a moving average: what `Retry-After` is reckoned from.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Microseconds, zero before the first request.
    mean: AtomicU64,
}

/// Nobody is asked back sooner: those refused together would come back together.
const SHORTEST: Duration = Duration::from_millis(50);
/// Nobody is sent away for longer, however many wait.
const LONGEST: Duration = Duration::from_secs(60);

const UNMEASURED: Duration = Duration::from_secs(1);

impl Pace {
    pub(crate) fn record(&self, held: Duration) {
        let sample = u64::try_from(held.as_micros()).unwrap_or(u64::MAX).max(1);
        // An eighth of each new sample. A concurrent update may get lost, which an average can bear.
        let mean = self.mean.load(Ordering::Relaxed);
        let next = if mean == 0 { sample } else { mean - mean / 8 + sample / 8 };
        self.mean.store(next.max(1), Ordering::Relaxed);
    }

    /// How long it takes until `ahead` requests are through, `at_once` of them at a time; a second before anything was
    /// measured. The lease of the holder says nothing about it: it is renewed while the holder works.
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
