//! `/admin/cache/{sku}`

use axum::{Json, extract::State};
use serde_json::{Value, json};
use stockade::cache::{Inspection, Kept, Tier};

use crate::{app::App, domain::Sku, http::Problem, millis::millis};

/// `GET /admin/cache/{sku}`: where the value is, how old it is, and whether it is being loaded. It loads nothing.
///
/// `local` is the memory of this instance, `redis` serves all. `fetching`: by this instance, from Redis or by a load.
/// `lease_ms`: how long the lease of a load by any instance still lasts.
pub(super) async fn show(State(app): State<App>, sku: Sku) -> Result<Json<Value>, Problem> {
    let Inspection { local, redis, fetching, lease, .. } =
        app.stocks.inspect(&sku).await.map_err(|error| Problem::from(&error))?;
    Ok(Json(json!({
        "sku": sku,
        "local": shown(local),
        "redis": shown(redis),
        "fetching": fetching,
        "lease_ms": lease.map(millis),
    })))
}

/// `absent`: the cached value is the absence of the SKU. `stale_ms`: how long ago it expired.
fn shown(tier: Tier) -> Value {
    match tier {
        Tier::Empty => json!({ "state": "empty" }),
        Tier::Kept(Kept { absent, age, ttl, stale, took, version, tags, .. }) => json!({
            "state": "kept",
            "absent": absent,
            "age_ms": millis(age),
            "ttl_ms": millis(ttl),
            "stale_ms": stale.map(millis),
            "load_ms": millis(took),
            "version": version,
            "tags": tags,
        }),
        Tier::Unreadable => json!({ "state": "unreadable" }),
        _ => json!({ "state": "unavailable" }),
    }
}
