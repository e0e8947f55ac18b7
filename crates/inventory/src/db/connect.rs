//! Connections for commands that do one thing and end, and the reasons why one can't be made.

use std::{io, time::Duration};

use sqlx::{
    Connection, PgConnection, PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};

/// How long a database may take to accept a login.
const LIMIT: Duration = Duration::from_secs(10);

/// How long after its last use a connection is used again without a test. A busy service uses each more often. Short,
/// because whoever uses one that Postgres closed meanwhile gets an error.
const TRUSTED: Duration = Duration::from_millis(10);

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The database refused, or could not be reached.
    #[error("no connection to the database at {place}: is it running there, and does it let this host and user in?")]
    Refused {
        /// The address, without user and password.
        place: String,
        /// The error of the database or of the system.
        source: sqlx::Error,
    },
    /// It is no primary, and takes no writes.
    #[error("the database at {place} is a standby: point DATABASE_URL at the primary")]
    Standby {
        /// The address.
        place: String,
    },
    /// The database lets others in, and this process has no connection left.
    #[error(
        "all {max} connections to the database at {place} are in use: look for slow statements, or raise \
         DATABASE_MAX_CONNECTIONS"
    )]
    Busy {
        /// The address.
        place: String,
        /// The most connections that the pool may have.
        max: u32,
    },
}

/// The address of the database: host, port and name.
#[must_use]
pub fn place(options: &PgConnectOptions) -> String {
    let host = options.get_socket().map_or_else(
        || format!("{}:{}", options.get_host(), options.get_port()),
        |socket| socket.display().to_string(),
    );
    options.get_database().map_or_else(|| host.clone(), |database| format!("{host}/{database}"))
}

/// Tests a connection before its use only if it was idle for 10 ms.
///
/// The test finds connections that a restart of the server or a firewall has closed. It is a round trip, and a busy
/// service would make it before each transaction and each load.
#[must_use]
pub fn tested_when_idle(options: PgPoolOptions) -> PgPoolOptions {
    options.test_before_acquire(false).before_acquire(|connection, meta| {
        Box::pin(async move { Ok(meta.idle_for < TRUSTED || connection.ping().await.is_ok()) })
    })
}

/// Closes a connection that comes back while a statement or a rollback is under way, unless the server ends that within
/// `limit`. A connection with nothing under way costs nothing here. After a transaction there is a rollback, whose
/// answer is waited for: a round trip more before the connection is free, and none for the request.
///
/// The pool then waits for a sign of life without a limit. From a server that vanished during a statement none comes,
/// and the connection would keep its place in the pool until TCP gives up.
#[must_use]
pub fn closed_when_silent(options: PgPoolOptions, limit: Duration) -> PgPoolOptions {
    options.after_release(move |connection, _| {
        Box::pin(async move {
            answered(limit, connection.flush()).await?;
            Ok(true)
        })
    })
}

/// Waits for the database at most for `limit`.
///
/// # Errors
///
/// Those of `asked`, and an I/O error when the time is up. Whether the database does what it was asked for is unknown
/// then.
pub async fn answered<T, E: From<sqlx::Error>>(
    limit: Duration,
    asked: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {limit:?}"));
    tokio::time::timeout(limit, asked).await.map_err(late).map_err(sqlx::Error::from)?
}

/// A pool of one connection, for a command that does one thing.
///
/// # Errors
///
/// [`ConnectError::Refused`], at once or after 10 s without an answer; [`ConnectError::Standby`].
pub async fn one(options: PgConnectOptions) -> Result<PgPool, ConnectError> {
    ask(&options).await?;
    let pool = PgPoolOptions::new().max_connections(1).acquire_timeout(LIMIT);
    let refused = |source| ConnectError::Refused { place: place(&options), source };
    pool.connect_with(options.clone()).await.map_err(refused)
}

/// Takes a connection of the pool for a moment. The error says why there is none.
///
/// A pool alone retries a database that refuses until its time is up, and then reports only a time-out.
///
/// # Errors
///
/// [`ConnectError`].
pub async fn look(pool: &PgPool, options: &PgConnectOptions) -> Result<(), ConnectError> {
    if pool.acquire().await.is_ok() {
        return Ok(());
    }
    ask(options).await?;
    Err(ConnectError::Busy { place: place(options), max: pool.options().get_max_connections() })
}

/// Makes a connection and closes it.
async fn ask(options: &PgConnectOptions) -> Result<(), ConnectError> {
    let asked = answered(LIMIT, async {
        let mut connection = PgConnection::connect_with(options).await?;
        let standby = sqlx::query_scalar("select pg_is_in_recovery()").fetch_one(&mut connection).await?;
        connection.close().await?;
        Ok(standby)
    });
    match asked.await {
        Ok(true) => Err(ConnectError::Standby { place: place(options) }),
        Ok(false) => Ok(()),
        Err(source) => Err(ConnectError::Refused { place: place(options), source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_has_neither_user_nor_password() {
        let place = |url: &str| place(&url.parse().unwrap());
        assert_eq!(place("postgres://stock:hunter2@db.example:6432/stock?application_name=x"), "db.example:6432/stock");
        assert_eq!(place("postgres://stock:hunter2@%2Fvar%2Frun/stock"), "/var/run/stock");
    }
}
