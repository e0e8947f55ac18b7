use std::{borrow::Cow, time::Duration};

use redis::{Client, aio::MultiplexedConnection};
use serde::{Deserialize, Serialize};
use sqlx::{
    PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use stockade::{
    Locks, Redis, Resource,
    postgres::{Timeouts, options},
};
use tokio::time::sleep;

use super::{Failure, stops::Stops};
use crate::{
    domain,
    flash::{Flash, FlashSettings},
};

/// The most that the script of a flash sale may take to answer.
const ANSWER: Duration = Duration::from_secs(1);

/// Where a scheme finds its stock and its locks, and how it is played.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Setting {
    /// The name of the scheme.
    pub(super) name: String,
    pub(super) database_url: String,
    pub(super) redis_url: String,
    /// The five servers of Redlock.
    pub(super) quorum: Vec<String>,
    /// How many connections to Postgres there may be.
    pub(super) workers: u32,
    pub(super) think: Duration,
    pub(super) lease: Duration,
    /// Whether this process is stopped now and then while it holds the lock.
    pub(super) stops: bool,
}

/// What a buyer buys from.
#[derive(Debug)]
pub(super) struct World {
    pub(super) postgres: PgPool,
    pub(super) redis: MultiplexedConnection,
    pub(super) quorum: Vec<MultiplexedConnection>,
    pub(super) locks: Locks,
    pub(super) flash: Flash,
    pub(super) sku: Sku,
    /// What the flash sale sells.
    pub(super) product: domain::Sku,
    pub(super) lock_key: String,
    pub(super) counter_key: String,
    pub(super) lease: Duration,
    think: Duration,
    stops: Option<Stops>,
}

/// The only one there is, for each scheme another.
#[derive(Clone, Debug)]
pub(super) struct Sku(String);

impl Resource for Sku {
    const KIND: &'static str = "lab";

    fn id(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.0)
    }
}

impl World {
    pub(super) async fn connect(setting: &Setting) -> Result<Self, Failure> {
        let name = setting.name.clone();
        let redis = Redis::connect(&setting.redis_url).await?;
        let mut quorum = Vec::with_capacity(setting.quorum.len());
        for url in &setting.quorum {
            quorum.push(connection(url).await?);
        }
        Ok(Self {
            postgres: pool(setting).await?,
            redis: connection(&setting.redis_url).await?,
            quorum,
            locks: Locks::builder().lease(setting.lease).redis(&redis),
            flash: Flash::new(&redis, ANSWER, FlashSettings { durable: false, backlog: u32::MAX }),
            product: domain::Sku::new(&name)?,
            lock_key: format!("lab:{name}:lock"),
            counter_key: counter_key(&name),
            sku: Sku(name),
            lease: setting.lease,
            think: setting.think,
            stops: setting.stops.then(Stops::begin),
        })
    }

    /// Between read and write: here a buyer thinks, and here a holder is stopped.
    pub(super) async fn think(&self) -> Result<(), Failure> {
        if !self.think.is_zero() {
            sleep(self.think).await;
        }
        match &self.stops {
            Some(stops) => stops.stop_if_due().await,
            None => Ok(()),
        }
    }
}

/// Where the stock of a scheme is that counts in Redis.
pub(super) fn counter_key(name: &str) -> String {
    format!("lab:{name}:units")
}

/// The schema that holds the table of a scheme.
pub(super) fn schema(name: &str) -> String {
    format!("lab-{name}")
}

/// Connections that find the table of the scheme under the name `stock`.
async fn pool(setting: &Setting) -> Result<PgPool, Failure> {
    let connect: PgConnectOptions = setting.database_url.parse()?;
    let schema = format!("\"{}\"", schema(&setting.name));
    // A holder that is stopped within its transaction keeps others out for a lease, as its lock does.
    let timeouts = Timeouts { idle_in_transaction: setting.lease, ..Timeouts::default() };
    let connect = options(connect, &timeouts).options([("search_path", schema)]);
    Ok(PgPoolOptions::new().max_connections(setting.workers).connect_with(connect).await?)
}

async fn connection(url: &str) -> Result<MultiplexedConnection, Failure> {
    Ok(Client::open(url)?.get_multiplexed_async_connection().await?)
}
