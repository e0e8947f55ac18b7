use axum::{
    Extension, Router, extract::State, http::header, middleware::from_fn_with_state, response::IntoResponse,
    routing::get,
};
use metrics_exporter_prometheus::PrometheusHandle;
use tower::ServiceBuilder;
use tower_http::catch_panic::CatchPanicLayer;

use super::{
    attacks, auth, cache, cache_entry, conservation,
    console::{self, Feeds, Sampler},
    lock_log::{self, LockLog},
    locks, stock,
};
use crate::{
    app::App,
    config::Secret,
    fleet::Fleet,
    http::{
        health, movements,
        router::{no_method, no_route},
        trace,
    },
    metrics,
};

/// The state of the operators' port, apart from that of the service.
#[derive(Clone, Debug)]
pub struct Ops {
    /// The metrics of the recorder.
    metrics: PrometheusHandle,
    /// The bearer token of the admin routes; without one there are none.
    admin_token: Option<Secret>,
    /// Snapshots for the console.
    feeds: Feeds,
    lock_log: LockLog,
    fleet: Fleet,
}

impl Ops {
    /// The state of the routes, and the console's sampler, which must run. Without a token there are no admin routes.
    #[must_use]
    pub fn new(
        app: App,
        metrics: PrometheusHandle,
        admin_token: Option<Secret>,
        lock_log: LockLog,
        fleet: Fleet,
    ) -> (Self, Sampler) {
        let (feeds, sampler) = Sampler::new(app, metrics.clone(), fleet.clone(), admin_token.is_some());
        (Self { metrics, admin_token, feeds, lock_log, fleet }, sampler)
    }
}

/// The routes of the operators' port. Its requests are logged, not counted.
pub fn app(app: App, ops: Ops) -> Router {
    let outside = ServiceBuilder::new()
        .layer(from_fn_with_state(trace::Outside::uncounted(app.answers), trace::identify))
        .layer(CatchPanicLayer::custom(trace::panicked))
        .layer(from_fn_with_state(app.limits.request, trace::admit));
    let scrape = get(render).layer(Extension(ops.metrics));
    let admin = ops.admin_token.map(|token| admin(token, ops.lock_log, ops.fleet)).unwrap_or_default();
    Router::new()
        .route("/healthz", get(health::live))
        .route("/readyz", get(health::ready))
        .route("/metrics", scrape)
        .route("/console/events", get(console::events).layer(Extension(ops.feeds.own)))
        .route("/console/fleet", get(console::events).layer(Extension(ops.feeds.all)))
        .merge(console::routes())
        .merge(admin)
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(outside)
        .with_state(app)
}

fn admin(token: Secret, lock_log: LockLog, fleet: Fleet) -> Router<App> {
    let routes = Router::new()
        .route("/locks", get(locks::list))
        .route("/locks/events", get(lock_log::events))
        .route("/locks/{resource}", get(locks::show).delete(locks::force))
        .route("/cache", get(cache::show).delete(cache::clear))
        .route("/cache/{sku}", get(cache_entry::show).delete(cache::invalidate))
        .route("/attacks", get(attacks::list).delete(attacks::stop))
        .route("/attacks/{attack}", get(attacks::show).post(attacks::start))
        .route("/conservation", get(conservation::show))
        .route("/stock", get(stock::search))
        .route("/stock/{sku}/movements", get(movements::list))
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(Extension(lock_log))
        .layer(Extension(fleet))
        .layer(from_fn_with_state(token, auth::require));
    Router::new().nest("/admin", routes)
}

async fn render(State(app): State<App>, Extension(recorded): Extension<PrometheusHandle>) -> impl IntoResponse {
    // Once balancers have taken every instance out, no request is left to count, and only this gauge tells of it.
    metrics::ready(health::state(&app).await.is_ok());
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], metrics::page(&app.pg, &recorded))
}
