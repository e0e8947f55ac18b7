//! The side without defences, as it is often written: GET, and on a miss SELECT and SET.

use std::time::Duration;

use deadpool_redis::redis::{RedisError, RedisResult, aio::MultiplexedConnection, cmd, pipe};
use stockade::{Redis, Resource};
use tokio::{sync::Mutex, time::timeout};

use super::{
    AttackError,
    goods::{GOODS, Goods},
    item::Item,
};
use crate::lab::dial;

/// The key of a lock.
#[cfg(feature = "demo")]
const LOCK: &str = "lab-attack:lock";

/// How long every value lives.
pub(super) const TTL: Duration = Duration::from_secs(4);

/// How long a caller waits for an answer of Redis: longer than any attack.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a connection may take.
const CONNECTED: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct Naive {
    pub(super) goods: Goods,
    redis: Redis,
    /// The connection is made when it is needed, and again after a command failed.
    connection: Mutex<Option<MultiplexedConnection>>,
}

impl Naive {
    /// Connects nothing yet.
    pub(super) fn new(redis: Redis, goods: Goods) -> Self {
        Self { goods, redis, connection: Mutex::default() }
    }

    /// Reads through the cache, which does not remember that an item does not exist.
    pub(super) async fn get(&self, item: Item) -> Result<Option<String>, AttackError> {
        let mut redis = self.connection().await?;
        let found: RedisResult<Option<String>> = cmd("GET").arg(key(item)).query_async(&mut redis).await;
        if let Some(value) = self.answered(found).await? {
            return Ok(Some(value));
        }
        let loaded = self.goods.find(item).await?;
        if let Some(value) = &loaded {
            let set: RedisResult<()> =
                cmd("SET").arg(key(item)).arg(value).arg("EX").arg(TTL.as_secs()).query_async(&mut redis).await;
            self.answered(set).await?;
        }
        Ok(loaded)
    }

    /// Writes the first `many` items at the same moment.
    pub(super) async fn warm(&self, many: u32) -> Result<(), AttackError> {
        let items: Vec<Item> = (0..many).map(Item).collect();
        let mut sets = pipe();
        for (item, value) in self.goods.find_all(&items).await? {
            sets.cmd("SET").arg(key(item)).arg(value).arg("EX").arg(TTL.as_secs()).ignore();
        }
        let set: RedisResult<()> = sets.query_async(&mut self.connection().await?).await;
        self.answered(set).await
    }

    /// Drops the values that an earlier run cached.
    pub(super) async fn clear(&self) -> Result<(), AttackError> {
        let mut unlink = cmd("UNLINK");
        for number in 0..GOODS {
            unlink.arg(key(Item(number)));
        }
        let unlinked: RedisResult<()> = unlink.query_async(&mut self.connection().await?).await;
        self.answered(unlinked).await
    }

    /// `SETNX`: whether the caller holds the lock now. The key never expires.
    #[cfg(feature = "demo")]
    pub(super) async fn lock(&self) -> Result<bool, AttackError> {
        let set: RedisResult<bool> =
            cmd("SETNX").arg(LOCK).arg("held").query_async(&mut self.connection().await?).await;
        self.answered(set).await
    }

    #[cfg(feature = "demo")]
    pub(super) async fn unlock(&self) -> Result<(), AttackError> {
        let deleted: RedisResult<()> = cmd("DEL").arg(LOCK).query_async(&mut self.connection().await?).await;
        self.answered(deleted).await
    }

    async fn connection(&self) -> Result<MultiplexedConnection, AttackError> {
        let mut slot = self.connection.lock().await;
        if let Some(connection) = &*slot {
            return Ok(connection.clone());
        }
        let dialled = timeout(CONNECTED, dial(&self.redis)).await.map_err(|late| AttackError::Redis(late.into()))?;
        let mut connection = dialled.map_err(AttackError::Redis)?;
        connection.set_response_timeout(PATIENCE);
        *slot = Some(connection.clone());
        Ok(connection)
    }

    /// A connection whose command failed is not used again.
    async fn answered<T>(&self, result: RedisResult<T>) -> Result<T, AttackError> {
        if result.is_err() {
            self.connection.lock().await.take();
        }
        result.map_err(failed)
    }
}

fn key(item: Item) -> String {
    format!("lab-attack:{}", item.id())
}

fn failed(error: RedisError) -> AttackError {
    AttackError::Redis(error.into())
}
