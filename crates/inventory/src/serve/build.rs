use std::time::Duration;

use sqlx::{PgPool, postgres::PgPoolOptions};
use stockade::{
    Locks, Redis,
    cache::{self, Bloom, Cache},
    postgres::Relay,
};

use super::{
    StartError, filter,
    lock_store::LockStore,
    redis::connect,
    warm::{self, Warmup},
};
use crate::{
    app::{App, Limits, Shared},
    attack::{self, Attacks},
    config::{CacheMode, CacheSettings, Config, Database},
    db,
    domain::{Sku, Stock},
    flash::Flash,
    lab::{Lab, Place},
    ops::LockLog,
    probe::Probe,
};

/// How long the start waits for Redis. Without the wait the first writes of a healthy instance would be refused; with
/// Redis away the instance starts all the same, and serves reads.
const CONNECTED: Duration = Duration::from_secs(1);

/// How much longer than a statement may run the end of an abandoned one may take. A healthy server needs less.
const SILENT: Duration = Duration::from_secs(1);

/// The state of the service, and its background work.
pub(super) struct Service {
    pub(super) app: App,
    pub(super) relay: Relay,
    pub(super) warmup: Warmup,
    /// The limits of the loads of the cache.
    pub(super) loads: cache::Limits,
    pub(super) lock_log: LockLog,
    /// The Redis in which instances announce themselves.
    pub(super) fleet_redis: Redis,
}

impl Service {
    /// Builds the service. Neither database nor Redis has to be reachable; a Redis that is reachable has to be fit.
    pub(super) async fn build(config: &Config) -> Result<Self, StartError> {
        let pg = pool(&config.database, config.database.max_connections);
        let probe = Probe::new(pool(&config.database, 1));
        let lock_log = LockLog::default();
        let LockStore { locks, redis: lock_redis, shared_reads } = LockStore::connect(config, lock_log.clone()).await?;
        let cache_redis = if config.cache.has_own_redis {
            let may_evict = config.cache.mode == CacheMode::Eventual;
            connect("CACHE_REDIS_URL", &config.cache.redis, config, may_evict).await?
        } else {
            lock_redis.clone()
        };
        let filter = filter::open(&cache_redis, &pg)?;
        let loads = cache::Limits::new(config.cache.max_loads, None);
        let stocks = stocks(&cache_redis, &config.cache, &loads, pg.clone(), &filter)?;
        let relay = Relay::spawn(pg.clone(), [stocks.invalidator()]);
        let limits = Limits {
            lock_wait: config.locks.wait,
            read_wait: config.locks.read_wait,
            request: config.request_timeout,
            idempotency_ttl: config.idempotency_ttl,
        };
        let warmup = warm::prepare(&stocks, &pg, &config.cache);
        let flash = Flash::new(&lock_redis, config.redis_timeout, config.flash);
        let fleet_redis = lock_redis.clone();
        let lab = if config.lab { Some(lab(config, &pg, lock_redis.clone(), &locks, &flash)?) } else { None };
        let attacks = lab.as_ref().map(|lab| attacks(config, &pg, lock_redis, &locks, lab)).transpose()?;
        let app = App::from(Shared {
            pg,
            probe,
            locks,
            shared_reads,
            stocks,
            filter: Some(filter),
            flash,
            lab,
            attacks,
            limits,
            warm_up: warmup.progress(),
            answers: config.logged_answers,
            draining: Default::default(),
        });
        Ok(Self { app, relay, warmup, loads, lock_log, fleet_redis })
    }

    /// Waits until locks and cache are connected, 1 s at most.
    pub(super) async fn settle(app: &App) {
        let connected = async {
            while app.locks.is_degraded() || app.stocks.is_degraded() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        if tokio::time::timeout(CONNECTED, connected).await.is_err() {
            tracing::warn!("Redis is not connected: starting without locks or cache, which come back with it");
        }
    }
}

fn lab(config: &Config, pg: &PgPool, redis: Redis, locks: &Locks, flash: &Flash) -> Result<Lab, StartError> {
    let place = Place {
        pg: pg.clone(),
        redis,
        redis_timeout: config.redis_timeout,
        locks: locks.clone(),
        flash: flash.clone(),
        lease: config.locks.lease,
        patience: config.locks.wait,
        limit: config.request_timeout,
    };
    Lab::new(place, &config.database).ok_or(StartError::LabOnCluster)
}

fn attacks(config: &Config, pg: &PgPool, redis: Redis, locks: &Locks, lab: &Lab) -> Result<Attacks, StartError> {
    let place = attack::Place {
        pg: pg.clone(),
        options: config.database.options.clone(),
        redis,
        locks: locks.clone(),
        lab: lab.clone(),
    };
    Attacks::new(place).map_err(|_| StartError::LabOnCluster)
}

fn pool(database: &Database, connections: u32) -> PgPool {
    let options = db::connect::tested_when_idle(stockade::postgres::on_primary(PgPoolOptions::new()));
    db::connect::closed_when_silent(options, database.statement_timeout + SILENT)
        .max_connections(connections)
        .acquire_timeout(database.acquire_timeout)
        .connect_lazy_with(database.options.clone())
}

fn stocks(
    redis: &Redis,
    settings: &CacheSettings,
    loads: &cache::Limits,
    pg: PgPool,
    filter: &Bloom,
) -> Result<Cache<Sku, Stock>, StartError> {
    let of_several = pg.clone();
    let builder = Cache::builder(redis)
        .ttl(settings.ttl.clone())
        .null_ttl(settings.null_ttl)
        .limits(loads)
        .load_timeout(settings.load_timeout);
    let builder = match settings.mode {
        // Every write of a row that is there holds the exclusive lock of its SKU. Only the seed, which creates rows,
        // does not.
        CacheMode::Eventual => builder.under_locks(),
        CacheMode::Strict => builder.strict(&pg),
    };
    let builder = if settings.filter { builder.bloom(filter) } else { builder };
    let cache = builder
        .loader(move |sku: Sku| {
            let pg = pg.clone();
            async move { db::stock::find(&pg, &sku).await }
        })
        .batch_loader(move |skus: Vec<Sku>| {
            let pg = of_several.clone();
            async move {
                let stocks = db::stock::find_all(&pg, &skus).await?;
                Ok::<_, sqlx::Error>(stocks.into_iter().map(|stock| (stock.sku.clone(), Some(stock))).collect())
            }
        })
        .try_build()?;
    Ok(cache)
}
