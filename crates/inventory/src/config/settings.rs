use std::{fmt, net::SocketAddr, ops::RangeInclusive, time::Duration};

use sqlx::postgres::PgConnectOptions;
use stockade::postgres::Timeouts;
use tracing_subscriber::EnvFilter;

use super::{
    Args, ConfigError, DatabaseArgs, Secret,
    budget::Budget,
    parse::{address, duration, durations, number, secret},
    shown_url,
};

const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// What a lease may be; the locks refuse others.
const LEASE: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(5 * 60);

/// Shorter than anybody takes who sends a head at all, and longer than any pause in which it pays to stay connected.
const HEADER_TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(10 * 60);

/// A transaction that stands still for this long was left by a process that was stopped. It holds up its successors.
const IDLE_IN_TRANSACTION: Duration = Duration::from_secs(5);

/// Everything that `inventory serve` is told, checked.
#[derive(Debug)]
pub struct Config {
    /// The address of the public port.
    pub listen: SocketAddr,
    /// The address of the operators' port.
    pub ops: SocketAddr,
    /// The bearer token of the admin routes.
    pub admin_token: Option<Secret>,
    /// The database.
    pub database: Database,
    /// The locks.
    pub locks: LockSettings,
    /// The cache.
    pub cache: CacheSettings,
    /// How long one Redis command may take.
    pub redis_timeout: Duration,
    /// How long a whole request may take.
    pub request_timeout: Duration,
    /// The connections of a port.
    pub connections: Connections,
    /// From SIGTERM to the end of the listener.
    pub shutdown_delay: Duration,
    /// From SIGTERM to the end.
    pub shutdown_grace: Duration,
    /// How long answers are kept for repeated requests.
    pub idempotency_ttl: Duration,
    /// How log lines look.
    pub log_format: LogFormat,
    /// What is logged.
    pub log_filter: EnvFilter,
}

/// What clients may take of a port.
#[derive(Clone, Copy, Debug)]
pub struct Connections {
    /// How many are open at once.
    pub max: usize,
    /// How long the head of a request may take, and the pause between two requests.
    pub header_timeout: Duration,
}

/// How the database is used.
#[derive(Clone)]
pub struct Database {
    /// Where it is and how to log in.
    pub options: PgConnectOptions,
    /// How many connections are open at most.
    pub max_connections: u32,
    /// How long to wait for one.
    pub acquire_timeout: Duration,
}

/// Without the options, which show their password.
impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database")
            .field("max_connections", &self.max_connections)
            .field("acquire_timeout", &self.acquire_timeout)
            .finish_non_exhaustive()
    }
}

/// How locks are taken.
#[derive(Clone, Debug)]
pub struct LockSettings {
    /// Where their Redis is.
    pub redis: Secret,
    /// How long a request waits.
    pub wait: Duration,
    /// The lease.
    pub lease: Duration,
    /// How many may wait for one.
    pub max_waiters: u32,
}

/// How stock is cached.
#[derive(Clone, Debug)]
pub struct CacheSettings {
    /// Where its Redis is.
    pub redis: Secret,
    /// Whether that is another server than the locks', which may evict.
    pub may_evict: bool,
    /// How long a value lives.
    pub ttl: RangeInclusive<Duration>,
    /// How long an absence lives.
    pub null_ttl: Duration,
    /// How many rows are loaded before the instance is ready.
    pub warm_keys: u32,
    /// How long that may take.
    pub warm_limit: Duration,
    /// How many loads run at once.
    pub max_loads: usize,
    /// How long a load may take, the wait for its connection included.
    pub load_timeout: Duration,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One object per line.
    Json,
}

