use std::time::Duration;

use axum::{Extension, Router, middleware::from_fn_with_state};
use stockade::{
    postgres::GroupCommit,
    route_lock::{OnStoreError, RouteLock},
};
use tower::ServiceBuilder;
use tower_http::catch_panic::CatchPanicLayer;

use super::{
    Problem, ProblemType,
    adjusting::Adjusting,
    adjustments, flash, health,
    json::BODY_LIMIT,
    lab, movements,
    openapi::Api,
    reservations, stock, trace,
    transfers::{self, Transfer},
};
use crate::{
    app::{App, LoggedAnswers},
    domain::Sku,
};

/// The routes of the public port.
///
/// The locks sit innermost, on the methods that exist: a 405 takes no lock. Around them, from the outside: id, span and
/// metrics, panics, the form of the URL and the time limit.
pub fn app(app: App) -> Router {
    // Reads proceed without their lock while its store is away, or when writers keep them from it: they say so then.
    let lock = RouteLock::by::<Sku>(&app.locks)
        .wait(app.limits.lock_wait)
        .read_wait(app.limits.read_wait)
        .body_limit(BODY_LIMIT)
        .on_store_error(OnStoreError::Proceed);
    let lock = if app.shared_reads { lock } else { lock.write() };
    let opening = lock.clone();
    let both = RouteLock::write_all(&app.locks, |transfer: Transfer| transfer.keys())
        .wait(app.limits.lock_wait)
        .body_limit(BODY_LIMIT);
    let adjusting = GroupCommit::new(&app.pg, Adjusting(app.clone()));
    let (answers, limit) = (app.answers, app.limits.request);
    // The one list of routes: the router and the OpenAPI document are made of it.
    let routes = Api::new()
        .route("/stock", stock::collection())
        .locked("/stock/{sku}", stock::member(), |methods| methods.route_layer(lock.clone()))
        .locked("/stock/{sku}/adjustments", [adjustments::endpoint()], |methods| {
            methods.route_layer(lock).layer(Extension(adjusting))
        })
        .route("/stock/{sku}/movements", [movements::endpoint()])
        .locked("/flash/{sku}", [flash::opening()], |methods| methods.route_layer(opening))
        .route("/flash/{sku}", flash::endpoints())
        .route("/flash/{sku}/reservations", [reservations::collection()])
        .route("/flash/{sku}/reservations/{id}", [reservations::member()])
        .locked("/transfers", [transfers::endpoint()], |methods| methods.route_layer(both))
        .route("/healthz", [health::live_endpoint()])
        .route("/readyz", [health::ready_endpoint()]);
    let routes = if app.lab.is_some() { with_lab(routes) } else { routes };
    let routes = routes.finish().fallback(no_route).method_not_allowed_fallback(no_method).with_state(app);
    around(routes, answers, limit)
}

fn with_lab(routes: Api) -> Api {
    routes
        .route("/lab", [lab::list_endpoint()])
        .route("/lab/{scheme}", lab::endpoints())
        .route("/lab/{scheme}/sales", [lab::sale_endpoint()])
}

/// The layers around every request of the public port: the log of answers, and the limit for the whole request. Public,
/// so that a benchmark can tell the cost of the layers from that of a handler.
pub fn around<S: Clone + Send + Sync + 'static>(
    routes: Router<S>,
    answers: LoggedAnswers,
    limit: Duration,
) -> Router<S> {
    let outside = ServiceBuilder::new()
        .layer(from_fn_with_state(trace::Outside::counted(answers), trace::identify))
        .layer(CatchPanicLayer::custom(trace::panicked))
        .layer(from_fn_with_state(limit, trace::admit));
    routes.layer(outside)
}

/// The answer where there is no route.
pub(crate) async fn no_route() -> Problem {
    Problem::not_found("there is no such route")
}

/// The answer where there is a route, but not for this method. `Allow` is added by the router.
pub(crate) async fn no_method() -> Problem {
    ProblemType::MethodNotAllowed.into()
}
