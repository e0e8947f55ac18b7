use std::time::Duration;

use futures_util::{
    StreamExt,
    stream::{self, BoxStream},
};
use sqlx::PgPool;
use stockade::cache::{self, Cache};
use tokio::time::sleep;

use crate::{
    config::CacheSettings,
    console::chain,
    db,
    domain::{Sku, Stock},
};

/// How often the database is asked that was away.
const AWAY: Duration = Duration::from_secs(1);

/// The warm-up of an instance.
pub(super) type Warmup = cache::Warmup<Sku, Stock, BoxStream<'static, Sku>>;

/// A warm-up of the SKUs that changed last, because they are read most.
pub(super) fn prepare(stocks: &Cache<Sku, Stock>, pg: &PgPool, settings: &CacheSettings) -> Warmup {
    let (pg, limit) = (pg.clone(), i64::from(settings.warm_keys));
    let latest = async move {
        if limit == 0 {
            return Vec::new();
        }
        let mut told = false;
        // The limit of the warm-up ends this too.
        loop {
            match db::stock::latest(&pg, limit).await {
                Ok(latest) => return latest,
                Err(error) if !told => {
                    tracing::warn!(error = %chain(&error), "the warm-up waits for the database");
                    told = true;
                }
                Err(_) => {}
            }
            sleep(AWAY).await;
        }
    };
    stocks.warm(stream::once(latest).flat_map(stream::iter).boxed()).within(settings.warm_limit)
}

/// Runs the warm-up, and logs its result. There is none if Redis is away, for which the start has waited: nothing would
/// keep the values.
pub(super) async fn warm(warmup: Warmup, stocks: Cache<Sku, Stock>) {
    if stocks.is_degraded() {
        tracing::warn!("starting with a cold cache: its Redis is away");
        return;
    }
    let report = warmup.run().await;
    let (state, skipped) = (report.state, report.skipped());
    let cache::WarmReport { loaded, absent, present, failed, .. } = report;
    tracing::info!(?state, loaded, absent, present, failed, skipped, "the warm-up has ended");
}