impl Config {
    /// Reads and checks the arguments.
    ///
    /// # Errors
    ///
    /// [`ConfigError`], the first one found.
    pub fn new(args: &Args) -> Result<Self, ConfigError> {
        let statement_timeout =
            duration("STATEMENT_TIMEOUT", &args.statement_timeout, Duration::from_millis(10)..=5 * MINUTE)?;
        let budget = Budget {
            lock_wait: duration("LOCK_WAIT", &args.lock_wait, MILLISECOND..=5 * MINUTE)?,
            acquire: duration("DATABASE_ACQUIRE_TIMEOUT", &args.database_acquire_timeout, MILLISECOND..=5 * MINUTE)?,
            statement: statement_timeout,
            request: duration("REQUEST_TIMEOUT", &args.request_timeout, MILLISECOND..=5 * MINUTE)?,
            lease: duration("LOCK_LEASE", &args.lock_lease, LEASE)?,
            delay: duration("SHUTDOWN_DELAY", &args.shutdown_delay, Duration::ZERO..=30 * MINUTE)?,
            grace: duration("SHUTDOWN_GRACE", &args.shutdown_grace, MILLISECOND..=60 * MINUTE)?,
        };
        budget.check()?;
        let timeouts = Timeouts {
            statement: statement_timeout,
            lock: budget.lock_wait.min(statement_timeout),
            idle_in_transaction: IDLE_IN_TRANSACTION,
        };
        let (lock_redis, cache_redis) = redis(args)?;
        let (listen, ops) = addresses(args)?;
        Ok(Self {
            listen,
            ops,
            admin_token: admin_token(args)?,
            database: Database {
                options: stockade::postgres::options(args.database.options()?, &timeouts),
                max_connections: number("DATABASE_MAX_CONNECTIONS", &args.database_max_connections, 1..=10_000)?,
                acquire_timeout: budget.acquire,
            },
            cache: CacheSettings {
                may_evict: cache_redis != lock_redis,
                redis: cache_redis,
                ttl: durations("CACHE_TTL", &args.cache_ttl, SECOND..=7 * DAY)?,
                null_ttl: duration("NULL_TTL", &args.null_ttl, SECOND..=7 * DAY)?,
                warm_keys: number("CACHE_WARM_KEYS", &args.cache_warm_keys, 0..=1_000_000)?,
                warm_limit: duration("CACHE_WARM_LIMIT", &args.cache_warm_limit, MILLISECOND..=60 * MINUTE)?,
                max_loads: number("DB_MAX_LOADS", &args.db_max_loads, 1..=10_000)?.try_into().unwrap_or(usize::MAX),
                load_timeout: budget.acquire + budget.statement,
            },
            locks: LockSettings {
                redis: lock_redis,
                wait: budget.lock_wait,
                lease: budget.lease,
                max_waiters: number("LOCK_MAX_WAITERS", &args.lock_max_waiters, 1..=1_000_000)?,
            },
            redis_timeout: duration("REDIS_TIMEOUT", &args.redis_timeout, Duration::from_millis(5)..=30 * SECOND)?,
            request_timeout: budget.request,
            connections: Connections {
                max: number("MAX_CONNECTIONS", &args.max_connections, 1..=1_000_000)?.try_into().unwrap_or(usize::MAX),
                header_timeout: duration("HEADER_TIMEOUT", &args.header_timeout, HEADER_TIMEOUT)?,
            },
            shutdown_delay: budget.delay,
            shutdown_grace: budget.grace,
            idempotency_ttl: duration("IDEMPOTENCY_TTL", &args.idempotency_ttl, SECOND..=366 * DAY)?,
            log_format: log_format(&args.log_format)?,
            log_filter: log_filter(&args.rust_log)?,
        })
    }
}

impl DatabaseArgs {
    /// Where the database is.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] when it is not said, or not as a URL.
    pub fn options(&self) -> Result<PgConnectOptions, ConfigError> {
        const FORM: &str = "use postgres://USER:PASSWORD@HOST:PORT/DATABASE";
        let url = secret("DATABASE_URL", self.database_url.as_ref(), self.database_url_file.as_deref())?
            .ok_or_else(|| ConfigError::new("DATABASE_URL", "not set", FORM))?;
        let scheme = ["postgres://", "postgresql://"].iter().any(|scheme| url.expose().starts_with(scheme));
        // The parser's own error is left out: it may quote the URL with its password.
        match url.expose().parse() {
            Ok(options) if scheme => Ok(options),
            _ => Err(ConfigError::new("DATABASE_URL", "not the URL of a Postgres database", FORM)),
        }
    }
}

