//! The service's own metrics: names, closed label sets, and the recorder. The library's are in [`stockade::metrics`].

use std::time::Duration;

use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use sqlx::PgPool;

use crate::domain::Kind;

macro_rules! names {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal;)+) => {
        $($(#[doc = $doc])+ pub const $name: &str = $text;)+

        /// Every metric name of this crate, those of the process itself included.
        pub const NAMES: &[&str] = &[
            $($name,)+
            "process_cpu_seconds_total",
            "process_max_fds",
            "process_open_fds",
            "process_resident_memory_bytes",
            "process_start_time_seconds",
            "process_threads",
            "process_virtual_memory_bytes",
            "process_virtual_memory_max_bytes",
        ];

        /// Describes every metric of this crate. The end of its name tells its kind.
        fn describe() {
            $(describe_one($name, concat!($($doc),+).trim());)+
        }
    };
}

names! {
    /// Movements asked for, by kind and outcome; the two of a transfer count as one.
    MOVEMENTS = "inventory_movements_total";
    /// Writes that the fence refused.
    FENCE_REJECTED = "inventory_fence_rejected_total";
    /// Requests answered, by method, route and status.
    HTTP_REQUESTS = "http_requests_total";
    /// From the request's head to the response's, seconds.
    HTTP_DURATION = "http_request_duration_seconds";
    /// Requests being answered, by route.
    HTTP_IN_FLIGHT = "http_requests_in_flight";
    /// 1 while `/readyz` answers 200; else 0.
    READY = "inventory_ready";
    /// Connections to the database that this process has open, by state.
    DATABASE_CONNECTIONS = "inventory_database_connections";
    /// How many connections to the database this process may have open.
    DATABASE_CONNECTIONS_MAX = "inventory_database_connections_max";
    /// Times that no connection was to be had within DATABASE_ACQUIRE_TIMEOUT.
    DATABASE_TIMEOUTS = "inventory_database_timeouts_total";
    /// Requests for a flash reservation, by outcome.
    FLASH_RESERVATIONS = "inventory_flash_reservations_total";
    /// Entries of the streams of flash sales, by what became of them.
    FLASH_ENTRIES = "inventory_flash_entries_total";
    /// 1 once this process has read from the database which flash sales there are; else 0.
    FLASH_KNOWN = "inventory_flash_known";
    /// Entries left in the streams of the flash sales that are not closed. Not shown before these are known.
    FLASH_STREAM = "inventory_flash_stream_entries";
    /// From a flash reservation to its row in the database, seconds.
    FLASH_LAG = "inventory_flash_lag_seconds";
}

fn describe_one(name: &'static str, text: &'static str) {
    if name.ends_with("_total") {
        describe_counter!(name, text);
    } else if name.ends_with("_seconds") {
        describe_histogram!(name, Unit::Seconds, text);
    } else {
        describe_gauge!(name, text);
    }
}

/// A closed set of labels: its values and their texts.
macro_rules! labels {
    ($(#[$about:meta])* $name:ident { $($(#[$meaning:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$meaning])* $variant,)*
        }

        impl $name {
            const ALL: &'static [Self] = &[$(Self::$variant),*];

            fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }
    };
}

labels! {
    /// The outcome of a request for a movement.
    Outcome {
        /// In the ledger.
        Applied = "applied",
        /// Refused on business grounds.
        Refused = "refused",
        /// Answered from an earlier request with the same Idempotency-Key.
        Replayed = "replayed",
    }
}

labels! {
    /// The outcome of a request for a flash reservation.
    FlashOutcome {
        /// Made.
        Reserved = "reserved",
        /// Made before, and answered again.
        Replayed = "replayed",
        /// Fewer units were left.
        SoldOut = "sold_out",
        /// The customer would have too many units.
        LimitReached = "limit_reached",
        /// The sale had ended.
        SaleClosed = "sale_closed",
        /// Too many waited for the database, or the counter was being made.
        Shed = "shed",
        /// The client went away, or the time was up: it may have been made.
        Cancelled = "cancelled",
        /// Everything else.
        Error = "error",
    }
}

labels! {
    /// The outcome of an entry of a stream.
    FlashFate {
        /// Stored.
        Stored = "stored",
        /// Not stored: its units are gone, or its counter was replaced.
        Rejected = "rejected",
        /// The entry was stored or rejected before, and was still in the stream.
        Repeated = "repeated",
        /// The entry can't be stored: a dead letter.
        Dead = "dead",
    }
}

/// Counts a request for a flash reservation.
pub fn flash_reservation(outcome: FlashOutcome) {
    counter!(FLASH_RESERVATIONS, "outcome" => outcome.as_str()).increment(1);
}

/// Counts an entry of a stream that is decided.
pub fn flash_entry(fate: FlashFate) {
    counter!(FLASH_ENTRIES, "outcome" => fate.as_str()).increment(1);
}

/// Counts entries that were decided before, and have left their stream.
pub fn flash_repeated(entries: u64) {
    counter!(FLASH_ENTRIES, "outcome" => FlashFate::Repeated.as_str()).increment(entries);
}

/// Shows how many entries wait in the streams, once it is known which streams there are.
pub fn flash_stream(entries: i64) {
    gauge!(FLASH_KNOWN).set(1);
    gauge!(FLASH_STREAM).set(f64::from(i32::try_from(entries).unwrap_or(i32::MAX)));
}

/// Notes how long it took to store a reservation.
pub fn flash_lag(lag: Duration) {
    histogram!(FLASH_LAG).record(lag);
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

/// Shows whether requests should come here.
pub(crate) fn ready(is_ready: bool) {
    gauge!(READY).set(f64::from(u8::from(is_ready)));
}

/// All metrics in the text format of Prometheus. Metrics of the process and of the database pool are read now.
pub(crate) fn page(pool: &PgPool, recorded: &PrometheusHandle) -> String {
    metrics_process::Collector::default().collect();
    database(pool);
    recorded.render()
}

/// Shows the present state of the database pool.
fn database(pool: &PgPool) {
    let (open, idle) = (pool.size(), u32::try_from(pool.num_idle()).unwrap_or(u32::MAX));
    // The pool may change between the two reads.
    for (state, count) in [("idle", idle.min(open)), ("busy", open.saturating_sub(idle))] {
        gauge!(DATABASE_CONNECTIONS, "state" => state).set(f64::from(count));
    }
    gauge!(DATABASE_CONNECTIONS_MAX).set(f64::from(pool.options().get_max_connections()));
}

/// The statuses of answers that are errors of the service.
const ERRORS: [u16; 2] = [500, 503];

/// Shows the series of a route's normal answers before its first request, and the counters of its errors: `rate()` does
/// not see the first step of a series that begins with it.
pub(crate) fn announce_route(method: &'static str, route: &'static str, successes: impl Iterator<Item = u16>) {
    let of = |status: u16| [("method", method.to_owned()), ("route", route.to_owned()), ("status", status.to_string())];
    for status in successes {
        counter!(HTTP_REQUESTS, &of(status)).increment(0);
        let _ = histogram!(HTTP_DURATION, &of(status));
    }
    for status in ERRORS {
        counter!(HTTP_REQUESTS, &of(status)).increment(0);
    }
}

/// Installs the recorder of this process and describes every metric. Call it before you build a lock or a cache: they
/// may keep handles of the recorder that they find.
///
/// # Errors
///
/// When a recorder is installed already.
pub fn install() -> Result<PrometheusHandle, BuildError> {
    // While Postgres is away reservations wait for minutes.
    let flash_lag = [stockade::metrics::BUCKETS, &[30.0, 60.0, 300.0]].concat();
    let handle = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Full(FLASH_LAG.to_owned()), &flash_lag)?
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), stockade::metrics::BUCKETS)?
        .install_recorder()?;
    stockade::metrics::describe();
    stockade::metrics::build_info();
    metrics_process::Collector::default().describe();
    describe();
    announce_flash();
    // `rate()` misses the first event of a counter that was absent before.
    counter!(FENCE_REJECTED).increment(0);
    counter!(DATABASE_TIMEOUTS).increment(0);
    for kind in [Kind::Set, Kind::Adjustment, Kind::Delete, Kind::Transfer, Kind::Flash] {
        for outcome in Outcome::ALL {
            counter!(MOVEMENTS, "kind" => kind.as_str(), "outcome" => outcome.as_str()).increment(0);
        }
    }
    Ok(handle)
}

/// Shows the series of flash sales before their first event.
fn announce_flash() {
    for outcome in FlashOutcome::ALL {
        counter!(FLASH_RESERVATIONS, "outcome" => outcome.as_str()).increment(0);
    }
    for fate in FlashFate::ALL {
        counter!(FLASH_ENTRIES, "outcome" => fate.as_str()).increment(0);
    }
    gauge!(FLASH_KNOWN).set(0);
    let _ = histogram!(FLASH_LAG);
}
