use stockade::metrics as library;

use super::series::Series;
use crate::metrics;

/// A family of `/metrics`, or the buckets of one, and the labels by which the console tells its series apart.
#[derive(Debug)]
pub(super) struct Family {
    pub(super) name: &'static str,
    pub(super) by: &'static [&'static str],
}

/// A label that the recorder does not have: whether a request reads or writes.
pub(super) const ACCESS: &str = "access";

const fn family(name: &'static str, by: &'static [&'static str]) -> Family {
    Family { name, by }
}

const FAMILIES: &[Family] = &[
    family(metrics::HTTP_REQUESTS, &["status"]),
    family("http_request_duration_seconds_bucket", &[ACCESS, "le"]),
    family(metrics::FENCE_REJECTED, &[]),
    family(metrics::DATABASE_CONNECTIONS, &["state"]),
    family(metrics::DATABASE_CONNECTIONS_MAX, &[]),
    family(metrics::DATABASE_TIMEOUTS, &[]),
    family(metrics::FLASH_ENTRIES, &["outcome"]),
    family(metrics::FLASH_KNOWN, &[]),
    family(metrics::FLASH_STREAM, &[]),
    family(library::LOCK_ACQUISITIONS, &["outcome"]),
    family("stockade_lock_handoff_seconds_bucket", &["le"]),
    family(library::LOCKS_HELD, &["mode"]),
    family(library::LOCK_WAITERS, &[]),
    family(library::LOCK_DELEGATIONS, &[]),
    family(library::LOCK_LOST, &["reason"]),
    family(library::REDIS_ERRORS, &["role"]),
    family(library::REDIS_RECONNECTS, &[]),
    family("stockade_redis_command_seconds_bucket", &["le"]),
    family(library::SUBSCRIPTION_UP, &[]),
    family(library::BREAKER_STATE, &["breaker", "state"]),
    family(library::CACHE_REQUESTS, &["outcome"]),
    family(library::CACHE_LOADS, &["outcome"]),
    family(library::CACHE_LOADS_IN_FLIGHT, &[]),
    family(library::CACHE_LOCAL_STALENESS_BOUND, &[]),
    family(library::CACHE_VOUCHED_FOR, &["cache"]),
    family(library::OUTBOX_LAG, &[]),
    family(library::OUTBOX_REFUSED, &[]),
    family("process_cpu_seconds_total", &[]),
    family("process_resident_memory_bytes", &[]),
    family("process_start_time_seconds", &[]),
];

/// The family that a line of `/metrics` belongs to, if the console shows it.
pub(super) fn find(line: &str) -> Option<&'static Family> {
    let name = line.split(['{', ' ']).next()?;
    FAMILIES.iter().find(|family| family.name == name)
}

/// Whether a request of this series reads stock, writes it, or is neither.
pub(super) fn access(series: &Series<'_>) -> &'static str {
    let route = series.label("route").unwrap_or_default();
    let is_business = ["/stock", "/flash", "/transfers"].iter().any(|prefix| route.starts_with(prefix));
    match series.label("method") {
        Some("GET") if is_business => "read",
        Some("PUT" | "POST" | "DELETE") if is_business => "write",
        _ => "other",
    }
}

/// Whether a series counts probes. Those of an instance that is ending are answered 503, which is no error.
pub(super) fn is_of_a_probe(series: &Series<'_>) -> bool {
    matches!(series.label("route"), Some("/readyz" | "/healthz"))
}
