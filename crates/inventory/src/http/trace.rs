//! The outermost layers: the id and the span of a request, its problem document, its metrics, its time limit.

use std::{borrow::Cow, time::Duration};

use axum::{
    body::{Body, HttpBody},
    extract::{Request, State},
    http::{HeaderName, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use stockade::route_lock::LockWait;
use tokio::time::Instant;
use tracing::{Instrument, Span, field};

use super::{
    Problem, ProblemType,
    idempotency::WrittenProblem,
    measure::Routes,
    path,
    request_id::{REQUEST_ID, RequestId, TraceParent},
};
use crate::{app::LoggedAnswers, millis::millis, traces};

const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");

/// The settings of the outermost layer.
#[derive(Clone)]
pub(crate) struct Outside {
    answers: LoggedAnswers,
    /// `None` where requests are not counted.
    routes: Option<Routes>,
}

impl Outside {
    pub(crate) fn counted(answers: LoggedAnswers) -> Self {
        Self { answers, routes: Some(Routes::default()) }
    }

    pub(crate) fn uncounted(answers: LoggedAnswers) -> Self {
        Self { answers, routes: None }
    }
}

/// Gives the request its id and its span, measures it, and sees that every error leaves as a problem document with that
/// id.
///
/// This is one layer rather than several, because each layer costs every request some allocations.
pub(crate) async fn identify(
    State(Outside { answers, routes }): State<Outside>,
    mut request: Request,
    next: Next,
) -> Response {
    let started = Instant::now();
    let measured = routes.map(|routes| routes.start(&request));
    let id = RequestId::of(request.headers());
    let span = span(&request, &id);
    let server = traces::server_span(&request, id.as_str(), &span);
    let head = request.method() == Method::HEAD;
    request.extensions_mut().insert(id.clone());
    let answered = async {
        let response = next.run(request).await;
        if let Some(measured) = measured {
            measured.finish(response.status());
        }
        let (mut response, problem) = finish(response, &id, head);
        if let Some(value) = id.header() {
            response.headers_mut().insert(REQUEST_ID, value);
        }
        log(&response, problem.as_deref(), started.elapsed(), answers);
        response
    };
    traces::within(&server, answered).instrument(span).await
}

/// Writes the log line of a request: the status, and the problem if there is one.
fn log(response: &Response, problem: Option<&str>, elapsed: Duration, answers: LoggedAnswers) {
    let (status, elapsed_ms) = (response.status(), millis(elapsed));
    let lock_wait_ms = response.extensions().get().map(|LockWait(wait)| millis(*wait));
    let cache_status = response.headers().get(CACHE_STATUS).and_then(|value| value.to_str().ok());
    macro_rules! answered {
        ($level:ident) => {
            tracing::$level!(status = status.as_u16(), elapsed_ms, problem, lock_wait_ms, cache_status, "answered")
        };
    }
    if status.is_server_error() {
        answered!(warn);
    } else if answers == LoggedAnswers::All || !(status.is_success() || status == StatusCode::NOT_MODIFIED) {
        answered!(info);
    } else {
        answered!(debug);
    }
}

fn span(request: &Request, id: &RequestId) -> Span {
    // The path is logged as it came, percent-encoded: nothing in it can break a line.
    // The span is at level `error`, so that no filter takes the id from the lines that it lets through.
    let span = tracing::error_span!(
        "request",
        method = %request.method(),
        path = request.uri().path(),
        request_id = %id,
        trace_id = field::Empty,
        parent_id = field::Empty,
    );
    if let Some(parent) = TraceParent::of(request.headers()) {
        span.record("trace_id", parent.trace_id);
        span.record("parent_id", parent.parent_id);
    }
    span
}

/// Writes the request's id into a problem, and turns an error of another layer into a problem. Returns the type of the
/// problem for the log.
fn finish(mut response: Response, id: &RequestId, head: bool) -> (Response, Option<Cow<'static, str>>) {
    let problem = response.extensions_mut().remove::<Problem>().or_else(|| foreign(&response));
    let Some(problem) = problem else {
        let written = response.extensions_mut().remove().map(|WrittenProblem(name)| name.into());
        return (response, written);
    };
    let wait: Option<LockWait> = response.extensions_mut().remove();
    let mut answer = problem.answer(Some(id));
    // Headers of the layer below stay, such as Allow, Fencing-Token and Cache-Status.
    for name in response.headers().keys() {
        if !answer.headers().contains_key(name) && name != header::CONTENT_LENGTH && name != header::TRANSFER_ENCODING {
            let values = response.headers().get_all(name).iter();
            answer.headers_mut().extend(values.map(|value| (name.clone(), value.clone())));
        }
    }
    if head {
        let length = answer.body().size_hint().exact().unwrap_or_default();
        answer.headers_mut().insert(header::CONTENT_LENGTH, length.into());
        *answer.body_mut() = Body::empty();
    }
    if let Some(wait) = wait {
        answer.extensions_mut().insert(wait);
    }
    (answer, Some(problem.name().into()))
}

/// The problem for an error response that is none of ours: axum's own, or one of a layer that knows no problems.
fn foreign(response: &Response) -> Option<Problem> {
    let status = response.status();
    let ours = response.headers().get(header::CONTENT_TYPE) == Some(&HeaderValue::from_static(Problem::MEDIA_TYPE));
    if ours || !(status.is_client_error() || status.is_server_error()) {
        return None;
    }
    let problem_type = match status {
        StatusCode::UNAUTHORIZED => ProblemType::Unauthorized,
        StatusCode::NOT_FOUND => ProblemType::NotFound,
        StatusCode::METHOD_NOT_ALLOWED => ProblemType::MethodNotAllowed,
        StatusCode::REQUEST_TIMEOUT => ProblemType::BodyTimeout,
        StatusCode::PAYLOAD_TOO_LARGE => ProblemType::BodyTooLarge,
        StatusCode::UNSUPPORTED_MEDIA_TYPE => ProblemType::UnsupportedMediaType,
        StatusCode::UNPROCESSABLE_ENTITY => ProblemType::Unprocessable,
        StatusCode::SERVICE_UNAVAILABLE => ProblemType::LoadShed,
        status if status.is_client_error() => ProblemType::BadRequest,
        status => {
            tracing::error!(%status, "an error response came from outside the service's own code");
            ProblemType::Internal
        }
    };
    Some(problem_type.into())
}

/// Refuses a request whose URL is malformed, and ends one that takes longer than `limit`. A read is dropped. A write
/// under a route lock goes on detached, so its outcome is unknown.
pub(crate) async fn admit(State(limit): State<Duration>, request: Request, next: Next) -> Response {
    if let Err(problem) = path::well_formed(request.uri()) {
        return problem.into_response();
    }
    let safe = request.method().is_safe();
    match tokio::time::timeout(limit, next.run(request)).await {
        Ok(response) => response,
        Err(_) if safe => Problem::from(ProblemType::LoadShed).into_response(),
        Err(_) => Problem::from(ProblemType::OutcomeUnknown).into_response(),
    }
}

/// The answer to a request whose handler panicked. The panic hook has logged the message by then.
pub(crate) fn panicked(_payload: Box<dyn std::any::Any + Send + 'static>) -> Response {
    tracing::error!("a handler panicked");
    Problem::from(ProblemType::Internal).into_response()
}

#[cfg(test)]
mod tests {
    use axum::{
        Router,
        body::to_bytes,
        http::request,
        middleware::from_fn_with_state,
        response::AppendHeaders,
        routing::{get, post},
    };
    use tower::{ServiceBuilder, ServiceExt};
    use tower_http::catch_panic::CatchPanicLayer;

    use super::*;

    async fn panics() -> StatusCode {
        panic!("postgres://stock:hunter2@db/stock is gone")
    }

    async fn forever() {
        std::future::pending().await
    }

    async fn answer(request: request::Builder) -> (Response, serde_json::Value) {
        let layers = ServiceBuilder::new()
            .layer(from_fn_with_state(Outside::counted(LoggedAnswers::All), identify))
            .layer(CatchPanicLayer::custom(panicked))
            .layer(from_fn_with_state(Duration::from_secs(10), admit));
        let router = Router::new()
            .route("/panics", get(panics))
            .route("/forever", post(forever).get(forever))
            .route("/foreign", get(async || (StatusCode::BAD_GATEWAY, "connect to 10.0.0.7 failed")))
            .route("/teapot", get(async || StatusCode::IM_A_TEAPOT))
            .route(
                "/several",
                get(async || {
                    (AppendHeaders([("link", "</a>"), ("link", "</b>")]), Problem::from(ProblemType::Internal))
                }),
            )
            .route("/fine", get(async || "fine"))
            .layer(layers);
        let response = router.oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = to_bytes(body, usize::MAX).await.unwrap();
        let document = serde_json::from_slice(&bytes).unwrap_or(serde_json::Value::Null);
        (Response::from_parts(parts, Body::from(bytes)), document)
    }

    #[tokio::test(start_paused = true)]
    async fn every_error_leaves_as_a_problem_with_the_id_of_its_request_and_nothing_else() {
        for (method, path, status, name) in [
            ("GET", "/panics", 500, "internal"),
            ("GET", "/foreign", 500, "internal"),
            ("GET", "/teapot", 400, "bad-request"),
            ("GET", "/nowhere", 404, "not-found"),
            ("PUT", "/fine", 405, "method-not-allowed"),
            ("GET", "/forever", 503, "load-shed"),
            ("POST", "/forever", 503, "outcome-unknown"),
        ] {
            let request = Request::builder().method(method).uri(path).header("x-request-id", "mine");
            let (response, document) = answer(request).await;
            assert_eq!(response.status(), status, "{path}");
            assert_eq!(response.headers()[header::CONTENT_TYPE], Problem::MEDIA_TYPE, "{path}");
            assert_eq!(response.headers()["x-request-id"], "mine", "{path}");
            assert_eq!(document["type"], format!("/problems/{name}"), "{path}");
            assert_eq!(document["request_id"], "mine", "{path}");
            assert_eq!(response.headers().contains_key(header::ALLOW), status == 405, "{path}");
            assert!(
                !document.to_string().contains("10.0.0.7") && !document.to_string().contains("hunter2"),
                "{document}"
            );
        }
    }

    #[tokio::test]
    async fn a_problem_keeps_every_value_of_a_header_beside_it() {
        let (response, _) = answer(Request::builder().uri("/several")).await;
        assert_eq!(response.headers().get_all("link").iter().collect::<Vec<_>>(), ["</a>", "</b>"]);
    }

    #[tokio::test]
    async fn an_answer_that_is_no_error_passes_as_it_is() {
        let (response, _) = answer(Request::builder().uri("/fine")).await;
        assert_eq!(response.status(), 200);
        assert_eq!(to_bytes(response.into_body(), 10).await.unwrap(), "fine");
    }
}
