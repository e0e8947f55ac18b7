use std::{borrow::Cow, fmt, time::Duration};

use reqwest::Url;
use sqlx::postgres::{PgConnectOptions, PgSslMode};
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
    /// How long one statement may run.
    pub statement_timeout: Duration,
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
        let timeouts =
            Timeouts::default().statement(statement).lock(lock_wait).idle_in_transaction(IDLE_IN_TRANSACTION);
        Some(Self {
            options: stockade::postgres::options(options?, &timeouts),
            max_connections: max?,
            acquire_timeout: acquire,
            statement_timeout: statement,
        })
    }
}

const FORM: &str = "use postgres://USER:PASSWORD@HOST:PORT/DATABASE";

impl DatabaseArgs {
    /// The address of the database, and how to log in.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] when there is no URL, or it is malformed.
    pub fn options(&self) -> Result<PgConnectOptions, ConfigError> {
        let url = secret("DATABASE_URL", self.database_url.as_ref(), self.database_url_file.as_deref())?
            .ok_or_else(|| ConfigError::new("DATABASE_URL", "not set", FORM))?;
        let scheme = ["postgres://", "postgresql://"].iter().any(|scheme| url.expose().starts_with(scheme));
        let options: PgConnectOptions = match url.expose().parse() {
            Ok(options) if scheme => options,
            _ => {
                let (problem, remedy) = fault(url.expose());
                return Err(ConfigError::new("DATABASE_URL", problem, remedy));
            }
        };
        let (given, file) = (self.database_password.as_ref(), self.database_password_file.as_deref());
        Ok(match password("DATABASE_PASSWORD", given, file)? {
            Some(password) => options.password(password.expose()),
            None => options,
        })
    }
}

/// What is wrong with a URL, and the remedy. Neither quotes the URL, and the parser's own error is left out, since it
/// does: if a `?` in the password is not escaped, even a parameter is a part of the password.
fn fault(url: &str) -> (String, &'static str) {
    const MODES: &str = "use disable, allow, prefer, require, verify-ca or verify-full";
    let is_wrong_mode = |(key, value): (Cow<'_, str>, Cow<'_, str>)| {
        matches!(&*key, "sslmode" | "ssl-mode") && value.parse::<PgSslMode>().is_err()
    };
    match Url::parse(url) {
        // This error has fixed texts, such as `invalid port number`.
        Err(error) => (format!("not a URL ({error})"), FORM),
        Ok(url) if url.query_pairs().any(is_wrong_mode) => ("its sslmode is unknown".to_owned(), MODES),
        Ok(_) => ("not the URL of a Postgres database".to_owned(), FORM),
    }
}
