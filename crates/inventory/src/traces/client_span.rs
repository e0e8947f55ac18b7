use axum::{body::Bytes, http::Response};
use opentelemetry::propagation::TextMapPropagator;
use opentelemetry_http::HeaderInjector;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use reqwest::RequestBuilder;
use tracing::{Instrument, field};
use tracing_opentelemetry::OpenTelemetrySpanExt;

use super::{TARGET, whole::whole};

/// Sends a request to `route` and reads its answer to the end, within a span, named and filled in as OpenTelemetry asks
/// of a client. The span's `traceparent` goes along.
pub(crate) async fn send(route: &'static str, request: RequestBuilder) -> reqwest::Result<Response<Bytes>> {
    let (client, request) = request.build_split();
    let mut request = request?;
    let method = request.method().as_str();
    let span = tracing::debug_span!(
        target: TARGET,
        "send",
        otel.kind = "client",
        otel.name = format_args!("{method} {route}"),
        otel.status_code = field::Empty,
        error.type = field::Empty,
        http.request.method = method,
        http.response.status_code = field::Empty,
        server.address = request.url().host_str(),
        server.port = request.url().port_or_known_default(),
        url.full = %request.url(),
        url.template = route,
    );
    if span.is_disabled() {
        return whole(&client, request).await;
    }
    let headers = request.headers_mut();
    TraceContextPropagator::new().inject_context(&span.context(), &mut HeaderInjector(headers));
    // A trace that begins here has no state, which is no header rather than an empty one.
    if headers.get("tracestate").is_some_and(|state| state.is_empty()) {
        headers.remove("tracestate");
    }
    let answer = whole(&client, request).instrument(span.clone()).await;
    match &answer {
        Ok(response) => {
            let status = response.status();
            span.record("http.response.status_code", status.as_u16());
            // For the client that sent the request, a refusal is an error too.
            if status.is_client_error() || status.is_server_error() {
                span.record("otel.status_code", "ERROR").record("error.type", status.as_str());
            }
        }
        Err(error) => {
            let kind = if error.is_timeout() { "timeout" } else { "no answer" };
            span.record("otel.status_code", "ERROR").record("error.type", kind);
        }
    }
    answer
}
