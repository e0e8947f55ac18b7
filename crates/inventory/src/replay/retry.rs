use std::time::Duration;

use rand::Rng;
use tokio::time::Instant;

const FIRST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_secs(1);

/// How often and how long one order line is tried.
#[derive(Clone, Copy, Debug)]
pub struct RetryLimits {
    /// Attempts after the first.
    pub retries: u32,
    /// From the first attempt to the start of the last.
    pub total: Duration,
}

/// The pauses between attempts: decorrelated jitter, as in "Exponential Backoff And Jitter" (AWS Architecture Blog,
/// 2015), bounded by count and by time.
#[derive(Debug)]
pub(crate) struct Backoff {
    left: u32,
    end: Instant,
    last: Duration,
}

impl Backoff {
    pub(crate) fn new(limits: RetryLimits, now: Instant) -> Self {
        Self { left: limits.retries, end: now + limits.total, last: FIRST }
    }

    /// The pause before the next attempt; `None` when the line is given up. `asked` is the least that the server wants.
    pub(crate) fn next(&mut self, asked: Option<Duration>, now: Instant, rng: &mut impl Rng) -> Option<Duration> {
        self.left = self.left.checked_sub(1)?;
        self.last = rng.random_range(FIRST..=(self.last * 3).clamp(FIRST, LONGEST));
        let pause = asked.unwrap_or_default().saturating_add(self.last);
        now.checked_add(pause).is_some_and(|next| next <= self.end).then_some(pause)
    }
}

#[cfg(test)]
mod tests {
    use rand::{SeedableRng, rngs::SmallRng};

    use super::*;

    fn limits(retries: u32, total: Duration) -> RetryLimits {
        RetryLimits { retries, total }
    }

    #[test]
    fn pauses_stay_in_their_bounds_and_end_with_the_retries() {
        let (now, mut rng) = (Instant::now(), SmallRng::seed_from_u64(1));
        let mut backoff = Backoff::new(limits(20, Duration::from_secs(3600)), now);
        let pauses: Vec<_> = std::iter::from_fn(|| backoff.next(None, now, &mut rng)).collect();
        assert_eq!(pauses.len(), 20);
        assert!(pauses.iter().all(|pause| (FIRST..=LONGEST).contains(pause)), "{pauses:?}");
        assert!(pauses[0] <= FIRST * 3);
    }

    #[test]
    fn it_never_comes_before_the_server_wants_it() {
        let (now, mut rng) = (Instant::now(), SmallRng::seed_from_u64(2));
        let mut backoff = Backoff::new(limits(5, Duration::from_secs(60)), now);
        let asked = Duration::from_secs(2);
        assert!(backoff.next(Some(asked), now, &mut rng).unwrap() > asked);
    }

    #[test]
    fn a_pause_that_would_pass_the_total_is_not_begun() {
        let (now, mut rng) = (Instant::now(), SmallRng::seed_from_u64(3));
        let mut backoff = Backoff::new(limits(5, Duration::from_secs(1)), now);
        for asked in [Duration::from_secs(1), Duration::MAX] {
            assert!(backoff.next(Some(asked), now, &mut rng).is_none());
        }
        assert!(backoff.next(None, now + Duration::from_secs(2), &mut rng).is_none());
    }
}
