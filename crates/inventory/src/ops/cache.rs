//! `/admin/cache`

use axum::{Json, extract::State, http::StatusCode};
use serde::Serialize;
use serde_json::{Value, json};
use stockade::cache::{CacheStats, WarmState, bloom::BloomStats};

use crate::{app::App, domain::Sku, http::Problem};

#[derive(Debug, Serialize)]
pub(super) struct View {
    name: &'static str,
    degraded: bool,
    #[serde(flatten)]
    counts: CacheStats,
    /// How the warm-up of this instance goes, or went.
    warm_up: Value,
    /// The filter of the SKUs that exist, as this instance saw it last.
    filter: Option<Value>,
}

/// `GET /admin/cache`: the counts of the cache of this instance since its start.
pub(super) async fn show(State(app): State<App>) -> Json<View> {
    let warm_up = app.warm_up.report();
    let state = match warm_up.state {
        WarmState::Running => "running",
        WarmState::Complete => "complete",
        WarmState::TimeUp => "time_up",
        // The service stopped the warm-up, as it does when Redis is away.
        WarmState::Unavailable | WarmState::Cancelled => "unavailable",
        _ => "ended",
    };
    Json(View {
        name: app.stocks.name(),
        degraded: app.stocks.is_degraded(),
        counts: app.stocks.stats(),
        warm_up: json!({
            "state": state,
            "keys": warm_up.keys,
            "loaded": warm_up.loaded,
            "absent": warm_up.absent,
            "present": warm_up.present,
            "failed": warm_up.failed,
            "skipped": warm_up.skipped(),
        }),
        filter: app.filter.as_ref().map(|filter| {
            let BloomStats { ready, keys, expected, .. } = filter.stats();
            json!({ "ready": ready, "keys": keys, "expected": expected })
        }),
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
