//! Reads inside a transaction that writes. They see its writes, and do not use the cache.

use std::time::Duration;

use sqlx::{PgConnection, PgPool};
use stockade::{
    Cache, Redis,
    cache::{CacheError, CacheStats, Source},
    postgres::Tx,
};
use stockade_testbed::PostgresServer;
use tokio::task::JoinSet;

use super::{Sku, database, until};
use crate::world;

type Stocks = Cache<Sku, i32>;

/// The servers of a test, which must end with [`World::end`].
struct World {
    _postgres: PostgresServer,
    pool: PgPool,
    redis: world::World,
}

/// Shuts the gate to all other transactions until this one is over.
const HOLD: &str = "select pg_advisory_xact_lock(7)";

/// Loads a row. `gated` stands for the row of `a` behind the gate.
async fn load(connection: &mut PgConnection, sku: Sku) -> Result<Option<i32>, sqlx::Error> {
    let gated = sku.0 == "gated";
    if gated {
        sqlx::query("select pg_advisory_lock_shared(7), pg_advisory_unlock_shared(7)")
            .execute(&mut *connection)
            .await?;
    }
    let select = sqlx::query_scalar("select quantity from stock where sku = $1");
    select.bind(if gated { "a" } else { sku.0 }).fetch_optional(connection).await
}

impl World {
    async fn start() -> Self {
        let (postgres, _) = database().await;
        // This pool has no time-outs, since statements wait at the gate.
        let pool = PgPool::connect(&postgres.url()).await.unwrap();
        Self { _postgres: postgres, pool, redis: world::World::start().await }
    }

    async fn end(self) {
        self.redis.end().await;
    }

    /// A cache as another process would have it.
    async fn process(&self) -> Stocks {
        let redis = Redis::connect(self.redis.url()).await.unwrap();
        let stocks = world::cached(Cache::builder(&redis).loader_in(&self.pool, load).build());
        until(async || !stocks.is_degraded()).await;
        stocks
    }

    /// A transaction that has set the quantity of `a`.
    async fn writing(&self, stocks: &Stocks, quantity: i32) -> Tx {
        let mut tx = Tx::unfenced(&self.pool).await.unwrap();
        sqlx::query("update stock set quantity = $1 where sku = 'a'").bind(quantity).execute(&mut *tx).await.unwrap();
        tx.invalidate(stocks, &Sku("a"));
        tx
    }

    /// Waits until so many statements wait at the gate.
    async fn waiting(&self, count: i64) {
        let waiting = "select count(*) from pg_stat_activity where wait_event = 'advisory'";
        until(async || sqlx::query_scalar::<_, i64>(waiting).fetch_one(&self.pool).await.unwrap() == count).await;
    }

    /// The data of the store for every key, leases included.
    async fn stored(&self) -> String {
        let keys = self.redis.command(&["KEYS", "*}e:stock:*"]).await.unwrap();
        let mut all = keys.clone();
        for key in keys.split_whitespace() {
            all += &self.redis.command(&["HGETALL", key]).await.unwrap();
        }
        all
    }
}

async fn read(stocks: Stocks, sku: Sku) -> (Option<i32>, Source) {
    let found = stocks.get(&sku).await.unwrap();
    (found.value.map(|value| *value), found.info.source)
}

async fn seen(stocks: &Stocks) -> (Option<i32>, Source) {
    read(stocks.clone(), Sku("a")).await
}

fn loads(stats: &CacheStats) -> u64 {
    stats.loads() + stats.loads_in_flight
}

#[tokio::test]
async fn a_transaction_reads_what_it_wrote_and_nobody_else_does_before_its_commit() {
    let world = World::start().await;
    let (here, elsewhere) = (world.process().await, world.process().await);
    assert_eq!(seen(&elsewhere).await, (Some(10), Source::Load));
    let before = world.stored().await;

    let mut tx = world.writing(&here, 4).await;
    assert_eq!(here.get_in(&mut tx, &Sku("a")).await.unwrap(), Some(4));
    sqlx::query("insert into stock values ('b', 1)").execute(&mut *tx).await.unwrap();
    assert_eq!(here.get_in(&mut tx, &Sku("b")).await.unwrap(), Some(1));
    assert_eq!(here.get_in(&mut tx, &Sku("c")).await.unwrap(), None);
    assert_eq!(world.stored().await, before, "nothing of it is stored, no lease taken");
    for stocks in [&here, &elsewhere] {
        assert_eq!(seen(stocks).await, (Some(10), Source::Redis));
    }
    let stats = here.stats();
    assert_eq!((stats.reads_in_tx, stats.reads(), loads(&stats)), (3, 1, 0), "{stats:?}");

    tx.commit().await.unwrap();
    for (stocks, source) in [(&elsewhere, Source::Load), (&here, Source::Redis)] {
        assert_eq!(seen(stocks).await, (Some(4), source));
    }
    world.end().await;
}

