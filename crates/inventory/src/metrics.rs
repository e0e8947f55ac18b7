//! The service's own metrics: names, closed label sets, and the recorder. The library's are in [`stockade::metrics`].

use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use sqlx::PgPool;

use crate::domain::Kind;

/// Movements asked for, by kind and outcome; the two of a transfer count as one.
pub const MOVEMENTS: &str = "inventory_movements_total";
/// Writes that the fence refused.
pub const FENCE_REJECTED: &str = "inventory_fence_rejected_total";
/// Requests answered, by method, route and status.
pub const HTTP_REQUESTS: &str = "http_requests_total";
/// From the request's head to the response's, seconds.
pub const HTTP_DURATION: &str = "http_request_duration_seconds";
/// Requests being answered, by route.
pub const HTTP_IN_FLIGHT: &str = "http_requests_in_flight";

/// Connections to the database that this process has open, by state.
pub const DATABASE_CONNECTIONS: &str = "inventory_database_connections";
/// How many it may have open.
pub const DATABASE_CONNECTIONS_MAX: &str = "inventory_database_connections_max";
/// Times that no connection was free within DATABASE_ACQUIRE_TIMEOUT.
pub const DATABASE_TIMEOUTS: &str = "inventory_database_timeouts_total";

/// Every metric name of this crate, those of the process itself included.
pub const NAMES: &[&str] = &[
    MOVEMENTS,
    FENCE_REJECTED,
    HTTP_REQUESTS,
    HTTP_DURATION,
    HTTP_IN_FLIGHT,
    DATABASE_CONNECTIONS,
    DATABASE_CONNECTIONS_MAX,
    DATABASE_TIMEOUTS,
    "process_cpu_seconds_total",
    "process_max_fds",
    "process_open_fds",
    "process_resident_memory_bytes",
    "process_start_time_seconds",
    "process_threads",
    "process_virtual_memory_bytes",
    "process_virtual_memory_max_bytes",
];

/// What became of a movement that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// In the ledger.
    Applied,
    /// Refused on business grounds.
    Refused,
    /// Answered from an earlier request with the same Idempotency-Key.
    Replayed,
}

impl Outcome {
    fn as_str(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Refused => "refused",
            Self::Replayed => "replayed",
        }
    }
}

/// Counts a movement.
pub fn movement(kind: Kind, outcome: Outcome) {
    counter!(MOVEMENTS, "kind" => kind.as_str(), "outcome" => outcome.as_str()).increment(1);
}

/// Counts a write that the fence refused.
pub fn fence_rejected() {
    counter!(FENCE_REJECTED).increment(1);
}

/// Counts a statement that got no connection in time.
pub fn database_timed_out() {
    counter!(DATABASE_TIMEOUTS).increment(1);
}

/// Shows what the pool of the database looks like now. To be called before each scrape.
pub fn database(pool: &PgPool) {
    let (open, idle) = (pool.size(), u32::try_from(pool.num_idle()).unwrap_or(u32::MAX));
    // Both are read while others change them.
    for (state, count) in [("idle", idle.min(open)), ("busy", open.saturating_sub(idle))] {
        gauge!(DATABASE_CONNECTIONS, "state" => state).set(f64::from(count));
    }
    gauge!(DATABASE_CONNECTIONS_MAX).set(f64::from(pool.options().get_max_connections()));
}

/// Shows the requests of a route that are answered as they should be, before the first.
pub(crate) fn announce_route(method: &'static str, route: &'static str, status: u16) {
    let labels = [("method", method.to_owned()), ("route", route.to_owned()), ("status", status.to_string())];
    counter!(HTTP_REQUESTS, &labels).increment(0);
    let _ = histogram!(HTTP_DURATION, &labels);
}

/// Installs the recorder of this process and describes every metric. To be called before any lock or cache is built:
/// they may keep handles of what was installed then.
///
/// # Errors
///
/// When a recorder is installed already.
pub fn install() -> Result<PrometheusHandle, BuildError> {
    let handle = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &stockade::metrics::BUCKETS)?
        .install_recorder()?;
    stockade::metrics::describe();
    stockade::metrics::build_info();
    metrics_process::Collector::default().describe();
    describe_counter!(MOVEMENTS, "Movements asked for, by kind and outcome; the two of a transfer count as one.");
    describe_counter!(FENCE_REJECTED, "Writes that the fence refused.");
    describe_counter!(HTTP_REQUESTS, "Requests answered, by method, route and status.");
    describe_histogram!(HTTP_DURATION, Unit::Seconds, "From the request's head to the response's, seconds.");
    describe_gauge!(HTTP_IN_FLIGHT, "Requests being answered, by route.");
    describe_gauge!(DATABASE_CONNECTIONS, "Connections to the database that this process has open, by state.");
    describe_gauge!(DATABASE_CONNECTIONS_MAX, "How many connections to the database this process may have open.");
    describe_counter!(DATABASE_TIMEOUTS, "Times that no connection was free within DATABASE_ACQUIRE_TIMEOUT.");
    // A counter that is absent until its first event looks like zero to nobody: `rate()` misses that event.
    counter!(FENCE_REJECTED).increment(0);
    counter!(DATABASE_TIMEOUTS).increment(0);
    for kind in [Kind::Set, Kind::Adjustment, Kind::Delete, Kind::Transfer] {
        for outcome in [Outcome::Applied, Outcome::Refused, Outcome::Replayed] {
            counter!(MOVEMENTS, "kind" => kind.as_str(), "outcome" => outcome.as_str()).increment(0);
        }
    }
    Ok(handle)
}
