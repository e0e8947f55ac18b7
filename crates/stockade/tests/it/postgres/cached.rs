//! A table in Postgres, and strict caches of it on a Redis. A test can hold a load that has read its row, and a COMMIT
//! that is under way.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use sqlx::{PgConnection, PgPool};
use stockade::{
    Cache, Redis,
    cache::{CacheBuilder, Source},
    postgres::{Relay, Tx},
};
use stockade_testbed::PostgresServer;
use tokio::sync::Semaphore;

use super::{Sku, until, with_tables};
use crate::{looks::look, world};

pub(super) use crate::world::online;

/// The servers of a test, which must end with [`World::end`].
pub(super) struct World {
    pub(super) postgres: PostgresServer,
    pub(super) pool: PgPool,
    pub(super) redis: world::World,
    pub(super) relay: Mutex<Option<Relay>>,
    /// Whether the caches wait for Redis as long as a busy machine needs.
    is_patient: bool,
    reads: Arc<Reads>,
}

/// The loads of a test.
#[derive(Default)]
pub(super) struct Reads {
    /// How many loads have read the row.
    count: AtomicUsize,
    /// A load that read the row while the gate was shut waits here.
    gate: Mutex<Option<Arc<Semaphore>>>,
}

impl World {
    pub(super) async fn start() -> Self {
        Self::on(PostgresServer::start().await.unwrap()).await
    }

    pub(super) async fn on(postgres: PostgresServer) -> Self {
        let pool = with_tables(&postgres).await;
        let redis = world::World::start().await;
        Self { postgres, pool, redis, relay: Mutex::default(), is_patient: false, reads: Arc::default() }
    }

    /// A world for tests that do not depend on time-outs of Redis.
    pub(super) async fn patient() -> Self {
        Self { is_patient: true, ..Self::start().await }
    }

    /// Fails if the caches leave anything behind, announcements included.
    pub(super) async fn end(self) {
        self.end_behind(()).await;
    }

    /// [`World::end`] for caches that reach the store through `way`, such as a proxy. It is dropped after the shutdown.
    pub(super) async fn end_behind(self, way: impl Send) {
        self.end_relay().await;
        self.redis.end_behind(way).await;
    }

    /// Ends the relay. The stores that it has vouched for stay trusted.
    pub(super) async fn end_relay(&self) {
        let relay = self.relay.lock().unwrap().take();
        if let Some(relay) = relay {
            relay.shutdown(Duration::from_secs(5)).await;
        }
    }

    /// Settings of a cache of the stock, as another process would have it, on the Redis at this address.
    pub(super) async fn at(&self, url: &str) -> CacheBuilder<Sku, i32> {
        let redis = if self.is_patient { world::patient(url).await } else { Redis::connect(url).await.unwrap() };
        stock_at(&redis, &self.pool, &self.reads)
    }

    /// A strict cache on a store that a relay has vouched for.
    pub(super) async fn cache(&self) -> Cache<Sku, i32> {
        let cache = online(self.at(&self.redis.url()).await.strict(&self.pool)).await;
        self.vouched(&cache).await;
        cache
    }

    /// Waits until a relay has vouched for the store of a strict cache.
    pub(super) async fn vouched(&self, cache: &Cache<Sku, i32>) {
        self.relay.lock().unwrap().get_or_insert_with(|| Relay::spawn(self.pool.clone(), [cache.invalidator()]));
        until(async || source(cache).await == Source::Redis).await;
    }

    /// From now on loads stop when they have read the row, until the returned semaphore is closed.
    pub(super) fn shut(&self) -> Arc<Semaphore> {
        let gate = Arc::new(Semaphore::new(0));
        *self.reads.gate.lock().unwrap() = Some(Arc::clone(&gate));
        gate
    }

    /// Loads that begin from now on are not held.
    pub(super) fn open(&self) {
        *self.reads.gate.lock().unwrap() = None;
    }

    /// How many loads have read the row.
    pub(super) fn loads(&self) -> usize {
        self.reads.count.load(Ordering::Acquire)
    }

    /// Waits until more than `loads` loads have read the row.
    pub(super) async fn loaded_after(&self, loads: usize) {
        until(async || self.loads() > loads).await;
    }

