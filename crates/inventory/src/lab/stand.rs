use std::{sync::Arc, time::Duration};

use deadpool_redis::redis::{self, RedisError, aio::MultiplexedConnection, cmd};
use sqlx::{PgPool, postgres::PgPoolOptions};
use stockade::{Locks, Redis, redis::Pool};
use tokio::{
    sync::{Mutex, OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use super::{
    Count, Failure, LabError, Sale, SaleError, Scheme, shelf,
    world::{Sku, World, counter_key, lock_key},
};
use crate::{config::Database, domain, flash::Flash};

/// How many sales of one scheme are under way at once. The next one is refused.
const SALES: u32 = 64;

/// The most connections to Postgres that a scheme has, apart from those of the service.
const CONNECTIONS: u32 = 8;

/// How long a connection of a scheme may stay idle.
const IDLE: Duration = Duration::from_secs(10);

/// How long a new run waits for the sales that are under way.
const SETTLE: Duration = Duration::from_secs(1);

/// The parts of the service that the schemes use.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) pg: PgPool,
    pub(crate) redis: Redis,
    pub(crate) redis_timeout: Duration,
    pub(crate) locks: Locks,
    pub(crate) flash: Flash,
    pub(crate) lease: Duration,
    pub(crate) patience: Duration,
    /// How long a sale may take.
    pub(crate) limit: Duration,
}

/// The stock that a scheme of the service sells, and its connections.
#[derive(Debug)]
pub(super) struct Stand {
    scheme: Scheme,
    name: String,
    place: Arc<Place>,
    postgres: PgPool,
    /// One permit for each sale under way. A new run takes all of them.
    sales: Arc<Semaphore>,
    /// Holds a connection to Redis, made when it is needed, and again after a command failed.
    world: Mutex<Option<Arc<World>>>,
}

impl Stand {
    /// Connects nothing yet.
    pub(super) fn new(scheme: Scheme, place: Arc<Place>, database: &Database) -> Self {
        let name = scheme.name();
        let postgres = PgPoolOptions::new()
            .max_connections(CONNECTIONS)
            .idle_timeout(IDLE)
            .acquire_timeout(database.acquire_timeout)
            .connect_lazy_with(shelf::options(database.options.clone(), &name));
        let sales = Arc::new(Semaphore::new(SALES as usize));
        Self { scheme, name, place, postgres, sales, world: Mutex::default() }
    }

    /// Begins a new run.
    pub(super) async fn set(&self, units: i64) -> Result<(), LabError> {
        let all = timeout(SETTLE, self.sales.acquire_many(SALES)).await;
        let _all = all.ok().and_then(Result::ok).ok_or(LabError::Selling)?;
        let world = self.world().await?;
        shelf::set(&self.place.pg, &self.name, units).await?;
        let mut keys = redis::pipe();
        keys.set(&world.counter_key, units).ignore().del(&world.lock_key).ignore();
        let set: Result<(), _> = keys.query_async(&mut world.redis.clone()).await;
        self.answered(set).await
    }

    /// Takes the permit of one sale.
    pub(super) fn enter(&self) -> Result<OwnedSemaphorePermit, LabError> {
        Arc::clone(&self.sales).try_acquire_owned().map_err(|_| LabError::Full)
    }

    /// Sells one unit and records it.
    pub(super) async fn sell(&self) -> Result<Sale, LabError> {
        timeout(self.place.limit, self.sell_and_record()).await.unwrap_or(Err(LabError::Unfinished))
    }

    async fn sell_and_record(&self) -> Result<Sale, LabError> {
        let world = self.world().await?;
        let sale = match self.scheme.sell(&world).await {
            Err(SaleError::Redis(error)) => self.answered(Err(error)).await?,
            other => other.map_err(LabError::Sale)?,
        };
        match sale {
            Sale::Sold => {
                let recorded = sqlx::query(shelf::RECORD).execute(&world.postgres).await;
                recorded.map_err(|error| LabError::Unknown(error.into()))?;
            }
            // A counter that was never set is an error, and not sold out.
            Sale::SoldOut if self.scheme.counts_in_redis() => {
                shelf::count(&self.place.pg, &self.name).await?;
            }
            Sale::SoldOut => {}
        }
        Ok(sale)
    }

    /// The sales of the last run.
    pub(super) async fn count(&self) -> Result<Count, LabError> {
        let count = shelf::count(&self.place.pg, &self.name).await?;
        if self.scheme.counts_in_redis() {
            let mut redis = self.world().await?.redis.clone();
            let left: Result<Option<i64>, _> = cmd("GET").arg(counter_key(&self.name)).query_async(&mut redis).await;
            return Ok(Count::new(count.units, count.sold, self.answered(left).await?.unwrap_or_default()));
        }
        Ok(count)
    }

    pub(super) async fn close(&self) {
        self.postgres.close().await;
    }

    /// A connection whose command failed is not used again.
    async fn answered<T>(&self, result: Result<T, RedisError>) -> Result<T, LabError> {
        if result.is_err() {
            self.world.lock().await.take();
        }
        result.map_err(|error| LabError::Unknown(error.into()))
    }

    async fn world(&self) -> Result<Arc<World>, LabError> {
        let mut slot = self.world.lock().await;
        if let Some(world) = &*slot {
            return Ok(Arc::clone(world));
        }
        let redis = timeout(self.place.redis_timeout, dial(&self.place.redis)).await;
        let redis = redis.map_err(|error| LabError::Redis(error.into()))?.map_err(LabError::Redis)?;
        let world = Arc::new(World {
            postgres: self.postgres.clone(),
            redis,
            quorum: Vec::new(),
            locks: self.place.locks.clone(),
            flash: self.place.flash.clone(),
            product: domain::Sku::new(&self.name).map_err(|error| LabError::Unknown(error.into()))?,
            lock_key: lock_key(&self.name),
            counter_key: counter_key(&self.name),
            sku: Sku(self.name.clone()),
            lease: self.place.lease,
            patience: self.place.patience,
            think: Duration::ZERO,
            #[cfg(feature = "demo")]
            stops: None,
        });
        *slot = Some(Arc::clone(&world));
        Ok(world)
    }
}

/// A connection of its own: it is taken out of the pool, since sales share it.
pub(crate) async fn dial(redis: &Redis) -> Result<MultiplexedConnection, Failure> {
    match redis.pool() {
        Some(Pool::Single(pool)) => Ok(deadpool_redis::Connection::take(pool.get().await?)),
        Some(Pool::Sentinel(pool)) => Ok(deadpool_redis::sentinel::Connection::take(pool.get().await?)),
        _ => Err("the schemes of the lab need one Redis server, or sentinels".into()),
    }
}
