use std::{sync::Arc, time::Duration};

use stockade::{Cache, Redis, cache::CacheBuilder};
use stockade_testbed::RedisServer;

use super::{Database, Sku, Stock};
use crate::world::{self, online};

pub(in crate::cache) type Stocks = Cache<Sku, Stock>;

/// A cache with a connection of its own, as another process would have it.
pub(in crate::cache) async fn process(server: &RedisServer) -> CacheBuilder<Sku, Stock> {
    process_at(&server.url()).await
}

/// A cache whose commands and loads may take as long as a busy machine needs.
pub(in crate::cache) async fn patient(url: &str) -> CacheBuilder<Sku, Stock> {
    Cache::builder(&world::patient(url).await.namespace("shop")).load_timeout(Duration::from_secs(60))
}

pub(in crate::cache) async fn process_at(url: &str) -> CacheBuilder<Sku, Stock> {
    Cache::builder(&world::patient(url).await.namespace("shop"))
}

/// A cache with the default time-out of commands. On a machine that stalls it also gives up servers that answer.
pub(in crate::cache) async fn hasty(url: &str) -> CacheBuilder<Sku, Stock> {
    Cache::builder(&Redis::connect(url).await.unwrap().namespace("shop"))
}

pub(in crate::cache) trait Loading {
    /// Builds a cache of this database, and waits until the cache is on line.
    async fn on(self, database: &Arc<Database>) -> Stocks;

    fn loading(self, database: &Arc<Database>) -> Self;

    /// Also loads several rows by one query.
    fn batching(self, database: &Arc<Database>) -> Self;
}

impl Loading for CacheBuilder<Sku, Stock> {
    async fn on(self, database: &Arc<Database>) -> Stocks {
        online(self.loading(database)).await
    }

    fn loading(self, database: &Arc<Database>) -> Self {
        let database = Arc::clone(database);
        self.loader(move |sku: Sku| {
            let database = Arc::clone(&database);
            async move { database.query(&sku.0).await }
        })
    }

    fn batching(self, database: &Arc<Database>) -> Self {
        let database = Arc::clone(database);
        self.batch_loader(move |keys: Vec<Sku>| {
            let database = Arc::clone(&database);
            async move { database.query_many(&keys).await }
        })
    }
}
