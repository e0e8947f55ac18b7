//! `/admin/cache/{sku}`

use axum::{Json, extract::State};
use serde::Serialize;
use stockade::cache::{Inspection, Kept, Tier};

use crate::{app::App, domain::Sku, http::Problem, millis::millis};

#[derive(Debug, Serialize)]
pub(super) struct View {
    sku: Sku,
    /// In the memory of this instance.
    local: TierView,
    /// In Redis, for all instances.
    redis: TierView,
    /// Whether this instance is fetching it, from Redis or by a load.
    fetching: bool,
    /// How long the lease of a load by any instance still lasts.
    lease_ms: Option<u64>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
enum TierView {
    Empty,
    Kept(KeptView),
    Unreadable,
    Unavailable,
}

#[derive(Debug, Serialize)]
struct KeptView {
    /// Whether the cached value is the absence of the SKU.
    absent: bool,
    age_ms: u64,
    ttl_ms: u64,
    /// How long ago it expired.
    stale_ms: Option<u64>,
    load_ms: u64,
    version: Option<u64>,
    tags: Vec<String>,
}

impl From<Tier> for TierView {
    fn from(tier: Tier) -> Self {
        match tier {
            Tier::Empty => Self::Empty,
            Tier::Kept(kept) => Self::Kept(kept.into()),
            Tier::Unreadable => Self::Unreadable,
            _ => Self::Unavailable,
        }
    }
}

impl From<Kept> for KeptView {
    fn from(kept: Kept) -> Self {
        let Kept { absent, age, ttl, stale, took, version, tags, .. } = kept;
        let (age_ms, ttl_ms, load_ms) = (millis(age), millis(ttl), millis(took));
        Self { absent, age_ms, ttl_ms, stale_ms: stale.map(millis), load_ms, version, tags }
    }
}

/// `GET /admin/cache/{sku}`: where the value is, how old it is, and whether it is being loaded. It loads nothing.
pub(super) async fn show(State(app): State<App>, sku: Sku) -> Result<Json<View>, Problem> {
    let Inspection { local, redis, fetching, lease, .. } =
        app.stocks.inspect(&sku).await.map_err(|error| Problem::from(&error))?;
    Ok(Json(View { sku, local: local.into(), redis: redis.into(), fetching, lease_ms: lease.map(millis) }))
}
