//! Names of the metrics, their closed label sets, and the histogram buckets.
//!
//! Every label value comes from a closed set or is a resource kind or route template: never an id, a path or an error
//! text. Recording goes through the `metrics` facade: install a recorder before the first lock or cache is built.
//!
//! | label | of | values |
//! |---|---|---|
//! | lock | all of locks but [`LOCK_RENEWAL_LAG`] | the [kind](crate::Resource::KIND) of the resource, or the template of a route |
//! | mode | [`LOCK_ACQUISITIONS`], [`LOCK_WAIT`], [`LOCK_HOLD`], [`LOCKS_HELD`] | `read`, `write`, `permit` |
//! | outcome | [`LOCK_ACQUISITIONS`] | `granted`, `delegated`, `timeout`, `full`, `store_error`, `cancelled` |
//! | outcome | [`CACHE_REQUESTS`] | `hit_local`, `hit_redis`, `stale`, `null`, `bloom_reject`, `load`, `collapsed`, `shed`, `error` |
//! | outcome | [`CACHE_LOADS`] | `ok`, `absent`, `error`, `timeout`, `cancelled` |
//! | outcome | [`CACHE_TX_READS`] | `ok`, `absent`, `error`, `timeout` |
//! | outcome | [`GROUP_COMMITS`] | `ok`, `apart`, `error` |
//! | reason | [`LOCK_LOST`] | `expired`, `stolen`, `forced`, `store_lost_data` |
//! | reason | [`LOCK_DELEGATION_RECALLS`] | `wanted`, `local`, `disconnected`, `lost`, `unused`, `old`, `shutdown` |
//! | reason | [`CACHE_PAYLOADS_REFUSED`] | `unreadable`, `too_large`, `no_encoding` |
//! | cache | all of caches, [`SUBSCRIPTION_UP`], [`OUTBOX_REFUSED`] | the name of the cache |
//! | op | [`REDIS_COMMAND`] | the name of the script or command |
//! | role | [`REDIS_ERRORS`] | `lock`, `cache`, `legacy` |
//! | kind | [`REDIS_ERRORS`] | `timeout`, `crowded`, `io`, `noscript`, `loading`, `readonly`, `moved`, `moving`, `other` |
//! | breaker | [`BREAKER_STATE`] | `redis_lock`, `redlock_node`, `redis_cache`, `database` |
//! | state | [`BREAKER_STATE`] | `closed`, `half_open`, `open` |
//! | version | [`BUILD_INFO`] | the version of this crate |

use std::time::Duration;

use crate::resource::Label;

