//! `/healthz` and `/readyz`, on both ports.

use std::{sync::atomic::Ordering, time::Duration};

use axum::{Json, extract::State, http::StatusCode};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    Problem, ProblemType,
    openapi::{self, Endpoint},
};
use crate::app::App;

/// A probe that is answered late is no answer: kubelets give up after a second by default.
const LIMIT: Duration = Duration::from_millis(800);

/// The row of [`live`].
pub(super) fn live_endpoint() -> Endpoint {
    openapi::get(live, "Whether the process runs").json::<Live>(StatusCode::OK, "It does", &[])
}

/// The row of [`ready`].
pub(super) fn ready_endpoint() -> Endpoint {
    openapi::get(ready, "Whether requests should come here")
        .json::<Ready>(StatusCode::OK, "They should", &[])
        .problems([ProblemType::ShuttingDown, ProblemType::DatabaseUnavailable, ProblemType::WarmingUp])
}

/// `GET /healthz`: the process runs. Asks no other server, so that an outage elsewhere restarts no instance.
pub(crate) async fn live() -> Json<Live> {
    Json(Live { status: "ok" })
}

/// The process runs.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Live {
    status: &'static str,
}

/// The state of everything that the instance needs.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Ready {
    /// `ready`, or `degraded` while Redis is away.
    status: &'static str,
    checks: Checks,
}

#[derive(Debug, Serialize, ToSchema)]
struct Checks {
    database: &'static str,
    schema: &'static str,
    lock_store: &'static str,
    cache_store: &'static str,
}

/// `GET /readyz`: whether requests should come here.
///
/// The instance is not ready without its database, or before the warm-up of its cache has ended. It is ready without
/// Redis: reads go on, and taking every instance out of the balancer would turn a degraded service into none.
pub(crate) async fn ready(State(app): State<App>) -> Result<Json<Ready>, Problem> {
    state(&app).await.map(Json)
}

/// The answer of [`ready`].
pub(crate) async fn state(app: &App) -> Result<Ready, Problem> {
    if app.draining.load(Ordering::Acquire) {
        return Err(ProblemType::ShuttingDown.into());
    }
    if !schema(app).await? {
        tracing::error!("the schema is missing or old: run `inventory migrate`");
        return Err(Problem::database_unavailable("its schema is missing or old: run `inventory migrate`"));
    }
    if app.warm_up.is_running() {
        return Err(ProblemType::WarmingUp.into());
    }
    let (locks, cache) = (!app.locks.is_degraded(), !app.stocks.is_degraded());
    let word = |up| if up { "ok" } else { "down" };
    Ok(Ready {
        status: if locks && cache { "ready" } else { "degraded" },
        checks: Checks { database: "ok", schema: "ok", lock_store: word(locks), cache_store: word(cache) },
    })
}

async fn schema(app: &App) -> Result<bool, Problem> {
    let asked = tokio::time::timeout(LIMIT, app.probe.is_current()).await;
    asked.map_or(Err(Problem::database_unavailable("it did not answer in time")), |current| Ok(current?))
}
