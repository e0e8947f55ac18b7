//! `/admin/cache`

use axum::{Json, extract::State, http::StatusCode};
use serde::Serialize;
use stockade::cache::{WarmReport, WarmState, bloom::BloomStats};

use crate::{app::App, domain::Sku, http::Problem};

#[derive(Debug, Serialize)]
pub(super) struct View {
    name: &'static str,
    degraded: bool,
    /// Whether values in Redis are trusted. They always are, except after a restart of Redis with `CACHE_MODE=strict`.
    vouched_for: bool,
    hits_local: u64,
    hits_redis: u64,
    stale: u64,
    null: u64,
    bloom_reject: u64,
    load: u64,
    collapsed: u64,
    shed: u64,
    error: u64,
    loads_ok: u64,
    loads_absent: u64,
    loads_error: u64,
    loads_timeout: u64,
    loads_cancelled: u64,
    loads_in_flight: u64,
    reads_in_tx: u64,
    fill_rejected: u64,
    payloads_refused: u64,
    fetching: usize,
    local_entries: usize,
    local_weight: u64,
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
    let stats = app.stocks.stats();
    Json(View {
        name: app.stocks.name(),
        degraded: app.stocks.is_degraded(),
        vouched_for: stats.vouched_for,
        hits_local: stats.hits_local,
        hits_redis: stats.hits_redis,
        stale: stats.stale,
        null: stats.null,
        bloom_reject: stats.bloom_reject,
        load: stats.load,
        collapsed: stats.collapsed,
        shed: stats.shed,
        error: stats.error,
        loads_ok: stats.loads_ok,
        loads_absent: stats.loads_absent,
        loads_error: stats.loads_error,
        loads_timeout: stats.loads_timeout,
        loads_cancelled: stats.loads_cancelled,
        loads_in_flight: stats.loads_in_flight,
        reads_in_tx: stats.reads_in_tx,
        fill_rejected: stats.fill_rejected,
        payloads_refused: stats.payloads_refused,
        fetching: stats.fetching,
        local_entries: stats.local_entries,
        local_weight: stats.local_weight,
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
