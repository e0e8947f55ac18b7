use std::time::Duration;

use sqlx::postgres::PgConnectOptions;

/// How long Postgres lets a session wait. All are set on the connection, at no cost per transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// How long a statement runs. Default 2 s.
    pub statement: Duration,
    /// How long a statement waits for a row lock, the fence's in the first place. Default 2 s; kept a tenth below
    /// `statement`, since a longer one would never fire.
    pub lock: Duration,
    /// How long a transaction may stand still between two statements. Default 5 s. It ends the transaction of a holder
    /// that was stopped, which otherwise blocks every successor on the fence row.
    pub idle_in_transaction: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            statement: Duration::from_secs(2),
            lock: Duration::from_secs(2),
            idle_in_transaction: Duration::from_secs(5),
        }
    }
}

/// Puts the time-outs on every connection made with these options.
///
/// ```
/// use sqlx::postgres::PgConnectOptions;
/// use stockade::postgres::{Timeouts, options};
///
/// let options = options(PgConnectOptions::new(), &Timeouts::default());
/// assert!(options.get_options().is_some_and(|set| set.contains("lock_timeout=1800")));
/// ```
#[must_use]
pub fn options(options: PgConnectOptions, timeouts: &Timeouts) -> PgConnectOptions {
    let lock = timeouts.lock.min(timeouts.statement * 9 / 10);
    options.options([
        ("statement_timeout", millis(timeouts.statement)),
        ("lock_timeout", millis(lock)),
        ("idle_in_transaction_session_timeout", millis(timeouts.idle_in_transaction)),
    ])
}

/// Whole milliseconds, at least 1: Postgres reads 0 as "no limit".
fn millis(duration: Duration) -> u128 {
    duration.as_millis().max(1)
}
