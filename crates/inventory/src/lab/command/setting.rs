use std::time::Duration;

use deadpool_redis::redis::{Client, aio::MultiplexedConnection};
use serde::{Deserialize, Serialize};
use sqlx::{
    PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use stockade::{
    Locks, Redis,
    postgres::{Timeouts, options},
};

use super::{
    Failure, Stops, shelf,
    world::{Sku, World, counter_key, lock_key},
};
use crate::{
    domain,
    flash::{Flash, FlashSettings},
};

/// The most that the script of a flash sale may take to answer.
const ANSWER: Duration = Duration::from_secs(1);

/// How long a buyer waits for a lock before it gives up.
const PATIENCE: Duration = Duration::from_secs(5);

const FLASH: FlashSettings = FlashSettings { durable: false, backlog: u32::MAX, database_timeout: PATIENCE };

/// The stock and the locks of a scheme, and how it is played.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Setting {
    /// The name of the scheme.
    pub(super) name: String,
    pub(super) database_url: String,
    pub(super) redis_url: String,
    /// The five servers of Redlock.
    pub(super) quorum: Vec<String>,
    /// The buyers of this process, and its connections to Postgres at most.
    pub(super) workers: u32,
    pub(super) think: Duration,
    pub(super) lease: Duration,
    /// Whether this process is stopped now and then while it holds the lock.
    pub(super) stops: bool,
}

impl Setting {
    /// Connects to the servers.
    pub(super) async fn connect(&self) -> Result<World, Failure> {
        let redis = Redis::connect(&self.redis_url).await?;
        let mut quorum = Vec::with_capacity(self.quorum.len());
        for url in &self.quorum {
            quorum.push(connection(url).await?);
        }
        Ok(World {
            postgres: self.pool().await?,
            redis: connection(&self.redis_url).await?,
            quorum,
            locks: Locks::builder().lease(self.lease).redis(&redis),
            flash: Flash::new(&redis, ANSWER, FLASH),
            product: domain::Sku::new(&self.name)?,
            lock_key: lock_key(&self.name),
            counter_key: counter_key(&self.name),
            sku: Sku(self.name.clone()),
            lease: self.lease,
            patience: PATIENCE,
            think: self.think,
            stops: self.stops.then(Stops::begin),
        })
    }

    async fn pool(&self) -> Result<PgPool, Failure> {
        let connect: PgConnectOptions = self.database_url.parse()?;
        // A holder that is stopped within its transaction keeps others out for a lease, as its lock does. One that
        // thinks is not stopped.
        let timeouts = Timeouts::default().idle_in_transaction(self.lease + self.think);
        let connect = shelf::options(options(connect, &timeouts), &self.name);
        Ok(PgPoolOptions::new().max_connections(self.workers).connect_with(connect).await?)
    }
}

async fn connection(url: &str) -> Result<MultiplexedConnection, Failure> {
    Ok(Client::open(url)?.get_multiplexed_async_connection().await?)
}
