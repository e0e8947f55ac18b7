//! The side without defences, as it is often written: GET; where it finds nothing SELECT and SET.

use std::time::Duration;

use deadpool_redis::redis::{RedisError, aio::MultiplexedConnection, cmd, pipe};
use stockade::Resource;

use super::{
    AttackError,
    goods::{GOODS, Goods},
    item::Item,
};

/// How long every value lives.
pub(super) const TTL: Duration = Duration::from_secs(4);

#[derive(Debug)]
pub(super) struct Naive {
    pub(super) goods: Goods,
    redis: MultiplexedConnection,
}

impl Naive {
    pub(super) fn new(redis: MultiplexedConnection, goods: Goods) -> Self {
        Self { goods, redis }
    }

    /// Nothing is remembered of what does not exist.
    pub(super) async fn get(&self, item: Item) -> Result<Option<String>, AttackError> {
        let mut redis = self.redis.clone();
        let found: Option<String> = cmd("GET").arg(key(item)).query_async(&mut redis).await.map_err(failed)?;
        if found.is_some() {
            return Ok(found);
        }
        let loaded = self.goods.find(item).await?;
        if let Some(value) = &loaded {
            let set: Result<(), _> =
                cmd("SET").arg(key(item)).arg(value).arg("EX").arg(TTL.as_secs()).query_async(&mut redis).await;
            set.map_err(failed)?;
        }
        Ok(loaded)
    }

    /// Writes so many at the same moment.
    pub(super) async fn warm(&self, many: u32) -> Result<(), AttackError> {
        let items: Vec<Item> = (0..many).map(Item).collect();
        let mut sets = pipe();
        for (item, value) in self.goods.find_all(&items).await? {
            sets.cmd("SET").arg(key(item)).arg(value).arg("EX").arg(TTL.as_secs()).ignore();
        }
        sets.query_async(&mut self.redis.clone()).await.map_err(failed)
    }

    /// Forgets what an earlier run left.
    pub(super) async fn clear(&self) -> Result<(), AttackError> {
        let mut unlink = cmd("UNLINK");
        for number in 0..GOODS {
            unlink.arg(key(Item(number)));
        }
        unlink.query_async(&mut self.redis.clone()).await.map_err(failed)
    }
}

fn key(item: Item) -> String {
    format!("lab-attack:{}", item.id())
}

fn failed(error: RedisError) -> AttackError {
    AttackError::Redis(error.into())
}
