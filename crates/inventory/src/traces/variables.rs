use std::env;

const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];

pub(super) fn value(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.trim().is_empty())
}

/// The variable that names a collector, unless another one turns traces off.
pub(super) fn wanted() -> Option<&'static str> {
    let is = |name, off: &str| value(name).is_some_and(|value| value.eq_ignore_ascii_case(off));
    if is("OTEL_SDK_DISABLED", "true") || is("OTEL_TRACES_EXPORTER", "none") {
        return None;
    }
    ENDPOINTS.into_iter().find(|name| value(name).is_some())
}
