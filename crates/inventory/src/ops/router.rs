use axum::{
    Extension, Router,
    extract::State,
    http::header,
    middleware::from_fn_with_state,
    response::IntoResponse,
    routing::{delete, get},
};
use metrics_exporter_prometheus::PrometheusHandle;
use metrics_process::Collector;
use tower::ServiceBuilder;
use tower_http::catch_panic::CatchPanicLayer;

use super::{auth, cache, conservation, locks};
use crate::{
    app::App,
    config::Secret,
    http::{
        health,
        router::{no_method, no_route},
        trace,
    },
    metrics,
};

/// What the operators' port needs beside the state of the service.
#[derive(Clone, Debug)]
pub struct Ops {
    /// What the recorder recorded.
    pub metrics: PrometheusHandle,
    /// The bearer token of the admin routes; without one there are none.
    pub admin_token: Option<Secret>,
}

/// The routes of the operators' port. Its requests are logged, not counted.
pub fn app(app: App, ops: Ops) -> Router {
    let outside = ServiceBuilder::new()
        .layer(from_fn_with_state(trace::Outside::uncounted(app.answers), trace::identify))
        .layer(CatchPanicLayer::custom(trace::panicked))
        .layer(from_fn_with_state(app.limits.request, trace::admit));
    let scrape = get(render).layer(Extension(ops.metrics));
    let admin = ops.admin_token.map(admin).unwrap_or_default();
    Router::new()
        .route("/healthz", get(health::live))
        .route("/readyz", get(health::ready))
        .route("/metrics", scrape)
        .merge(admin)
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(outside)
        .with_state(app)
}

fn admin(token: Secret) -> Router<App> {
    let routes = Router::new()
        .route("/locks", get(locks::list))
        .route("/locks/{resource}", get(locks::show).delete(locks::force))
        .route("/cache", get(cache::show).delete(cache::clear))
        .route("/cache/{sku}", delete(cache::invalidate))
        .route("/conservation", get(conservation::show))
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(from_fn_with_state(token, auth::require));
    Router::new().nest("/admin", routes)
}

async fn render(State(app): State<App>, Extension(recorded): Extension<PrometheusHandle>) -> impl IntoResponse {
    Collector::default().collect();
    metrics::database(&app.pg);
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], recorded.render())
}
