use axum::{
    extract::{MatchedPath, Request},
    http::Method,
    response::Response,
};
use opentelemetry::{propagation::TextMapPropagator, trace::TraceContextExt};
use opentelemetry_http::HeaderExtractor;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::{Instrument, Span, field};
use tracing_opentelemetry::OpenTelemetrySpanExt;

use super::TARGET;

/// The methods that a span may be named by. A client may send any word.
const METHODS: [Method; 9] = [
    Method::GET,
    Method::HEAD,
    Method::POST,
    Method::PUT,
    Method::PATCH,
    Method::DELETE,
    Method::OPTIONS,
    Method::CONNECT,
    Method::TRACE,
];

/// The span of a request for the collector, named and filled in as OpenTelemetry asks of a server. It goes on with the
/// trace of the caller. `logged` is the span of the same request in the log. It gets the id of a trace that begins
/// here.
pub(crate) fn server_span(request: &Request, id: &str, logged: &Span) -> Span {
    let route = request.extensions().get().map(MatchedPath::as_str);
    let known = METHODS.contains(request.method()).then(|| request.method().as_str());
    let span = tracing::debug_span!(
        target: TARGET,
        parent: logged,
        "request",
        otel.kind = "server",
        otel.name = field::Empty,
        otel.status_code = field::Empty,
        http.request.method = known.unwrap_or("_OTHER"),
        http.request.method_original = known.is_none().then(|| request.method().as_str()),
        http.route = route,
        http.response.status_code = field::Empty,
        error.type = field::Empty,
        url.path = request.uri().path(),
        url.scheme = "http",
        request_id = id,
    );
    if span.is_disabled() {
        return span;
    }
    let method = known.unwrap_or("HTTP");
    span.record("otel.name", route.map_or_else(|| method.to_owned(), |route| format!("{method} {route}")));
    let parent = TraceContextPropagator::new().extract(&HeaderExtractor(request.headers()));
    let begins_here = !parent.span().span_context().is_valid();
    if let Err(error) = span.set_parent(parent) {
        tracing::debug!(%error, "a trace begins here");
    }
    if begins_here {
        let trace = span.context().span().span_context().trace_id();
        logged.record("trace_id", field::display(trace));
    }
    span
}

/// Makes an answer within the span of its request.
pub(crate) fn within(server: &Span, answer: impl Future<Output = Response>) -> impl Future<Output = Response> {
    let span = server.clone();
    let answer = answer.instrument(server.clone());
    async move {
        let response = answer.await;
        let status = response.status();
        span.record("http.response.status_code", status.as_u16());
        if status.is_server_error() {
            span.record("otel.status_code", "ERROR");
            span.record("error.type", status.as_str());
        }
        response
    }
}
