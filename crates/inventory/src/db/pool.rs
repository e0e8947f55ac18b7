//! When a pool asks whether the database is still there.

use std::time::Duration;

use sqlx::{Connection, postgres::PgPoolOptions};

/// A connection that stood idle for less than this is used without asking whether it still lives.
pub const TRUSTED_FOR: Duration = Duration::from_millis(100);

/// A pool that asks before it hands out a connection, unless the connection was in use less than [`TRUSTED_FOR`] ago.
///
/// The driver asks each connection when it is given back, so one that the database closed while it stood idle is found
/// here. If the database closes a connection within [`TRUSTED_FOR`] of its last use, the next request on it fails. The
/// request would fail as well if it had begun a moment earlier. Asking every time costs a round trip for each use under
/// load.
#[must_use]
pub fn options() -> PgPoolOptions {
    PgPoolOptions::new().test_before_acquire(false).before_acquire(|connection, about| {
        Box::pin(async move {
            if about.idle_for >= TRUSTED_FOR {
                connection.ping().await?;
            }
            Ok(true)
        })
    })
}
