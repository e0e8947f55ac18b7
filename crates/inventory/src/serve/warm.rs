use std::time::Duration;

use futures_util::{
    StreamExt,
    stream::{self, BoxStream},
};
use sqlx::PgPool;
use stockade::cache::{self, Cache};
use tokio::time::{Instant, sleep};

use crate::{
    config::CacheSettings,
    db,
    domain::{Sku, Stock},
};

/// How long Redis may be away in the middle of a warm-up, and how often the database is asked that was away.
const AWAY: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(50);

/// The warm-up of an instance.
pub(super) type Warmup = cache::Warmup<Sku, Stock, BoxStream<'static, Sku>>;

/// A warm-up of the rows that changed last, because they are read most.
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
                    tracing::warn!(error = &error as &dyn std::error::Error, "the warm-up waits for the database");
                    told = true;
                }
                Err(_) => {}
            }
            sleep(AWAY).await;
        }
    };
    stocks.warm(stream::once(latest).flat_map(stream::iter).boxed()).within(settings.warm_limit)
}

/// Runs the warm-up, and logs its result. It stops when Redis is away, which could not keep the values.
pub(super) async fn warm(warmup: Warmup, stocks: Cache<Sku, Stock>) {
    let report = tokio::select! {
        report = warmup.run() => report,
        () = is_away(&stocks) => {
            tracing::warn!("starting with a cold cache: its Redis is away");
            return;
        }
    };
    let (state, skipped) = (report.state, report.skipped());
    let cache::WarmReport { loaded, absent, present, failed, .. } = report;
    tracing::info!(?state, loaded, absent, present, failed, skipped, "the warm-up has ended");
}

/// Returns when Redis is away: at once if it is away now, since the start has waited for it, else after 1 s away.
async fn is_away(stocks: &Cache<Sku, Stock>) {
    let mut patience = Duration::ZERO;
    let mut since: Option<Instant> = None;
    loop {
        if !stocks.is_degraded() {
            (since, patience) = (None, AWAY);
        } else if since.get_or_insert_with(Instant::now).elapsed() >= patience {
            return;
        }
        sleep(LOOK).await;
    }
}
