use std::{fmt, time::Duration};

use sqlx::postgres::PgConnectOptions;
use stockade::postgres::Timeouts;

use super::{
    Args, ConfigError, DatabaseArgs,
    budget::Budget,
    error::Findings,
    parse::{number, password, secret},
};

/// Postgres ends a transaction that is idle for this long: its process was stopped, and it holds up its successors.
const IDLE_IN_TRANSACTION: Duration = Duration::from_secs(5);

/// How the database is used.
#[derive(Clone)]
pub struct Database {
    /// The address, and how to log in.
    pub options: PgConnectOptions,
    /// How many connections are open at most.
    pub max_connections: u32,
    /// How long to wait for a connection.
    pub acquire_timeout: Duration,
}

/// Leaves out the options, which show their password.
impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database")
            .field("max_connections", &self.max_connections)
            .field("acquire_timeout", &self.acquire_timeout)
            .finish_non_exhaustive()
    }
}

impl Database {
    pub(super) fn read(args: &Args, budget: Option<Budget>, found: &mut Findings) -> Option<Self> {
        let options = found.note(args.database.options());
        let max = found.note(number("DATABASE_MAX_CONNECTIONS", &args.database_max_connections, 1..=10_000));
        let Budget { lock_wait, acquire, statement, .. } = budget?;
        let timeouts = Timeouts { statement, lock: lock_wait.min(statement), idle_in_transaction: IDLE_IN_TRANSACTION };
        Some(Self {
            options: stockade::postgres::options(options?, &timeouts),
            max_connections: max?,
            acquire_timeout: acquire,
        })
    }
}

impl DatabaseArgs {
    /// The address of the database, and how to log in.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] when there is no URL, or it is malformed.
    pub fn options(&self) -> Result<PgConnectOptions, ConfigError> {
        const FORM: &str = "use postgres://USER:PASSWORD@HOST:PORT/DATABASE";
        let url = secret("DATABASE_URL", self.database_url.as_ref(), self.database_url_file.as_deref())?
            .ok_or_else(|| ConfigError::new("DATABASE_URL", "not set", FORM))?;
        let scheme = ["postgres://", "postgresql://"].iter().any(|scheme| url.expose().starts_with(scheme));
        // The parser's own error is left out: it may quote the URL with its password.
        let options: PgConnectOptions = match url.expose().parse() {
            Ok(options) if scheme => options,
            _ => return Err(ConfigError::new("DATABASE_URL", "not the URL of a Postgres database", FORM)),
        };
        let (given, file) = (self.database_password.as_ref(), self.database_password_file.as_deref());
        Ok(match password("DATABASE_PASSWORD", given, file)? {
            Some(password) => options.password(password.expose()),
            None => options,
        })
    }
}