    /// A transaction that has set the quantity and has not committed.
    pub(super) async fn write(&self, cache: &Cache<Sku, i32>, quantity: i32) -> Tx {
        write(&self.pool, cache, quantity).await
    }

    /// From now on every COMMIT that changes the stock waits until the returned connection releases its lock.
    pub(super) async fn hold_commits(&self) -> PgConnection {
        sqlx::raw_sql(
            "create function hold() returns trigger language plpgsql as
                 $$ begin perform pg_advisory_xact_lock_shared(7); return null; end $$;
             create constraint trigger hold after update on stock deferrable initially deferred
             for each row execute function hold()",
        )
        .execute(&self.pool)
        .await
        .unwrap();
        let mut holder = self.pool.acquire().await.unwrap().detach();
        sqlx::query("select pg_advisory_lock(7)").execute(&mut holder).await.unwrap();
        holder
    }

    /// Waits until a transaction has come to its COMMIT. Returns the id of the transaction.
    pub(super) async fn committing(&self) -> String {
        const SQL: &str = "select backend_xid::text from pg_stat_activity where wait_event = 'advisory'";
        let committing = async || -> Vec<String> { sqlx::query_scalar(SQL).fetch_all(&self.pool).await.unwrap() };
        until(async || committing().await.len() == 1).await;
        committing().await.remove(0)
    }

    /// [`World::committing`] for a write to a strict cache. Checks that the store has the announcement by then.
    pub(super) async fn announced(&self) {
        let (transaction, look) = (self.committing().await, look(&self.redis).await);
        assert!(look.transactions.contains(&transaction), "{transaction} commits unannounced: {look:?}");
    }

    /// The Redis keys of entries, or of intents.
    pub(super) async fn keys(&self, letter: char) -> String {
        self.redis.command(&["KEYS", &format!("*}}{letter}:stock:*")]).await.unwrap()
    }

    pub(super) async fn is_stored(&self) -> bool {
        look(&self.redis).await.values > 0
    }
}

/// Whether the entry has the field `name`. The full name of a field also has the shape of the value.
pub(super) async fn has(server: &stockade_testbed::RedisServer, key: &str, name: &str) -> bool {
    let fields = server.command(&["HKEYS", key]).await.unwrap();
    fields.lines().any(|field| field.split(':').next() == Some(name))
}

pub(super) async fn release(mut holder: PgConnection) {
    sqlx::query("select pg_advisory_unlock(7)").execute(&mut holder).await.unwrap();
}

pub(super) async fn read(cache: &Cache<Sku, i32>) -> i32 {
    *cache.get(&Sku("a")).await.unwrap().value.unwrap()
}

pub(super) async fn source(cache: &Cache<Sku, i32>) -> Source {
    cache.get(&Sku("a")).await.unwrap().info.source
}

/// Settings of a cache of the stock.
pub(super) fn stock_at(redis: &Redis, pool: &PgPool, reads: &Arc<Reads>) -> CacheBuilder<Sku, i32> {
    let (pool, reads) = (pool.clone(), Arc::clone(reads));
    let load = move |sku: Sku| {
        let (pool, reads) = (pool.clone(), Arc::clone(&reads));
        async move {
            let select = sqlx::query_scalar("select quantity from stock where sku = $1");
            let row = select.bind(sku.0).fetch_optional(&pool).await;
            let gate = reads.gate.lock().unwrap().clone();
            reads.count.fetch_add(1, Ordering::AcqRel);
            if let Some(gate) = gate {
                // The gate is closed when the test lets all loads go on.
                let _ = gate.acquire().await;
            }
            row
        }
    };
    // A load does not take this long, however busy the machine is.
    Cache::builder(redis).load_timeout(Duration::from_secs(10)).loader(load)
}

/// A transaction that has set the quantity and has not committed.
pub(super) async fn write(pool: &PgPool, cache: &Cache<Sku, i32>, quantity: i32) -> Tx {
    let mut tx = Tx::unfenced(pool).await.unwrap();
    sqlx::query("set local lock_timeout = '20s'").execute(&mut *tx).await.unwrap();
    sqlx::query("update stock set quantity = $1 where sku = 'a'").bind(quantity).execute(&mut *tx).await.unwrap();
    tx.invalidate(cache, &Sku("a"));
    tx
}
