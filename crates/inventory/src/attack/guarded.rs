//! The side with the defences of the library, as a program would use them.

use std::{ops::RangeInclusive, time::Duration};

use futures_util::stream;
use stockade::{
    Redis,
    cache::{Bloom, BuildError, Cache, CacheBuilder},
};

use tokio::time::{sleep, timeout};

use super::{
    AttackError,
    goods::{GOODS, Goods},
    item::Item,
};

/// How long a value lives: a random time in this range.
pub(super) const TTL: RangeInclusive<Duration> = Duration::from_secs(2)..=Duration::from_secs(6);

/// How long a value of the patient cache lives, and then may still be served.
const PATIENT_TTL: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(2);
const STALE: Duration = Duration::from_secs(60);

/// How long the cache remembers that an item does not exist.
const NULL_TTL: Duration = Duration::from_secs(2);

/// How long an attack waits until its caches are connected.
const CONNECTED: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct Guarded {
    pub(super) goods: Goods,
    cache: Cache<Item, String>,
    /// Serves an expired value while it is loaded again.
    patient: Cache<Item, String>,
    filter: Bloom,
}

/// How a cache treats a value that has expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// The first reader loads the value, the others wait.
    SingleFlight,
    /// Readers get the expired value, and one load in the background brings the new one.
    StaleWhileRevalidate,
}

impl Guarded {
    pub(super) fn new(redis: &Redis, goods: Goods) -> Result<Self, BuildError> {
        let items = || stream::iter((0..GOODS).map(|number| Ok::<_, sqlx::Error>(Item(number))));
        let filter = Bloom::builder::<Item>(redis).expected(u64::from(GOODS)).source(items).try_build()?;
        let cache = builder(redis, &goods).bloom(&filter).try_build()?;
        let patient = builder(redis, &goods)
            .name("attack-patient")
            .ttl(PATIENT_TTL)
            .grace(STALE)
            .stale_while_revalidate(STALE)
            .try_build()?;
        Ok(Self { goods, cache, patient, filter })
    }

    /// Waits until the caches are connected, 2 s at most. Until then every read is a load.
    pub(super) async fn settled(&self) {
        let connected = async {
            while self.cache.is_degraded() || self.patient.is_degraded() {
                sleep(Duration::from_millis(5)).await;
            }
        };
        let _ = timeout(CONNECTED, connected).await;
    }

    pub(super) async fn get(&self, item: Item, way: Way) -> Result<Option<String>, AttackError> {
        Ok(self.cache(way).get(&item).await?.value.map(|value| String::clone(&value)))
    }

    /// Loads the first `many` items at the same moment.
    pub(super) async fn warm(&self, many: u32, way: Way) -> Result<(), AttackError> {
        let items: Vec<Item> = (0..many).map(Item).collect();
        for answer in self.cache(way).get_many(&items).await {
            answer?;
        }
        Ok(())
    }

    /// Drops the values that an earlier run cached.
    pub(super) async fn clear(&self) -> Result<(), AttackError> {
        self.cache.clear().await?;
        Ok(self.patient.clear().await?)
    }

    /// Waits until the filter knows all items.
    pub(super) async fn fill_filter(&self) -> Result<(), AttackError> {
        if !self.filter.stats().ready {
            self.filter.rebuild().await?;
        }
        Ok(())
    }

    pub(super) async fn shutdown(&self, limit: Duration) {
        self.cache.shutdown(limit).await;
        self.patient.shutdown(limit).await;
        self.filter.shutdown(limit).await;
    }

    fn cache(&self, way: Way) -> &Cache<Item, String> {
        match way {
            Way::SingleFlight => &self.cache,
            Way::StaleWhileRevalidate => &self.patient,
        }
    }
}

/// The settings that both caches share.
fn builder(redis: &Redis, goods: &Goods) -> CacheBuilder<Item, String> {
    let (one, several) = (goods.clone(), goods.clone());
    Cache::builder(redis)
        .ttl(TTL)
        .null_ttl(NULL_TTL)
        .loader(move |item: Item| {
            let goods = one.clone();
            async move { goods.find(item).await }
        })
        .batch_loader(move |items: Vec<Item>| {
            let goods = several.clone();
            async move { goods.find_all(&items).await }
        })
}
