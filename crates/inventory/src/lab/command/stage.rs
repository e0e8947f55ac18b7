use std::time::Duration;

use futures_util::future::try_join_all;
use sqlx::{AssertSqlSafe, PgPool, postgres::PgPoolOptions};
use stockade_testbed::{PostgresServer, RedisServer};
use tokio::try_join;

use super::{
    Args, Failure,
    carrier::Carrier,
    counts::Counts,
    part::Part,
    scheme::Scheme,
    setting::Setting,
    shelf,
    tally::Row,
    worker::{Report, Settings},
    world::counter_key,
};

/// Buyers are spread over so many processes, as over the instances of a service.
const PROCESSES: u32 = 4;
const LEASE: Duration = Duration::from_millis(500);
const QUORUM: usize = 5;

/// The private servers that the schemes run on, one scheme after the other.
pub(super) struct Stage {
    args: Args,
    database_url: String,
    pool: PgPool,
    _postgres: PostgresServer,
    redis: RedisServer,
    quorum: Vec<RedisServer>,
}

impl Stage {
    pub(super) async fn start(args: Args, schemes: &[Scheme]) -> Result<Self, Failure> {
        let independent = if schemes.contains(&Scheme::Redlock) { QUORUM } else { 0 };
        let (postgres, redis, quorum) =
            try_join!(PostgresServer::start(), RedisServer::start(), RedisServer::start_many(independent))?;
        let database_url = postgres.url();
        let pool = PgPoolOptions::new().max_connections(2).connect(&database_url).await?;
        sqlx::raw_sql("create extension pg_stat_statements").execute(&pool).await?;
        stockade::postgres::install(&pool).await?;
        Ok(Self { args, database_url, pool, _postgres: postgres, redis, quorum })
    }

    /// Opens a scheme, lets everybody buy, and looks at the units left.
    pub(super) async fn play(&self, scheme: Scheme) -> Result<Row, Failure> {
        self.open(scheme).await?;
        let settings = self.settings(scheme);
        let mut carrier = match (scheme, settings.first()) {
            (Scheme::Flash, Some(first)) => Some(Carrier::open(first.world.connect().await?, self.args.units).await?),
            _ => None,
        };
        let parts = try_join_all(settings.iter().map(Part::start)).await?;
        let before = self.counts(scheme).await?;
        let selling = try_join_all(parts.into_iter().map(Part::sell));
        let seen = match &mut carrier {
            Some(carrier) => carrier.carry_while(selling).await??,
            None => selling.await?,
        };
        let mut report = Report::default();
        seen.into_iter().for_each(|seen| report.add(seen));
        let after = self.counts(scheme).await?;
        let asked = [after.commands - before.commands, after.statements - before.statements];
        let left = match &carrier {
            Some(carrier) => carrier.left().await?,
            None => self.left(scheme).await?,
        };
        Ok(Row::new(scheme, u64::from(self.args.units), left, report, asked))
    }

    fn settings(&self, scheme: Scheme) -> Vec<Settings> {
        let workers = self.args.workers.get();
        let processes = workers.min(PROCESSES);
        let world = |process| Setting {
            name: scheme.name(),
            database_url: self.database_url.clone(),
            redis_url: self.redis.url(),
            quorum: if scheme == Scheme::Redlock { self.quorum.iter().map(RedisServer::url).collect() } else { vec![] },
            workers: workers / processes + u32::from(process < workers % processes),
            think: self.args.think,
            lease: LEASE,
            // A process alone has no successor that sells while it is stopped.
            stops: scheme.is_stopped() && process == 0 && processes > 1,
        };
        let limit = Duration::from_secs(self.args.seconds.into());
        (0..processes).map(|process| Settings { scheme, limit, world: world(process) }).collect()
    }

    async fn open(&self, scheme: Scheme) -> Result<(), Failure> {
        let (name, units) = (scheme.name(), self.args.units);
        if scheme == Scheme::Flash {
            // A flash sale uses the tables of the service, which `Carrier` makes.
            let schema = shelf::schema(&name);
            sqlx::raw_sql(AssertSqlSafe(format!("create schema {schema}"))).execute(&self.pool).await?;
            return Ok(());
        }
        shelf::set(&self.pool, &name, units.into()).await?;
        self.redis.command(&["SET", &counter_key(&name), &units.to_string()]).await?;
        Ok(())
    }

    async fn left(&self, scheme: Scheme) -> Result<i64, Failure> {
        if scheme.counts_in_redis() {
            return Ok(self.redis.command(&["GET", &counter_key(&scheme.name())]).await?.parse()?);
        }
        Ok(shelf::count(&self.pool, &scheme.name()).await?.left)
    }

    async fn counts(&self, scheme: Scheme) -> Result<Counts, Failure> {
        let servers: Vec<_> = self.quorum.iter().chain([&self.redis]).collect();
        Counts::take(scheme, &servers, &self.pool).await
    }
}
