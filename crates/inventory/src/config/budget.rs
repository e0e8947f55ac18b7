use std::time::Duration;

use super::{ConfigError, parse::shown};

/// The durations that must nest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    pub(super) lock_wait: Duration,
    pub(super) redis: Duration,
    pub(super) acquire: Duration,
    pub(super) statement: Duration,
    pub(super) request: Duration,
    pub(super) lease: Duration,
    pub(super) delay: Duration,
    pub(super) grace: Duration,
}

impl Budget {
    /// LOCK_WAIT + REDIS_TIMEOUT + DATABASE_ACQUIRE_TIMEOUT + STATEMENT_TIMEOUT ≤ REQUEST_TIMEOUT ≤ LOCK_LEASE,
    /// 3 · REDIS_TIMEOUT ≤ LOCK_LEASE, and SHUTDOWN_DELAY + LOCK_LEASE ≤ SHUTDOWN_GRACE.
    ///
    /// A request that waits as long as it may for all four must still be answered. A lease must not end while its
    /// request may go on. A renewal is sent after a third of the lease. If its connection hangs, which is known after
    /// REDIS_TIMEOUT, a third must be left for another connection. A shutdown must not cut off work under a lease.
    pub(super) fn check(self) -> Result<(), ConfigError> {
        let steps = self.lock_wait + self.redis + self.acquire + self.statement;
        if steps > self.request {
            return Err(ConfigError::new(
                "REQUEST_TIMEOUT",
                format!(
                    "shorter than LOCK_WAIT + REDIS_TIMEOUT + DATABASE_ACQUIRE_TIMEOUT + STATEMENT_TIMEOUT = \
                     {} + {} + {} + {} = {}",
                    shown(self.lock_wait),
                    shown(self.redis),
                    shown(self.acquire),
                    shown(self.statement),
                    shown(steps)
                ),
                "raise it, or lower one of the four",
            )
            .with_value(&shown(self.request)));
        }
        not_over("REQUEST_TIMEOUT", self.request, "LOCK_LEASE", self.lease)?;
        if self.redis > self.lease / 3 {
            let problem = format!("longer than a third of LOCK_LEASE={}", shown(self.lease));
            let error = ConfigError::new("REDIS_TIMEOUT", problem, "lower it, or raise LOCK_LEASE");
            return Err(error.with_value(&shown(self.redis)));
        }
        not_over("LOCK_LEASE", self.lease, "SHUTDOWN_GRACE", self.grace)?;
        let end = self.delay + self.lease;
        if end > self.grace {
            let problem = format!(
                "SHUTDOWN_DELAY + LOCK_LEASE = {} is longer than SHUTDOWN_GRACE={}",
                shown(end),
                shown(self.grace)
            );
            let error = ConfigError::new("SHUTDOWN_DELAY", problem, "lower it, or raise SHUTDOWN_GRACE");
            return Err(error.with_value(&shown(self.delay)));
        }
        Ok(())
    }
}

fn not_over(less: &str, short: Duration, more: &str, long: Duration) -> Result<(), ConfigError> {
    if short <= long {
        return Ok(());
    }
    let problem = format!("longer than {more}={}", shown(long));
    Err(ConfigError::new(less, problem, format!("lower it, or raise {more}")).with_value(&shown(short)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULT: Budget = Budget {
        lock_wait: Duration::from_secs(2),
        redis: Duration::from_millis(250),
        acquire: Duration::from_secs(1),
        statement: Duration::from_secs(2),
        request: Duration::from_secs(10),
        lease: Duration::from_secs(10),
        delay: Duration::ZERO,
        grace: Duration::from_secs(25),
    };

    #[test]
    fn the_defaults_nest_and_equal_ends_are_fine() {
        DEFAULT.check().unwrap();
        Budget { request: Duration::from_millis(5_250), ..DEFAULT }.check().unwrap();
    }

    #[test]
    fn a_budget_that_does_not_nest_is_named() {
        let error = Budget { lock_wait: Duration::from_secs(8), ..DEFAULT }.check().unwrap_err().to_string();
        assert_eq!(
            error,
            "REQUEST_TIMEOUT=\"10s\": shorter than LOCK_WAIT + REDIS_TIMEOUT + DATABASE_ACQUIRE_TIMEOUT + \
             STATEMENT_TIMEOUT = 8s + 250ms + 1s + 2s = 11s 250ms: raise it, or lower one of the four"
        );
        let error = Budget { lease: Duration::from_secs(9), ..DEFAULT }.check().unwrap_err().to_string();
        assert_eq!(error, "REQUEST_TIMEOUT=\"10s\": longer than LOCK_LEASE=9s: lower it, or raise LOCK_LEASE");
        let error = Budget { redis: Duration::from_secs(4), ..DEFAULT }.check().unwrap_err().to_string();
        assert_eq!(error, "REDIS_TIMEOUT=\"4s\": longer than a third of LOCK_LEASE=10s: lower it, or raise LOCK_LEASE");
        let error = Budget { grace: Duration::from_secs(9), ..DEFAULT }.check().unwrap_err().to_string();
        assert_eq!(error, "LOCK_LEASE=\"10s\": longer than SHUTDOWN_GRACE=9s: lower it, or raise SHUTDOWN_GRACE");
        let error = Budget { delay: Duration::from_secs(16), ..DEFAULT }.check().unwrap_err().to_string();
        assert_eq!(
            error,
            "SHUTDOWN_DELAY=\"16s\": SHUTDOWN_DELAY + LOCK_LEASE = 26s is longer than SHUTDOWN_GRACE=25s: lower it, or \
             raise SHUTDOWN_GRACE"
        );
    }
}
