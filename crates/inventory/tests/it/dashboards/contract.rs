//! The metrics of the service with their labels, as operators may rely on them.

use std::collections::BTreeSet;

/// The name and the labels of every metric.
pub(super) const METRICS: &[(&str, &[&str])] = &[
    ("stockade_lock_acquisitions_total", &["lock", "mode", "outcome"]),
    ("stockade_lock_wait_seconds", &["lock", "mode"]),
    ("stockade_lock_hold_seconds", &["lock", "mode"]),
    ("stockade_lock_handoff_seconds", &["lock"]),
    ("stockade_lock_delegations", &["lock"]),
    ("stockade_lock_delegation_recalls_total", &["lock", "reason"]),
    ("stockade_locks_held", &["lock", "mode"]),
    ("stockade_lock_waiters", &["lock"]),
    ("stockade_lock_lost_total", &["lock", "reason"]),
    ("stockade_lock_renewal_lag_seconds", &[]),
    ("stockade_redis_command_seconds", &["op"]),
    ("stockade_redis_errors_total", &["role", "kind"]),
    ("stockade_redis_reconnects_total", &[]),
    ("stockade_subscription_up", &["cache"]),
    ("stockade_breaker_state", &["breaker", "state"]),
    ("stockade_cache_requests_total", &["cache", "outcome"]),
    ("stockade_cache_loads_total", &["cache", "outcome"]),
    ("stockade_cache_tx_reads_total", &["cache", "outcome"]),
    ("stockade_cache_load_seconds", &["cache"]),
    ("stockade_cache_loads_in_flight", &["cache"]),
    ("stockade_cache_fill_rejected_total", &["cache"]),
    ("stockade_cache_intent_lost_total", &["cache"]),
    ("stockade_cache_payloads_refused_total", &["cache", "reason"]),
    ("stockade_cache_local_staleness_bound_seconds", &["cache"]),
    ("stockade_cache_vouched_for", &["cache"]),
    ("stockade_outbox_lag_seconds", &[]),
    ("stockade_outbox_refused_rows", &["cache"]),
    ("stockade_group_commits_total", &["outcome"]),
    ("stockade_group_changes_total", &[]),
    ("stockade_build_info", &["version"]),
    ("inventory_movements_total", &["kind", "outcome"]),
    ("inventory_fence_rejected_total", &[]),
    ("http_requests_total", &["method", "route", "status"]),
    ("http_request_duration_seconds", &["method", "route", "status"]),
    ("http_requests_in_flight", &["route"]),
    ("inventory_ready", &[]),
    ("inventory_database_connections", &["state"]),
    ("inventory_database_connections_max", &[]),
    ("inventory_database_timeouts_total", &[]),
    ("inventory_flash_reservations_total", &["outcome"]),
    ("inventory_flash_entries_total", &["outcome"]),
    ("inventory_flash_known", &[]),
    ("inventory_flash_stream_entries", &[]),
    ("inventory_flash_lag_seconds", &[]),
    ("process_cpu_seconds_total", &[]),
    ("process_max_fds", &[]),
    ("process_open_fds", &[]),
    ("process_resident_memory_bytes", &[]),
    ("process_start_time_seconds", &[]),
    ("process_threads", &[]),
    ("process_virtual_memory_bytes", &[]),
    ("process_virtual_memory_max_bytes", &[]),
];

/// The name without the suffix of a histogram's series.
pub(super) fn base_name(series: &str) -> &str {
    ["_bucket", "_sum", "_count"]
        .into_iter()
        .find_map(|suffix| series.strip_suffix(suffix).filter(|base| METRICS.iter().any(|(name, _)| name == base)))
        .unwrap_or(series)
}

/// The labels of a series in Prometheus, including those that the scrape adds.
pub(super) fn labels_of(series: &str) -> Option<BTreeSet<&'static str>> {
    let (_, labels) = METRICS.iter().find(|(name, _)| *name == base_name(series))?;
    let bucket = series.ends_with("_bucket").then_some("le");
    Some(labels.iter().copied().chain(["instance", "job"]).chain(bucket).collect())
}

/// All values of a label, over all metrics. `None` if the set of values is open, or if queries use patterns.
pub(super) fn values_of(label: &str) -> Option<&'static [&'static str]> {
    Some(match label {
        "mode" => &["read", "write"],
        "reason" => &[
            "expired",
            "stolen",
            "forced",
            "store_lost_data",
            "unreadable",
            "too_large",
            "no_encoding",
            "wanted",
            "local",
            "disconnected",
            "lost",
            "unused",
            "old",
            "shutdown",
        ],
        "kind" => &["timeout", "io", "noscript", "loading", "readonly", "other", "set", "adjustment", "delete"],
        "breaker" => &["redis_lock", "redlock_node", "redis_cache", "database"],
        "state" => &["closed", "open", "half_open", "idle", "busy"],
        "outcome" => &[
            // attempts to lock
            "granted",
            "delegated",
            "timeout",
            "full",
            "store_error",
            "cancelled",
            // cache reads
            "hit_local",
            "hit_redis",
            "stale",
            "null",
            "bloom_reject",
            "load",
            "collapsed",
            "shed",
            "error",
            // loads
            "ok",
            "absent",
            // transactions of group commits
            "apart",
            // movements
            "applied",
            "refused",
            "replayed",
            // reservations of flash sales, and their entries
            "reserved",
            "sold_out",
            "limit_reached",
            "sale_closed",
            "stored",
            "rejected",
            "repeated",
            "dead",
        ],
        _ => return None,
    })
}
