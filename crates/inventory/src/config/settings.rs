use std::{net::SocketAddr, ops::RangeInclusive, time::Duration};

use tracing::Level;
use tracing_subscriber::filter::Targets;

use super::{
    Args, CacheSettings, ConfigError, ConfigErrors, Database, Secret,
    budget::Budget,
    error::Findings,
    parse::{address, duration, either, number, on_or_off, secret},
    redis::redis,
};
use crate::{app::LoggedAnswers, flash::FlashSettings, fleet::authority};

const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The leases that the locks accept.
const LEASE: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(5 * 60);

/// From shorter than any client takes to send a head, to longer than any useful pause of an idle connection.
const HEADER_TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(10 * 60);

/// The checked settings of `inventory serve`.
#[derive(Debug)]
pub struct Config {
    /// The address of the public port.
    pub listen: SocketAddr,
    /// The address of the operators' port.
    pub ops: SocketAddr,
    /// The address at which other instances reach the operators' port, if it differs.
    pub advertise: Option<String>,
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
    /// The time from SIGTERM until the listener ends.
    pub shutdown_delay: Duration,
    /// The time from SIGTERM until the process ends.
    pub shutdown_grace: Duration,
    /// How long answers are kept for repeated requests.
    pub idempotency_ttl: Duration,
    /// How flash sales are run.
    pub flash: FlashSettings,
    /// Whether the schemes of the lab are served.
    pub lab: bool,
    /// How log lines look.
    pub log_format: LogFormat,
    /// Which answers are logged.
    pub logged_answers: LoggedAnswers,
    /// Which log lines are written.
    pub log_filter: Targets,
}

/// The limits for the connections of a port.
#[derive(Clone, Copy, Debug)]
pub struct Connections {
    /// How many are open at once.
    pub max: usize,
    /// How long the head of a request may take, and the pause between two requests.
    pub header_timeout: Duration,
}

/// How locks are taken.
#[derive(Clone, Debug)]
pub struct LockSettings {
    /// The URL of their Redis.
    pub redis: Secret,
    /// How long a request waits.
    pub wait: Duration,
    /// How long a read waits before it goes on without its lock.
    pub read_wait: Duration,
    /// The lease.
    pub lease: Duration,
    /// How many may wait for one lock.
    pub max_waiters: u32,
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
    /// [`ConfigErrors`]: all that were found.
    pub fn new(args: &Args) -> Result<Self, ConfigErrors> {
        let mut found = Findings::default();
        let config = Self::read(args, &mut found);
        found.or(config)
    }

    /// Reads every setting before a missing one ends the function.
    fn read(args: &Args, found: &mut Findings) -> Option<Self> {
        let budget = budget(args, found);
        let database = Database::read(args, budget, found);
        let (lock_redis, cache_redis) = redis(args, found);
        let cache = CacheSettings::read(args, cache_redis, lock_redis.as_ref(), budget, found);
        let locks = locks(args, lock_redis, budget, found);
        let (listen, ops) = addresses(args, found);
        let advertise = found.note(advertise(args));
        let admin_token = found.note(admin_token(args));
        let connections = connections(args, found);
        let idempotency_ttl = found.note(duration("IDEMPOTENCY_TTL", &args.idempotency_ttl, SECOND..=366 * DAY));
        let flash = flash(args, budget, found);
        let lab = found.note(on_or_off("LAB", &args.lab));
        let formats = [("text", LogFormat::Text), ("json", LogFormat::Json)];
        let log_format = found.note(either("LOG_FORMAT", &args.log_format, formats));
        let answers = [("refusals", LoggedAnswers::Refusals), ("all", LoggedAnswers::All)];
        let logged_answers = found.note(either("LOG_REQUESTS", &args.log_requests, answers));
        let log_filter = found.note(log_filter(&args.rust_log));
        let Budget { redis, request, delay, grace, .. } = budget?;
        Some(Self {
            listen: listen?,
            ops: ops?,
            advertise: advertise?,
            admin_token: admin_token?,
            database: database?,
            locks: locks?,
            cache: cache?,
            redis_timeout: redis,
            request_timeout: request,
            connections: connections?,
            shutdown_delay: delay,
            shutdown_grace: grace,
            idempotency_ttl: idempotency_ttl?,
            flash: flash?,
            lab: lab?,
            log_format: log_format?,
            logged_answers: logged_answers?,
            log_filter: log_filter?,
        })
    }
}

fn budget(args: &Args, found: &mut Findings) -> Option<Budget> {
    let mut read = |variable, text: &str, limits| found.note(duration(variable, text, limits));
    let lock_wait = read("LOCK_WAIT", &args.lock_wait, MILLISECOND..=5 * MINUTE);
    let redis = read("REDIS_TIMEOUT", &args.redis_timeout, Duration::from_millis(5)..=30 * SECOND);
    let acquire = read("DATABASE_ACQUIRE_TIMEOUT", &args.database_acquire_timeout, MILLISECOND..=5 * MINUTE);
    let statement = read("STATEMENT_TIMEOUT", &args.statement_timeout, Duration::from_millis(10)..=5 * MINUTE);
    let request = read("REQUEST_TIMEOUT", &args.request_timeout, MILLISECOND..=5 * MINUTE);
    let lease = read("LOCK_LEASE", &args.lock_lease, LEASE);
    let delay = read("SHUTDOWN_DELAY", &args.shutdown_delay, Duration::ZERO..=30 * MINUTE);
    let grace = read("SHUTDOWN_GRACE", &args.shutdown_grace, MILLISECOND..=60 * MINUTE);
    let budget = Budget {
        lock_wait: lock_wait?,
        redis: redis?,
        acquire: acquire?,
        statement: statement?,
        request: request?,
        lease: lease?,
        delay: delay?,
        grace: grace?,
    };
    found.note(budget.check())?;
    Some(budget)
}

