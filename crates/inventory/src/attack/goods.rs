//! The table that callers read, in a schema of its own.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use sqlx::{
    PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};

use super::{item::Item, meter::Meter};

/// How many items the table has. The first is number 0.
pub(super) const GOODS: u32 = 1_000;

/// The connections of one side.
const CONNECTIONS: u32 = 4;

/// How long a caller waits for a connection: longer than any attack.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a connection may stand idle.
const IDLE: Duration = Duration::from_secs(5);

/// Makes the table, one caller at a time. Its rows never change.
const MAKE: &str = "set local client_min_messages = warning;
    select pg_advisory_xact_lock(hashtext('inventory attack'));
    create schema if not exists \"lab-attack\";
    create table if not exists \"lab-attack\".goods (number bigint primary key, about text not null);
    insert into \"lab-attack\".goods select n, repeat('goods ' || n || ' ', 20) from generate_series(0, 999) as n
        on conflict do nothing";

/// The sleep takes the place of a costly query.
const FIND: &str = "select about from goods, pg_sleep($2) where number = $1";

const FIND_ALL: &str = "select number, about from goods where number = any($1)";

pub(super) async fn make(pool: &PgPool) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(MAKE).execute(pool).await.map(drop)
}

/// The table as one side sees it: by connections of its own, each statement counted. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Goods {
    pool: PgPool,
    meter: Arc<Meter>,
    /// How long a statement for one item takes, in milliseconds.
    load: Arc<AtomicU64>,
}

impl Goods {
    /// Connects nothing yet.
    pub(super) fn new(options: PgConnectOptions) -> Self {
        let pool = PgPoolOptions::new()
            .max_connections(CONNECTIONS)
            .idle_timeout(IDLE)
            .acquire_timeout(PATIENCE)
            .connect_lazy_with(options.options([("search_path", "\"lab-attack\"")]));
        Self { pool, meter: Arc::default(), load: Arc::default() }
    }

    /// The counts of this side in its current run.
    pub(super) fn meter(&self) -> &Meter {
        &self.meter
    }

    /// From now on a statement for one item takes `millis` milliseconds.
    pub(super) fn set_load(&self, millis: u64) {
        self.load.store(millis, Relaxed);
    }

    pub(super) async fn find(&self, Item(number): Item) -> Result<Option<String>, sqlx::Error> {
        let _loading = self.meter.loading();
        let load = Duration::from_millis(self.load.load(Relaxed)).as_secs_f64();
        sqlx::query_scalar(FIND).bind(i64::from(number)).bind(load).fetch_optional(&self.pool).await
    }

    /// Reads many items in one statement, without the sleep.
    pub(super) async fn find_all(&self, items: &[Item]) -> Result<Vec<(Item, Option<String>)>, sqlx::Error> {
        let _loading = self.meter.loading();
        let numbers: Vec<i64> = items.iter().map(|&Item(number)| number.into()).collect();
        let rows: Vec<(i64, String)> = sqlx::query_as(FIND_ALL).bind(numbers).fetch_all(&self.pool).await?;
        let item = |number| u32::try_from(number).ok().map(Item);
        Ok(rows.into_iter().filter_map(|(number, about)| Some((item(number)?, Some(about)))).collect())
    }

    pub(super) async fn close(&self) {
        self.pool.close().await;
    }
}