macro_rules! names {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal;)+) => {
        $($(#[doc = $doc])+ pub const $name: &str = $text;)+

        /// Every metric name of this crate.
        pub const NAMES: &[&str] = &[$($name),+];

        /// Registers the description of every metric with the installed recorder.
        pub fn describe() {
            {
                $(describe_one($name, concat!($($doc),+).trim());)+
            }
        }
    };
}

names! {
    /// Attempts to lock that ended, by outcome.
    LOCK_ACQUISITIONS = "stockade_lock_acquisitions_total";
    /// Shared locks that this process keeps for its readers until others want the resource.
    LOCK_DELEGATIONS = "stockade_lock_delegations";
    /// Delegations that ended, by reason.
    LOCK_DELEGATION_RECALLS = "stockade_lock_delegation_recalls_total";
    /// From the request to the grant, seconds.
    LOCK_WAIT = "stockade_lock_wait_seconds";
    /// From the grant to the release, seconds.
    LOCK_HOLD = "stockade_lock_hold_seconds";
    /// From a release to the moment its successor has the lock, seconds.
    LOCK_HANDOFF = "stockade_lock_handoff_seconds";
    /// Locks this process holds.
    LOCKS_HELD = "stockade_locks_held";
    /// Attempts of this process that wait.
    LOCK_WAITERS = "stockade_lock_waiters";
    /// Ownerships that ended against the holder's will, by reason.
    LOCK_LOST = "stockade_lock_lost_total";
    /// How late renewals were sent, seconds.
    LOCK_RENEWAL_LAG = "stockade_lock_renewal_lag_seconds";
    /// From writing a command to its reply, seconds, by operation.
    REDIS_COMMAND = "stockade_redis_command_seconds";
    /// Commands without a usable reply, by role and kind.
    REDIS_ERRORS = "stockade_redis_errors_total";
    /// Connections made after the first.
    REDIS_RECONNECTS = "stockade_redis_reconnects_total";
    /// 0 while a cache of this process does not hear of invalidations; else 1.
    SUBSCRIPTION_UP = "stockade_subscription_up";
    /// 1 for the state each breaker is in, 0 for the others. Of several breakers of a name it is the worst state.
    /// `redis_lock` of a Redlock store is the best state that a quorum of its servers has; its servers are
    /// `redlock_node`.
    BREAKER_STATE = "stockade_breaker_state";
    /// Cache reads, by outcome.
    CACHE_REQUESTS = "stockade_cache_requests_total";
    /// Loader runs, by outcome.
    CACHE_LOADS = "stockade_cache_loads_total";
    /// Reads inside a transaction, which the cache has no part in, by outcome.
    CACHE_TX_READS = "stockade_cache_tx_reads_total";
    /// How long loaders ran, seconds.
    CACHE_LOAD = "stockade_cache_load_seconds";
    /// Loaders running.
    CACHE_LOADS_IN_FLIGHT = "stockade_cache_loads_in_flight";
    /// Fills refused because a write came between.
    CACHE_FILL_REJECTED = "stockade_cache_fill_rejected_total";
    /// How old a write may be that a fresh value from the memory of this process lacks, seconds; 0 while none is
    /// served.
    CACHE_LOCAL_STALENESS_BOUND = "stockade_cache_local_staleness_bound_seconds";
    /// Payloads that could not be read, and values not stored for their size or encoding, by reason.
    CACHE_PAYLOADS_REFUSED = "stockade_cache_payloads_refused_total";
    /// Intents that were gone when their transaction ended them: the store lost data, or the process stood still for
    /// seconds and another one ended them.
    CACHE_INTENT_LOST = "stockade_cache_intent_lost_total";
    /// 0 while the store of a cache is not connected, or may have lost an invalidation, so that a strict cache loads
    /// every read; else 1.
    CACHE_VOUCHED_FOR = "stockade_cache_vouched_for";
    /// Age of the oldest invalidation not applied yet, seconds. Of several relays it is the highest, without a relay 0.
    OUTBOX_LAG = "stockade_outbox_lag_seconds";
    /// Invalidations that a cache refused while it took others, and that are not applied yet. Of several relays it is
    /// the highest number, without a relay 0.
    OUTBOX_REFUSED = "stockade_outbox_refused_rows";
    /// Transactions of group commits, by outcome: `apart` if its changes are made again, each by itself.
    GROUP_COMMITS = "stockade_group_commits_total";
    /// Changes that group commits have committed together.
    GROUP_CHANGES = "stockade_group_changes_total";
    /// 1, labelled with the version.
    BUILD_INFO = "stockade_build_info";
}

/// Histogram buckets in seconds for every `_seconds` metric: from a tenth of a millisecond, below which an uncontended
/// lock seldom lies, to ten seconds.
pub const BUCKETS: &[f64] =
    &[0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

fn describe_one(name: &'static str, text: &'static str) {
    use ::metrics::{Unit, describe_counter, describe_gauge, describe_histogram};
    if name.ends_with("_total") {
        describe_counter!(name, text);
    } else if name.ends_with("_seconds") && ![OUTBOX_LAG, CACHE_LOCAL_STALENESS_BOUND].contains(&name) {
        describe_histogram!(name, Unit::Seconds, text);
    } else {
        describe_gauge!(name, text);
    }
}

/// Sets `stockade_build_info`. Call once after the recorder is installed.
pub fn build_info() {
    gauge(BUILD_INFO, &[("version", Label::Borrowed(env!("CARGO_PKG_VERSION")))], 1.0);
}

/// A label: its name and its value.
pub(crate) type Tag = (&'static str, Label);

/// A label whose value is known at compile time.
pub(crate) fn tag(name: &'static str, value: &'static str) -> Tag {
    (name, Label::Borrowed(value))
}

pub(crate) fn count(name: &'static str, tags: &[Tag]) {
    ::metrics::counter!(name, labels(tags)).increment(1);
}

/// A counter that was looked up once, for what happens too often to be looked up each time. Shown as zero before its
/// first event.
#[derive(Debug)]
pub(crate) struct Counter(::metrics::Counter);

impl Counter {
    pub(crate) fn of(name: &'static str, tags: &[Tag]) -> Self {
        announce(name, tags);
        Self(::metrics::counter!(name, labels(tags)))
    }

    pub(crate) fn count(&self) {
        self.add(1);
    }

    pub(crate) fn add(&self, many: u64) {
        self.0.increment(many);
    }
}

/// A gauge that was looked up once, as [`Counter`].
#[derive(Debug)]
pub(crate) struct Gauge(::metrics::Gauge);

impl Gauge {
    pub(crate) fn of(name: &'static str, tags: &[Tag]) -> Self {
        Self(::metrics::gauge!(name, labels(tags)))
    }

    pub(crate) fn add(&self, delta: f64) {
        self.0.increment(delta);
    }
}

/// A histogram that was looked up once, as [`Counter`]. Shown as empty before its first event.
#[derive(Debug)]
pub(crate) struct Times(::metrics::Histogram);

impl Times {
    pub(crate) fn of(name: &'static str, tags: &[Tag]) -> Self {
        Self(::metrics::histogram!(name, labels(tags)))
    }

    pub(crate) fn observe(&self, value: Duration) {
        self.0.record(value.as_secs_f64());
    }
}

/// Shows a counter as zero before its first event: `rate()` does not see the first step of a series that begins with
/// it.
pub(crate) fn announce(name: &'static str, tags: &[Tag]) {
    ::metrics::counter!(name, labels(tags)).increment(0);
}

/// Shows a histogram before its first event, empty: a panel of it is not blank until something happens.
pub(crate) fn announce_times(name: &'static str, tags: &[Tag]) {
    let _ = ::metrics::histogram!(name, labels(tags));
}

pub(crate) fn gauge(name: &'static str, tags: &[Tag], value: f64) {
    ::metrics::gauge!(name, labels(tags)).set(value);
}

fn labels(tags: &[Tag]) -> Vec<::metrics::Label> {
    tags.iter().map(|(name, value)| ::metrics::Label::new(*name, value.clone())).collect()
}
