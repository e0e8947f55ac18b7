//! The servers of a run, and the connections of a process to them.

use std::time::Duration;

use sqlx::{PgPool, postgres::PgPoolOptions};
use stockade::{
    Redis,
    postgres::{self, Timeouts},
};
use stockade_testbed::{PostgresServer, RedisServer};
use tokio::time::timeout;

use crate::{
    child::Child,
    support::{LIMIT, until},
};

/// The role of a child of these tests. Unset in an ordinary run.
pub(super) const ROLE: &str = "STOCKADE_TEST_CACHE_ROLE";
/// How long commands of Redis may take by default.
pub(super) const SHORT: Duration = Duration::from_millis(250);
/// A time-out for tests in which a stall of the machine must not count.
pub(super) const LONG: Duration = Duration::from_secs(20);
/// How long statements may take by default.
pub(super) const STATEMENT: Duration = Duration::from_secs(2);
const REDIS: &str = "STOCKADE_TEST_CACHE_REDIS";
const LOCKS: &str = "STOCKADE_TEST_CACHE_LOCKS";
const POSTGRES: &str = "STOCKADE_TEST_CACHE_POSTGRES";

/// The servers of a test.
pub(super) struct Site {
    pub(super) redis: RedisServer,
    /// The Redis of the locks, which has none of the faults of the cache's Redis.
    pub(super) locks: RedisServer,
    pub(super) postgres: PostgresServer,
    pub(super) pool: PgPool,
}

impl Site {
    /// Starts servers with Stockade's schema, a watch over its fences, and the tables of `sql`.
    pub(super) async fn start(sql: &'static str) -> Self {
        let (redis, locks) = (RedisServer::start().await.unwrap(), RedisServer::start().await.unwrap());
        let postgres = PostgresServer::start().await.unwrap();
        let pool = pool(&postgres.url(), STATEMENT).await;
        postgres::install(&pool).await.unwrap();
        for sql in [include_str!("../../sql/fence_watch.sql"), sql] {
            sqlx::raw_sql(sql).execute(&pool).await.unwrap();
        }
        Self { redis, locks, postgres, pool }
    }

    /// Starts a process, and waits until it is ready.
    pub(super) async fn process(&self, role: &str) -> Child {
        self.process_at(role, self.redis.url(), self.locks.url()).await
    }

    /// Starts a process that reaches the cache's Redis and the locks at these addresses.
    pub(super) async fn process_at(&self, role: &str, redis: String, locks: String) -> Child {
        let environment = [(ROLE, role.to_owned()), (REDIS, redis), (LOCKS, locks), (POSTGRES, self.postgres.url())];
        let mut child = Child::start("cache::a_process", &environment);
        child.says("ready").await;
        child
    }

    /// The test's own connections to the servers.
    pub(super) async fn seat(&self) -> Seat {
        Seat::at(&self.redis.url(), &self.locks.url(), &self.postgres.url(), LONG, STATEMENT).await
    }

    /// Waits until the processes have left nothing on the servers but values that expire.
    pub(super) async fn until_nothing_is_left(&self) {
        let stays = |name: &str| ["}e:", "}s:", "}j:", "}t:", "}c:"].iter().any(|part| name.contains(part));
        self.redis.until_nothing_is_left_but(stays).await.unwrap();
        self.locks.until_nothing_is_left().await.unwrap();
        until("no session of a process is left", async || self.sessions("").await == 0).await;
        let looked = crate::looks::look(&self.redis).await;
        assert_eq!(looked.transactions, Vec::<String>::new());
    }

    /// How many sessions of the processes run a statement that contains `part`. If `part` is empty, all sessions count.
    pub(super) async fn sessions(&self, part: &str) -> i64 {
        const SQL: &str = "select count(*) from pg_stat_activity where application_name = 'process'
            and ($1 = '' or (state = 'active' and position($1 in query) > 0))";
        sqlx::query_scalar(SQL).bind(part).fetch_one(&self.pool).await.unwrap()
    }
}

/// A process's connections to the servers.
pub(super) struct Seat {
    pub(super) redis: Redis,
    pub(super) locks: Redis,
    pub(super) pool: PgPool,
}

impl Seat {
    /// In a child of a test: connections to the servers that its parent has named.
    pub(super) async fn taken(command: Duration, statement: Duration) -> Self {
        let [redis, locks, postgres] = [REDIS, LOCKS, POSTGRES].map(|name| std::env::var(name).unwrap());
        Self::at(&redis, &locks, &postgres, command, statement).await
    }

    async fn at(redis: &str, locks: &str, postgres: &str, command: Duration, statement: Duration) -> Self {
        let link = async |url: &str| Redis::builder(url).command_timeout(command).connect().await.unwrap();
        Self { redis: link(redis).await, locks: link(locks).await, pool: pool(postgres, statement).await }
    }
}

/// A pool that is large enough for every process.
async fn pool(url: &str, statement: Duration) -> PgPool {
    let name = if std::env::var(ROLE).is_ok() { "process" } else { "test" };
    let timeouts = Timeouts::default().statement(statement);
    let options = postgres::options(url.parse().unwrap(), &timeouts).application_name(name);
    PgPoolOptions::new().max_connections(20).acquire_timeout(LIMIT).connect_with(options).await.unwrap()
}

/// Lets all these processes go on, and waits until each has said `done`.
pub(super) async fn all_go_on(mut processes: Vec<&mut Child>, done: &str) {
    for process in &mut processes {
        process.go_on().await;
    }
    for process in processes {
        let said = timeout(LIMIT, process.next()).await.expect("a process hangs");
        assert_eq!(said, done);
    }
}
