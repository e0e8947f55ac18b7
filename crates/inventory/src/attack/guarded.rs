//! The side with the defences of the library, as a program would use them.

use std::{ops::RangeInclusive, time::Duration};

use futures_util::stream;
use stockade::{
    Redis,
    cache::{Bloom, BuildError, Cache},
};

use tokio::time::{sleep, timeout};

use super::{
    AttackError,
    goods::{GOODS, Goods},
    item::Item,
};

/// How long a value lives: a random time in this range.
pub(super) const TTL: RangeInclusive<Duration> = Duration::from_secs(2)..=Duration::from_secs(6);

/// How long it is remembered that there is no such item.
const NULL_TTL: Duration = Duration::from_secs(2);

/// How long the first attack waits for the connection.
const CONNECTED: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct Guarded {
    pub(super) goods: Goods,
    cache: Cache<Item, String>,
    filter: Bloom,
}

impl Guarded {
    pub(super) fn new(redis: &Redis, goods: Goods) -> Result<Self, BuildError> {
        let items = || stream::iter((0..GOODS).map(|number| Ok::<_, sqlx::Error>(Item(number))));
        let filter = Bloom::builder::<Item>(redis).expected(u64::from(GOODS)).source(items).try_build()?;
        let (one, several) = (goods.clone(), goods.clone());
        let cache = Cache::builder(redis)
            .ttl(TTL)
            .null_ttl(NULL_TTL)
            .bloom(&filter)
            .loader(move |item: Item| {
                let goods = one.clone();
                async move { goods.find(item).await }
            })
            .batch_loader(move |items: Vec<Item>| {
                let goods = several.clone();
                async move { goods.find_all(&items).await }
            })
            .try_build()?;
        Ok(Self { goods, cache, filter })
    }

    /// Waits until the cache is connected, for a while. Without it every read would be a load.
    pub(super) async fn settled(&self) {
        let connected = async {
            while self.cache.is_degraded() {
                sleep(Duration::from_millis(5)).await;
            }
        };
        let _ = timeout(CONNECTED, connected).await;
    }

    pub(super) async fn get(&self, item: Item) -> Result<Option<String>, AttackError> {
        Ok(self.cache.get(&item).await?.value.map(|value| String::clone(&value)))
    }

    /// Loads so many at the same moment.
    pub(super) async fn warm(&self, many: u32) -> Result<(), AttackError> {
        let items: Vec<Item> = (0..many).map(Item).collect();
        for answer in self.cache.get_many(&items).await {
            answer?;
        }
        Ok(())
    }

    /// Forgets what an earlier run left.
    pub(super) async fn clear(&self) -> Result<(), AttackError> {
        Ok(self.cache.clear().await?)
    }

    /// Waits until the filter knows what exists.
    pub(super) async fn fill_filter(&self) -> Result<(), AttackError> {
        if !self.filter.stats().ready {
            self.filter.rebuild().await?;
        }
        Ok(())
    }

    pub(super) async fn shutdown(&self, limit: Duration) {
        self.cache.shutdown(limit).await;
        self.filter.shutdown(limit).await;
        self.goods.close().await;
    }
}
