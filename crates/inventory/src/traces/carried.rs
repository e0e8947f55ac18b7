use std::collections::HashMap;

use opentelemetry::{propagation::TextMapPropagator, trace::TraceContextExt};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// The name of the W3C header, which is the key in a carrier too.
const TRACEPARENT: &str = "traceparent";

/// The `traceparent` of this span, for work that goes on without it. `None` if spans are not exported.
pub(crate) fn traceparent() -> Option<String> {
    let mut carrier = HashMap::new();
    TraceContextPropagator::new().inject_context(&Span::current().context(), &mut carrier);
    carrier.remove(TRACEPARENT)
}

/// Links this span to the spans that asked for its work: to the first 128, since a span has no more links.
pub(crate) fn link<'a>(traceparents: impl Iterator<Item = &'a str>) {
    let span = Span::current();
    for traceparent in traceparents {
        let carrier = HashMap::from([(TRACEPARENT.to_owned(), traceparent.to_owned())]);
        let asked = TraceContextPropagator::new().extract(&carrier).span().span_context().clone();
        if asked.is_valid() {
            span.add_link(asked);
        }
    }
}