fn redis(args: &Args) -> Result<(Secret, Secret), ConfigError> {
    let common = secret("REDIS_URL", args.redis_url.as_ref(), args.redis_url_file.as_deref())?;
    let one = |variable: &str, given: Option<&Secret>, file: Option<&str>| {
        let (named, url) = match (secret(variable, given, file)?, &common) {
            (Some(url), _) => (variable, url),
            (None, Some(url)) => ("REDIS_URL", url.clone()),
            (None, None) => {
                let remedy = format!("set it to redis://HOST:PORT, or set {variable}");
                return Err(ConfigError::new("REDIS_URL", "not set", remedy));
            }
        };
        redis_url(named, &url)?;
        Ok(url)
    };
    Ok((
        one("LOCK_REDIS_URL", args.lock_redis_url.as_ref(), args.lock_redis_url_file.as_deref())?,
        one("CACHE_REDIS_URL", args.cache_redis_url.as_ref(), args.cache_redis_url_file.as_deref())?,
    ))
}

fn redis_url(variable: &str, url: &Secret) -> Result<(), ConfigError> {
    const SCHEMES: [&str; 10] = [
        "redis",
        "rediss",
        "redis-sentinel",
        "rediss-sentinel",
        "redis-cluster",
        "rediss-cluster",
        "redis+unix",
        "unix",
        "valkey",
        "valkeys",
    ];
    const FORMS: &str = "use redis://[USER:PASSWORD@]HOST:PORT, redis-sentinel://HOST,HOST/NAME or \
                         redis-cluster://HOST,HOST, with rediss for TLS";
    match url.expose().split_once("://") {
        Some((scheme, _)) if SCHEMES.contains(&scheme) => Ok(()),
        _ => Err(ConfigError::new(variable, "not the URL of a Redis server", FORMS).with_value(&shown_url(url))),
    }
}

fn addresses(args: &Args) -> Result<(SocketAddr, SocketAddr), ConfigError> {
    let listen = address("LISTEN_ADDR", &args.listen_addr)?;
    let ops = address("OPS_ADDR", &args.ops_addr)?;
    if listen == ops && ops.port() != 0 {
        let problem = "the same as LISTEN_ADDR";
        return Err(ConfigError::new("OPS_ADDR", problem, "give the two different ports").with_value(&args.ops_addr));
    }
    Ok((listen, ops))
}

fn admin_token(args: &Args) -> Result<Option<Secret>, ConfigError> {
    let token = secret("ADMIN_TOKEN", args.admin_token.as_ref(), args.admin_token_file.as_deref())?;
    if token.as_ref().is_some_and(|token| !token.expose().bytes().all(|b| b.is_ascii_graphic())) {
        let remedy = "use visible ASCII characters only, such as the output of `openssl rand -hex 32`";
        return Err(ConfigError::new("ADMIN_TOKEN", "it can't be sent in a header", remedy));
    }
    Ok(token)
}

fn log_format(text: &str) -> Result<LogFormat, ConfigError> {
    match text.trim() {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err(ConfigError::new("LOG_FORMAT", "unknown", "use `text` or `json`").with_value(text)),
    }
}

fn log_filter(text: &str) -> Result<EnvFilter, ConfigError> {
    let remedy = "use directives such as `info` or `warn,inventory=debug`";
    EnvFilter::try_new(text).map_err(|_| ConfigError::new("RUST_LOG", "not a filter", remedy).with_value(text))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn no_secret_is_shown_by_debug() {
        let command = Command::parse_from([
            "serve",
            "--database-url=postgres://stock:hunter2@127.0.0.1/stock",
            "--redis-url=redis://stock:hunter2@127.0.0.1",
            "--admin-token=hunter2",
        ]);
        let config = Config::new(&command.args).unwrap();
        let shown = format!("{:?} {config:?}", command.args);
        assert!(!shown.contains("hunter2"), "{shown}");
        assert!(shown.contains("max_connections"), "{shown}");
    }
}
