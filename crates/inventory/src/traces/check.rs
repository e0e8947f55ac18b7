//! Refuses values of the variables that OpenTelemetry would replace by a default without a word.

use super::variables::value;
use crate::config::ConfigError;

/// Milliseconds and sizes.
const NUMBERS: [&str; 7] = [
    "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
    "OTEL_EXPORTER_OTLP_TIMEOUT",
    "OTEL_BSP_MAX_QUEUE_SIZE",
    "OTEL_BSP_SCHEDULE_DELAY",
    "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
    "OTEL_BSP_EXPORT_TIMEOUT",
    "OTEL_BSP_MAX_CONCURRENT_EXPORTS",
];

const SAMPLER: &str = "OTEL_TRACES_SAMPLER";

const SAMPLERS: [&str; 6] = [
    "always_on",
    "always_off",
    "traceidratio",
    "parentbased_always_on",
    "parentbased_always_off",
    "parentbased_traceidratio",
];

/// Checks the variables that the exporter reads. `endpoint` is the one that names the collector.
pub(super) fn all(endpoint: &str) -> Result<(), ConfigError> {
    one("OTEL_TRACES_EXPORTER", |value| value.eq_ignore_ascii_case("otlp"), "not known", "use otlp or none")?;
    for name in ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"] {
        let remedy = "use http/protobuf, to the collector's port for it, usually 4318";
        one(name, |value| value == "http/protobuf", "not spoken here", remedy)?;
    }
    let is_plain = |value: &str| value.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http://"));
    let remedy =
        "use http://HOST:4318; spans are sent without TLS, so put a collector beside the service that speaks it";
    one(endpoint, is_plain, "not http://", remedy).map_err(|error| ConfigError { value: None, ..error })?;
    for name in NUMBERS {
        let is_number = |value: &str| value.parse::<u64>().is_ok_and(|number| number > 0);
        one(name, is_number, "no whole number above 0", "use digits only; times are milliseconds")?;
    }
    for name in ["OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"] {
        let is_pairs = |value: &str| value.split(',').all(|pair| pair.contains('='));
        let checked = one(name, is_pairs, "no list of headers", "use NAME=VALUE pairs with commas between them");
        checked.map_err(|error| ConfigError { value: None, ..error })?;
    }
    one(SAMPLER, |value| SAMPLERS.contains(&value), "no such sampler", format!("use one of {}", SAMPLERS.join(", ")))?;
    if value(SAMPLER).is_some_and(|sampler| sampler.ends_with("traceidratio")) {
        let is_ratio = |value: &str| value.parse().is_ok_and(|ratio: f64| (0.0..=1.0).contains(&ratio));
        one("OTEL_TRACES_SAMPLER_ARG", is_ratio, "no part of the traces", "use a number from 0 to 1, such as 0.01")?;
    }
    Ok(())
}

fn one(name: &str, fits: impl Fn(&str) -> bool, problem: &str, remedy: impl Into<String>) -> Result<(), ConfigError> {
    match value(name) {
        Some(other) if !fits(&other) => Err(ConfigError::new(name, problem, remedy).with_value(&other)),
        _ => Ok(()),
    }
}
