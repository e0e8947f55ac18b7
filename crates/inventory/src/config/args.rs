use clap::{Args as _, Command, FromArgMatches};

use super::Secret;

/// The address of the database. Every flag has an environment variable of the same name.
#[derive(Clone, Debug, clap::Args)]
pub struct DatabaseArgs {
    /// Postgres, as postgres://USER:PASSWORD@HOST:PORT/DATABASE. Required.
    #[arg(long, env = "DATABASE_URL", value_name = "URL", hide_env_values = true)]
    pub database_url: Option<Secret>,

    /// A file that holds DATABASE_URL.
    #[arg(long, env = "DATABASE_URL_FILE", value_name = "FILE")]
    pub database_url_file: Option<String>,

    /// The password, as it is: nothing in it is escaped. Default: the one in DATABASE_URL.
    #[arg(long, env = "DATABASE_PASSWORD", value_name = "PASSWORD", hide_env_values = true)]
    pub database_password: Option<Secret>,

    /// A file that holds DATABASE_PASSWORD.
    #[arg(long, env = "DATABASE_PASSWORD_FILE", value_name = "FILE")]
    pub database_password_file: Option<String>,
}

/// Arguments of `inventory serve`. Every flag has an environment variable of the same name. Durations are written with
/// a unit: `250ms`, `2s`, `5min`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub(super) database: DatabaseArgs,

    /// Redis for locks and cache, unless they have their own. Required unless both have.
    #[arg(long, env = "REDIS_URL", value_name = "URL", hide_env_values = true)]
    pub(super) redis_url: Option<Secret>,

    /// A file that holds REDIS_URL.
    #[arg(long, env = "REDIS_URL_FILE", value_name = "FILE")]
    pub(super) redis_url_file: Option<String>,

    /// Redis for the locks. It must not evict. Default: REDIS_URL.
    #[arg(long, env = "LOCK_REDIS_URL", value_name = "URL", hide_env_values = true)]
    pub(super) lock_redis_url: Option<Secret>,

    /// A file that holds LOCK_REDIS_URL.
    #[arg(long, env = "LOCK_REDIS_URL_FILE", value_name = "FILE")]
    pub(super) lock_redis_url_file: Option<String>,

    /// Redis for the cache. It may evict keys if it is not the locks' server. Default: REDIS_URL.
    #[arg(long, env = "CACHE_REDIS_URL", value_name = "URL", hide_env_values = true)]
    pub(super) cache_redis_url: Option<Secret>,

    /// A file that holds CACHE_REDIS_URL.
    #[arg(long, env = "CACHE_REDIS_URL_FILE", value_name = "FILE")]
    pub(super) cache_redis_url_file: Option<String>,

    /// The address of the public port. Port 0 takes a free one, which is printed.
    #[arg(long, env = "LISTEN_ADDR", value_name = "ADDR", default_value = "127.0.0.1:8080")]
    pub(super) listen_addr: String,

    /// The address of the operators' port: metrics, health, admin routes.
    #[arg(long, env = "OPS_ADDR", value_name = "ADDR", default_value = "127.0.0.1:9464")]
    pub(super) ops_addr: String,

    /// HOST:PORT at which other instances reach the operators' port, so that one console shows all instances. Default:
    /// the address that the port listens on.
    #[arg(long, env = "OPS_ADVERTISE", value_name = "HOST:PORT")]
    pub(super) ops_advertise: Option<String>,

    /// The bearer token of the admin routes. Without a token there are none.
    #[arg(long, env = "ADMIN_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    pub(super) admin_token: Option<Secret>,

    /// A file that holds ADMIN_TOKEN.
    #[arg(long, env = "ADMIN_TOKEN_FILE", value_name = "FILE")]
    pub(super) admin_token_file: Option<String>,

    /// How long a request waits for its lock, and a statement for a row that another transaction has.
    #[arg(long, env = "LOCK_WAIT", value_name = "DURATION", default_value = "2s")]
    pub(super) lock_wait: String,

    /// How long a read waits for its lock, at most LOCK_WAIT. Then it goes on without the lock, and says so.
    #[arg(long, env = "LOCK_READ_WAIT", value_name = "DURATION", default_value = "100ms")]
    pub(super) lock_read_wait: String,

    /// How long a lock outlives its holder. A held lock is renewed after a third of this.
    #[arg(long, env = "LOCK_LEASE", value_name = "DURATION", default_value = "10s")]
    pub(super) lock_lease: String,

    /// How many may wait for one lock.
    #[arg(long, env = "LOCK_MAX_WAITERS", value_name = "N", default_value = "1000")]
    pub(super) lock_max_waiters: String,

    /// How long one Redis command may take, at most a third of LOCK_LEASE.
    #[arg(long, env = "REDIS_TIMEOUT", value_name = "DURATION", default_value = "250ms")]
    pub(super) redis_timeout: String,

    /// Which writes a read may miss: `eventual` is cheapest, `strict` never misses an acknowledged write.
    #[arg(long, env = "CACHE_MODE", value_name = "MODE", default_value = "eventual")]
    pub(super) cache_mode: String,

    /// How long a value is cached: drawn from this range for each, so that not all expire at once.
    #[arg(long, env = "CACHE_TTL", value_name = "FROM..TO", default_value = "300s..600s")]
    pub(super) cache_ttl: String,

    /// How long the cache remembers that a SKU does not exist.
    #[arg(long, env = "NULL_TTL", value_name = "DURATION", default_value = "60s")]
    pub(super) null_ttl: String,

    /// How many of the SKUs that changed last are loaded into the cache before the instance is ready. 0: none.
    #[arg(long, env = "CACHE_WARM_KEYS", value_name = "N", default_value = "1000")]
    pub(super) cache_warm_keys: String,

    /// How long the warm-up of the cache may take. Then the instance is ready in any case.
    #[arg(long, env = "CACHE_WARM_LIMIT", value_name = "DURATION", default_value = "10s")]
    pub(super) cache_warm_limit: String,

    /// Whether reads ask a filter of the SKUs that exist before they ask the database: `on` or `off`. The filter gets
    /// new SKUs in any case.
    #[arg(long, env = "SKU_FILTER", value_name = "WHETHER", default_value = "on")]
    pub(super) sku_filter: String,

    /// How many loads from the database run at once. Keep it below DATABASE_MAX_CONNECTIONS.
    #[arg(long, env = "DB_MAX_LOADS", value_name = "N", default_value = "8")]
    pub(super) db_max_loads: String,

    /// How many connections to the database are open at most.
    #[arg(long, env = "DATABASE_MAX_CONNECTIONS", value_name = "N", default_value = "16")]
    pub(super) database_max_connections: String,

    /// How long a request waits for a connection to the database.
    #[arg(long, env = "DATABASE_ACQUIRE_TIMEOUT", value_name = "DURATION", default_value = "1s")]
    pub(super) database_acquire_timeout: String,

    /// How long one statement may run.
    #[arg(long, env = "STATEMENT_TIMEOUT", value_name = "DURATION", default_value = "2s")]
    pub(super) statement_timeout: String,

    /// How long a whole request may take.
    #[arg(long, env = "REQUEST_TIMEOUT", value_name = "DURATION", default_value = "10s")]
    pub(super) request_timeout: String,

    /// How many connections the public port has open at once; others wait until one ends.
    #[arg(long, env = "MAX_CONNECTIONS", value_name = "N", default_value = "4096")]
    pub(super) max_connections: String,

    /// How long the head of a request may take to arrive, and how long a connection may stay idle between two requests.
    #[arg(long, env = "HEADER_TIMEOUT", value_name = "DURATION", default_value = "30s")]
    pub(super) header_timeout: String,

    /// How long the instance still takes requests after SIGTERM, while /readyz says that it is going away.
    #[arg(long, env = "SHUTDOWN_DELAY", value_name = "DURATION", default_value = "0s")]
    pub(super) shutdown_delay: String,

    /// How long requests may go on after SIGTERM, SHUTDOWN_DELAY included. If servers do not answer, the end takes up
    /// to 10 s more.
    #[arg(long, env = "SHUTDOWN_GRACE", value_name = "DURATION", default_value = "25s")]
    pub(super) shutdown_grace: String,

    /// How long an answer is kept for a request that comes again with the same Idempotency-Key.
    #[arg(long, env = "IDEMPOTENCY_TTL", value_name = "DURATION", default_value = "24h")]
    pub(super) idempotency_ttl: String,

    /// When a flash reservation is answered: `off`: once Redis has it; `on` (or 1): once Postgres has it.
    #[arg(long, env = "FLASH_DURABLE", value_name = "WHEN", default_value = "off")]
    pub(super) flash_durable: String,

    /// How many reservations of a flash sale may wait for Postgres.
    #[arg(long, env = "FLASH_BACKLOG", value_name = "N", default_value = "10000")]
    pub(super) flash_backlog: String,

    /// Whether the instance serves the routes under /lab and the attacks of the console: `on` or `off`. They sell by
    /// every usual scheme, right or wrong, and attack a cache, on tables and keys of their own.
    #[arg(long, env = "LAB", value_name = "WHETHER", default_value = "off")]
    pub(super) lab: String,

    /// How log lines look: `text` or `json`. They go to standard error.
    #[arg(long, env = "LOG_FORMAT", value_name = "FORMAT", default_value = "text")]
    pub(super) log_format: String,

    /// Which answers are logged at level info or above: `refusals` (all but 2xx and 304), or `all`.
    #[arg(long, env = "LOG_REQUESTS", value_name = "WHICH", default_value = "refusals")]
    pub(super) log_requests: String,

    /// Which log lines are written, as tracing filter directives.
    #[arg(long, env = "RUST_LOG", value_name = "FILTER", default_value = "info")]
    pub(super) rust_log: String,
}

impl Args {
    /// The arguments that the environment gives, without a command line.
    ///
    /// # Errors
    ///
    /// [`clap::Error`], which names the variable.
    pub fn from_env() -> Result<Self, clap::Error> {
        Self::from_arg_matches(&Self::augment_args(Command::new("serve")).try_get_matches_from(["serve"])?)
    }
}