fn locks(args: &Args, redis: Option<Secret>, budget: Option<Budget>, found: &mut Findings) -> Option<LockSettings> {
    let max_waiters = found.note(number("LOCK_MAX_WAITERS", &args.lock_max_waiters, 1..=1_000_000));
    let read_wait = found.note(duration("LOCK_READ_WAIT", &args.lock_read_wait, Duration::ZERO..=5 * MINUTE));
    let Budget { lock_wait: wait, lease, .. } = budget?;
    Some(LockSettings { redis: redis?, wait, read_wait: read_wait?, lease, max_waiters: max_waiters? })
}

fn connections(args: &Args, found: &mut Findings) -> Option<Connections> {
    let max = found.note(number("MAX_CONNECTIONS", &args.max_connections, 1..=1_000_000));
    let header_timeout = found.note(duration("HEADER_TIMEOUT", &args.header_timeout, HEADER_TIMEOUT));
    Some(Connections { max: max?.try_into().unwrap_or(usize::MAX), header_timeout: header_timeout? })
}

fn addresses(args: &Args, found: &mut Findings) -> (Option<SocketAddr>, Option<SocketAddr>) {
    let listen = found.note(address("LISTEN_ADDR", &args.listen_addr));
    let ops = found.note(address("OPS_ADDR", &args.ops_addr));
    if listen.is_some() && listen == ops && ops.is_some_and(|ops| ops.port() != 0) {
        let error = ConfigError::new("OPS_ADDR", "the same as LISTEN_ADDR", "give the two different ports");
        found.note::<()>(Err(error.with_value(&args.ops_addr)));
    }
    (listen, ops)
}

fn advertise(args: &Args) -> Result<Option<String>, ConfigError> {
    let Some(text) = args.ops_advertise.as_deref().map(str::trim).filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    authority(text).map(Some).ok_or_else(|| {
        let remedy = "use HOST:PORT, such as 10.0.0.7:9464 or inventory-1:9464";
        ConfigError::new("OPS_ADVERTISE", "not a host with its port", remedy).with_value(text)
    })
}

fn admin_token(args: &Args) -> Result<Option<Secret>, ConfigError> {
    let token = secret("ADMIN_TOKEN", args.admin_token.as_ref(), args.admin_token_file.as_deref())?;
    if token.as_ref().is_some_and(|token| !token.expose().bytes().all(|b| b.is_ascii_graphic())) {
        let remedy = "use visible ASCII characters only, such as the output of `openssl rand -hex 32`";
        return Err(ConfigError::new("ADMIN_TOKEN", "it can't be sent in a header", remedy));
    }
    Ok(token)
}

fn flash(args: &Args, budget: Option<Budget>, found: &mut Findings) -> Option<FlashSettings> {
    let durable = found.note(on_or_off("FLASH_DURABLE", &args.flash_durable));
    let backlog = found.note(number("FLASH_BACKLOG", &args.flash_backlog, 1..=1_000_000));
    Some(FlashSettings { durable: durable?, backlog: backlog?, database_timeout: budget?.request })
}

fn log_filter(text: &str) -> Result<Targets, ConfigError> {
    let remedy = "use directives such as `info` or `warn,inventory=debug`, and `off` for no log";
    let refused = |why| ConfigError::new("RUST_LOG", why, remedy).with_value(text);
    let filter: Targets = text.parse().map_err(|_| refused("not a filter"))?;
    // A level with a typo is the name of a target.
    if filter.would_enable("inventory", &Level::ERROR) || text.trim().eq_ignore_ascii_case("off") {
        Ok(filter)
    } else {
        Err(refused("a filter under which the service logs not even an error"))
    }
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
    fn all_errors_are_named_at_once_and_each_once() {
        let command = Command::parse_from([
            "serve",
            "--redis-url=http://:hunter2@h",
            "--lock-wait=2x",
            "--listen-addr=here",
            "--log-requests=some",
            "--null-ttl=0s",
        ]);
        let shown = Config::new(&command.args).unwrap_err().to_string();
        let lines: Vec<_> = shown.lines().collect();
        assert_eq!(lines[0], "6 settings can't be used:", "{shown}");
        for variable in ["LOCK_WAIT", "DATABASE_URL", "REDIS_URL", "NULL_TTL", "LISTEN_ADDR", "LOG_REQUESTS"] {
            let named = lines.iter().filter(|line| line.starts_with(&format!("  {variable}"))).count();
            assert_eq!(named, 1, "{variable}: {shown}");
        }
        assert!(!shown.contains("hunter2"), "{shown}");
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
