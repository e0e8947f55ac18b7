//! `/admin/cache`

use axum::{Json, extract::State, http::StatusCode};
use serde::Serialize;
use stockade::cache::{CacheStats, WarmReport, WarmState, bloom::BloomStats};

use crate::{app::App, domain::Sku, http::Problem};

#[derive(Debug, Serialize)]
pub(super) struct View {
    name: &'static str,
    degraded: bool,
    #[serde(flatten)]
    counts: CacheStats,
    warm_up: WarmUp,
    filter: Option<Filter>,
}

/// The filter of the SKUs that exist, as this instance saw it last.
#[derive(Debug, Serialize)]
struct Filter {
    ready: bool,
    keys: u64,
    expected: u64,
}

impl From<BloomStats> for Filter {
    fn from(BloomStats { ready, keys, expected, .. }: BloomStats) -> Self {
        Self { ready, keys, expected }
    }
}

/// How the warm-up of this instance goes, or went.
#[derive(Debug, Serialize)]
struct WarmUp {
    state: &'static str,
    keys: u64,
    loaded: u64,
    absent: u64,
    present: u64,
    failed: u64,
    skipped: u64,
}

impl From<WarmReport> for WarmUp {
    fn from(report: WarmReport) -> Self {
        let state = match report.state {
            WarmState::Running => "running",
            WarmState::Complete => "complete",
            WarmState::TimeUp => "time_up",
            // The service stopped the warm-up, as it does when Redis is away.
            WarmState::Unavailable | WarmState::Cancelled => "unavailable",
            _ => "ended",
        };
        let (skipped, WarmReport { keys, loaded, absent, present, failed, .. }) = (report.skipped(), report);
        Self { state, keys, loaded, absent, present, failed, skipped }
    }
}

/// `GET /admin/cache`: the counts of the cache of this instance since its start.
pub(super) async fn show(State(app): State<App>) -> Json<View> {
    Json(View {
        name: app.stocks.name(),
        degraded: app.stocks.is_degraded(),
        counts: app.stocks.stats(),
        warm_up: app.warm_up.report().into(),
        filter: app.filter.as_ref().map(|filter| filter.stats().into()),
    })
}

/// `DELETE /admin/cache`: voids every value and remembered absence, in Redis and in the memory of every instance, and
/// every load under way. 204 once Redis has confirmed it.
pub(super) async fn clear(State(app): State<App>) -> Result<StatusCode, Problem> {
    app.stocks.clear().await.map_err(|error| Problem::from(&error))?;
    tracing::warn!("an administrator cleared the cache");
    Ok(StatusCode::NO_CONTENT)
}

/// `DELETE /admin/cache/{sku}`: the same for one SKU, whether there is stock of it or not.
pub(super) async fn invalidate(State(app): State<App>, sku: Sku) -> Result<StatusCode, Problem> {
    app.stocks.invalidate(&sku).await.map_err(|error| Problem::from(&error))?;
    tracing::warn!(%sku, "an administrator invalidated a SKU");
    Ok(StatusCode::NO_CONTENT)
}
