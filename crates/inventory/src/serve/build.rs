use sqlx::{PgPool, postgres::PgPoolOptions};
use stockade::{Locks, Redis, postgres::Relay};

use super::StartError;
use crate::{
    app::{App, Draining, Limits},
    config::{Config, Database, LockSettings, Secret},
    http::Problem,
};

/// The state of the service and what runs behind it.
pub(super) struct Service {
    pub(super) app: App,
    pub(super) relay: Relay,
}

impl Service {
    /// Builds it. Neither database nor Redis has to be reachable; a Redis that is reachable has to be fit.
    pub(super) async fn build(config: &Config) -> Result<Self, StartError> {
        let pg = pool(&config.database);
        let lock_redis = connect("LOCK_REDIS_URL", &config.locks.redis, config, false).await?;
        let relay = Relay::spawn(pg.clone(), []);
        let limits = Limits {
            lock_wait: config.locks.wait,
            request: config.request_timeout,
            idempotency_ttl: config.idempotency_ttl,
        };
        let app = App { pg, locks: locks(&lock_redis, &config.locks), limits, draining: Draining::default() };
        Ok(Self { app, relay })
    }
}

fn pool(database: &Database) -> PgPool {
    PgPoolOptions::new()
        .max_connections(database.max_connections)
        .acquire_timeout(database.acquire_timeout)
        .connect_lazy_with(database.options.clone())
}

async fn connect(variable: &'static str, url: &Secret, config: &Config, may_evict: bool) -> Result<Redis, StartError> {
    let builder = Redis::builder(url.expose()).command_timeout(config.redis_timeout);
    let builder = if may_evict { builder.allow_eviction() } else { builder };
    builder.connect().await.map_err(|source| StartError::Redis { variable, source })
}

fn locks(_redis: &Redis, settings: &LockSettings) -> Locks {
    Locks::builder().lease(settings.lease).max_waiters(settings.max_waiters).on_reject(Problem::from).memory()
}
