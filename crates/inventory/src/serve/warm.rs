use futures_util::{
    StreamExt,
    stream::{self, BoxStream},
};
use sqlx::PgPool;
use stockade::cache::{self, Cache};

use crate::{
    config::CacheSettings,
    db,
    domain::{Sku, Stock},
};

/// The warm-up of an instance.
pub(super) type Warmup = cache::Warmup<Sku, Stock, BoxStream<'static, Sku>>;

/// Of the rows that changed last: what was written lately is what is read most.
pub(super) fn prepare(stocks: &Cache<Sku, Stock>, pg: &PgPool, settings: &CacheSettings) -> Warmup {
    let (pg, limit) = (pg.clone(), i64::from(settings.warm_keys));
    let latest = async move {
        if limit == 0 {
            return Vec::new();
        }
        db::stock::latest(&pg, limit).await.unwrap_or_else(|error| {
            tracing::warn!(error = &error as &dyn std::error::Error, "starting with a cold cache");
            Vec::new()
        })
    };
    stocks.warm(stream::once(latest).flat_map(stream::iter).boxed()).within(settings.warm_limit)
}

/// Runs it, and says what it did.
pub(super) async fn warm(warmup: Warmup) {
    let report = warmup.run().await;
    let (state, skipped) = (report.state, report.skipped());
    let cache::WarmReport { loaded, absent, present, failed, .. } = report;
    tracing::info!(?state, loaded, absent, present, failed, skipped, "the warm-up has ended");
}
