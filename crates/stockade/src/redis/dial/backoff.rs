use std::time::Duration;

use rand::Rng;

const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(2);

/// Pauses between attempts: doubling, with jitter, so that a fleet does not return all at once.
#[derive(Debug)]
pub(in crate::redis) struct Backoff(Duration);

impl Backoff {
    pub(in crate::redis) fn new() -> Self {
        Self(FIRST)
    }

    pub(in crate::redis) fn reset(&mut self) {
        self.0 = FIRST;
    }

    pub(in crate::redis) fn next(&mut self) -> Duration {
        let pause = self.0.mul_f64(rand::rng().random_range(0.5..=1.0));
        self.0 = (self.0 * 2).min(LONGEST);
        pause
    }
}
