use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Failures in a row after which nothing is sent for a while.
const FAILURES: u32 = 5;

/// How long nothing is sent. Then one command tries the server.
const PAUSE: Duration = Duration::from_secs(1);

/// Refuses commands at once while the server does not answer.
#[derive(Debug, Default)]
pub(super) struct Breaker(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    failures: u32,
    open_until: Option<Instant>,
}

impl Breaker {
    /// Whether a command may be sent; otherwise, when one may be.
    pub(super) fn permit(&self) -> Result<(), Duration> {
        let mut state = self.0.lock();
        let Some(until) = state.open_until else { return Ok(()) };
        let now = Instant::now();
        if now < until {
            return Err(until - now);
        }
        state.open_until = Some(now + PAUSE);
        Ok(())
    }

    pub(super) fn succeeded(&self) {
        let mut state = self.0.lock();
        if state.failures > 0 {
            *state = State::default();
        }
    }

    pub(super) fn failed(&self) {
        let mut state = self.0.lock();
        state.failures = state.failures.saturating_add(1);
        if state.failures >= FAILURES {
            state.open_until = Some(Instant::now() + PAUSE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn five_failures_in_a_row_open_it_and_one_command_a_second_finds_out() {
        let breaker = Breaker::default();
        for _ in 0..FAILURES {
            breaker.permit().unwrap();
            breaker.failed();
        }
        assert_eq!(breaker.permit(), Err(PAUSE));
        tokio::time::advance(PAUSE).await;
        breaker.permit().unwrap();
        assert!(breaker.permit().is_err(), "one finds out");
        breaker.succeeded();
        breaker.permit().unwrap();
        breaker.failed();
        breaker.permit().unwrap();
    }
}
