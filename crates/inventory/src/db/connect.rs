//! Connections for the commands that do one thing and end.

use std::{io, time::Duration};

use sqlx::{
    Connection, PgConnection, PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};

/// How long a database may take to let somebody in.
const LIMIT: Duration = Duration::from_secs(10);

/// A pool of one connection, for a command that does one thing.
///
/// A pool alone tries a closed port again until its time is up, and then has nothing to say but that.
///
/// # Errors
///
/// What the database or the way to it says; a time-out after 10 s.
pub async fn one(options: PgConnectOptions) -> sqlx::Result<PgPool> {
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {LIMIT:?}"));
    tokio::time::timeout(LIMIT, PgConnection::connect_with(&options)).await.map_err(late)??.close().await?;
    PgPoolOptions::new().max_connections(1).connect_with(options).await
}