#[tokio::test]
async fn a_rollback_leaves_the_cached_value_where_it_was() {
    let world = World::start().await;
    let (here, elsewhere) = (world.process().await, world.process().await);
    seen(&elsewhere).await;
    let before = world.stored().await;
    let mut tx = world.writing(&here, 4).await;
    assert_eq!(here.get_in(&mut tx, &Sku("a")).await.unwrap(), Some(4));
    tx.rollback().await.unwrap();
    for stocks in [&here, &elsewhere] {
        assert_eq!(seen(stocks).await, (Some(10), Source::Redis));
    }
    assert_eq!((world.stored().await, loads(&here.stats()), loads(&elsewhere.stats())), (before, 0, 1));
    world.end().await;
}

#[tokio::test]
async fn an_old_snapshot_gives_its_transaction_the_old_row_and_the_cache_nothing() {
    let world = World::start().await;
    let stocks = world.process().await;
    let mut old = world.pool.begin_with("begin isolation level repeatable read").await.unwrap();
    assert_eq!(stocks.get_in(&mut old, &Sku("a")).await.unwrap(), Some(10));
    world.writing(&stocks, 4).await.commit().await.unwrap();

    assert_eq!(stocks.get_in(&mut old, &Sku("a")).await.unwrap(), Some(10), "its snapshot is older");
    assert!(world.stored().await.trim().is_empty());
    assert_eq!(seen(&stocks).await, (Some(4), Source::Load));
    assert_eq!(stocks.get_in(&mut old, &Sku("a")).await.unwrap(), Some(10));
    assert_eq!(seen(&world.process().await).await, (Some(4), Source::Redis));
    world.end().await;
}

#[tokio::test]
async fn it_joins_no_load_and_no_read_joins_it() {
    let world = World::start().await;
    let stocks = world.process().await;
    let mut tx = world.writing(&stocks, 4).await;
    let mut tasks = JoinSet::new();
    // The transaction that holds the gate can pass it.
    sqlx::query(HOLD).execute(&mut *tx).await.unwrap();
    tasks.spawn(read(stocks.clone(), Sku("gated")));
    world.waiting(1).await;
    assert_eq!(stocks.get_in(&mut tx, &Sku("gated")).await.unwrap(), Some(4));
    assert_eq!(stocks.stats().fetching, 1, "the load still waits");
    tx.rollback().await.unwrap();
    assert_eq!(tasks.join_next().await.unwrap().unwrap(), (Some(10), Source::Load));
    stocks.invalidate(&Sku("gated")).await.unwrap();

    let mut holder = world.pool.begin().await.unwrap();
    sqlx::query(HOLD).execute(&mut *holder).await.unwrap();
    let mut tx = world.writing(&stocks, 4).await;
    let inside = async { stocks.get_in(&mut tx, &Sku("gated")).await.unwrap() };
    let outside = async {
        world.waiting(1).await;
        tasks.spawn(read(stocks.clone(), Sku("gated")));
        world.waiting(2).await;
        holder.rollback().await.unwrap();
        tasks.join_next().await.unwrap().unwrap()
    };
    assert_eq!(tokio::join!(inside, outside), (Some(4), (Some(10), Source::Load)));
    world.end().await;
}

#[tokio::test]
async fn what_goes_wrong_is_told_and_the_limits_of_loads_do_not_count() {
    let world = World::start().await;
    let stocks = world.process().await;
    let mut tx = world.writing(&stocks, 4).await;
    assert!(matches!(stocks.get_in(&mut tx, &Sku("")).await, Err(CacheError::Key(_))));
    let plain = Cache::<Sku, i32>::memory().name("plain").loader(async |_| Ok::<_, sqlx::Error>(Some(1))).build();
    let error = plain.get_in(&mut tx, &Sku("a")).await.unwrap_err().to_string();
    assert!(error.contains("`plain`") && error.contains(".loader_in()"), "{error}");

    let quick = Duration::from_millis(50);
    let quick = Cache::memory().name("quick").load_timeout(quick).max_loads(1).loader_in(&world.pool, load).build();
    let mut holder = world.pool.begin().await.unwrap();
    sqlx::query(HOLD).execute(&mut *holder).await.unwrap();
    let late = quick.get_in(&mut tx, &Sku("gated")).await;
    assert!(matches!(late, Err(CacheError::Timeout(_))), "{late:?}");
    holder.rollback().await.unwrap();
    quick.shutdown(Duration::ZERO).await;
    assert_eq!(quick.get_in(&mut tx, &Sku("a")).await.unwrap(), Some(4), "the transaction goes on");

    sqlx::raw_sql("drop table stock").execute(&mut *tx).await.unwrap();
    let failed = stocks.get_in(&mut tx, &Sku("a")).await.unwrap_err();
    let CacheError::Load(source) = &failed else { panic!("{failed:?}") };
    assert!(source.downcast_ref::<sqlx::Error>().is_some(), "{source:?}");
    assert!(stocks.get_in(&mut tx, &Sku("a")).await.is_err(), "Postgres takes no more statements");
    assert_eq!((stocks.stats().reads_in_tx, quick.stats().reads_in_tx), (2, 2));
    world.end().await;
}
