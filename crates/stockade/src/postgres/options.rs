use std::time::Duration;

use sqlx::{
    Row,
    postgres::{PgConnectOptions, PgPoolOptions},
};

/// How long Postgres lets a session wait, in milliseconds from 1 to 2^31 - 1: a time beyond these becomes the nearest
/// one. The time-outs are set when a connection is made, so a transaction pays nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    statement: Duration,
    lock: Duration,
    idle_in_transaction: Duration,
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

impl Timeouts {
    /// How long a statement runs. Default 2 s.
    ///
    /// A cache whose loader uses the pool has a default [`load_timeout`](crate::cache::CacheBuilder::load_timeout) of
    /// 2 s, too. Lower this or raise that: the `acquire_timeout` of the pool and this together should be shorter than
    /// it. Otherwise a query may outlive its load, and Postgres sees more of them than `max_loads`.
    #[must_use]
    pub const fn statement(mut self, timeout: Duration) -> Self {
        self.statement = timeout;
        self
    }

    /// How long a statement waits for a row lock, such as that of the fence row. Default 2 s. [`options`] limits it to
    /// nine tenths of [`Timeouts::statement`], since a longer one would never end a wait.
    #[must_use]
    pub const fn lock(mut self, timeout: Duration) -> Self {
        self.lock = timeout;
        self
    }

    /// How long a transaction may be idle between two statements. Default 5 s. It ends the transaction of a stopped
    /// holder, which otherwise keeps every successor from claiming the fence row.
    #[must_use]
    pub const fn idle_in_transaction(mut self, timeout: Duration) -> Self {
        self.idle_in_transaction = timeout;
        self
    }
}

/// Puts the time-outs on every connection made with these options, above those that `?options=` of a URL sets. They
/// also end a migration that runs on such a connection: run long ones on a connection of their own.
///
/// The time to get a connection is a setting of the pool: `PgPoolOptions::acquire_timeout`. Its default of 30 s is also
/// the longest hold of a `RouteLock`. With it, requests to a stopped Postgres are
/// answered after 30 s, as `lease-lost`. With 1 s they are answered soon, as `database-unavailable`.
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
    let lock = timeouts.lock.min(timeouts.statement / 10 * 9);
    options.options([
        ("statement_timeout", millis(timeouts.statement)),
        ("lock_timeout", millis(lock)),
        ("idle_in_transaction_session_timeout", millis(timeouts.idle_in_transaction)),
    ])
}

/// Makes a pool that takes no connection to a standby. It tries again until its `acquire_timeout` is over, and sqlx
/// logs each try as an error. Each new connection costs one round trip more.
///
/// After a failover a name or a pooler may lead to the old primary for a while, and that may run as a standby by then.
/// Loads from it would put old rows into the cache of the whole fleet, after the invalidations of their writes. Behind
/// a pooler that changes servers under an open connection, this does not help.
///
/// It takes the place of an `after_connect` that was set before.
#[must_use]
pub fn on_primary(options: PgPoolOptions) -> PgPoolOptions {
    options.after_connect(|connection, _| {
        Box::pin(async move {
            if sqlx::raw_sql("select pg_is_in_recovery()").fetch_one(connection).await?.try_get(0)? {
                return Err(sqlx::Error::Configuration("this server is a standby: connect to the primary".into()));
            }
            Ok(())
        })
    })
}

/// Whole milliseconds, at least 1 and at most what Postgres takes: it reads 0 as "no limit".
fn millis(duration: Duration) -> u128 {
    duration.as_millis().clamp(1, 2_147_483_647)
}
