use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

#[cfg(feature = "postgres")]
use crate::metrics::CACHE_TX_READS;
use crate::{
    cache::{CacheError, Lookup, Source},
    metrics::{self, CACHE_LOADS, CACHE_LOADS_IN_FLIGHT, CACHE_REQUESTS, Counter, Gauge, tag},
};

/// How one read ended: a label of `stockade_cache_requests_total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
    HitLocal,
    HitRedis,
    Stale,
    Null,
    BloomReject,
    Load,
    Collapsed,
    Shed,
    Error,
}

impl Request {
    const ALL: [&'static str; 9] =
        ["hit_local", "hit_redis", "stale", "null", "bloom_reject", "load", "collapsed", "shed", "error"];

    fn of<V>(result: &Result<Lookup<V>, CacheError>) -> Self {
        let info = match result {
            Err(CacheError::Shed { .. }) => return Self::Shed,
            Err(_) => return Self::Error,
            Ok(lookup) => lookup.info,
        };
        match info.source {
            _ if info.collapsed => Self::Collapsed,
            _ if info.stale.is_some() => Self::Stale,
            Source::Load => Self::Load,
            Source::Filter => Self::BloomReject,
            _ if info.absent => Self::Null,
            Source::Local => Self::HitLocal,
            Source::Redis => Self::HitRedis,
        }
    }
}

/// How one run of the loader ended: a label of `stockade_cache_loads_total`. All but the last are also labels of
/// `stockade_cache_tx_reads_total`, for reads inside a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoadEnd {
    Ok,
    Absent,
    Error,
    Timeout,
    Cancelled,
}

impl LoadEnd {
    const ALL: [&'static str; 5] = ["ok", "absent", "error", "timeout", "cancelled"];
}

/// Counts of what a cache has done since it was built.
///
/// Each read that ended counts in one of the first nine fields. Each run of the loader that ended counts in one of the
/// five fields `loads_ok` to `loads_cancelled`. A read whose future was dropped counts nowhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CacheStats {
    /// Values from the memory of this process.
    pub hits_local: u64,
    /// Values from Redis.
    pub hits_redis: u64,
    /// Expired values served within their grace.
    pub stale: u64,
    /// Absences served without a load.
    pub null: u64,
    /// Absences that the Bloom filter answered.
    pub bloom_reject: u64,
    /// Reads that ran the loader themselves.
    pub load: u64,
    /// Reads that waited for another read's load.
    pub collapsed: u64,
    /// Reads refused to protect the database.
    pub shed: u64,
    /// Reads that failed otherwise.
    pub error: u64,
    /// Runs of the loader that found a row, and all runs of a batch loader that succeeded.
    pub loads_ok: u64,
    /// Runs of the loader that found no row.
    pub loads_absent: u64,
    /// Runs of the loader that failed or panicked.
    pub loads_error: u64,
    /// Runs of the loader that took too long.
    pub loads_timeout: u64,
    /// Runs of the loader that a shutdown ended.
    pub loads_cancelled: u64,
    /// Runs of the loader that go on now.
    pub loads_in_flight: u64,
    /// Loaded values that were not stored because a write came in between.
    pub fill_rejected: u64,
    /// Reads inside a transaction, which bypass the cache ([`Cache::get_in`](crate::Cache)).
    pub reads_in_tx: u64,
    /// Payloads in Redis that could not be read, and values that were not stored because of their size or encoding.
    pub payloads_refused: u64,
    /// Keys being fetched now.
    pub fetching: usize,
    /// Entries in the memory of this process.
    pub local_entries: usize,
    /// The weight of these entries, in bytes.
    pub local_weight: u64,
    /// Whether Redis is connected and known to have lost no invalidation. While this is `false`, every read of a strict
    /// cache is a load, until a `postgres::Relay` (feature `postgres`) has repeated the invalidations of the last ten
    /// minutes. An eventual cache may meanwhile serve an old value that a restart of Redis brought back. Always `true`
    /// in a cache without Redis.
    pub vouched_for: bool,
}

impl CacheStats {
    /// Reads that ended: hits and misses.
    #[must_use]
    pub fn reads(&self) -> u64 {
        self.hits() + self.misses()
    }

    /// Reads that needed no load: answered by a value, an expired value within its grace, or a known absence.
    #[must_use]
    pub fn hits(&self) -> u64 {
        self.hits_local + self.hits_redis + self.stale + self.null + self.bloom_reject
    }

    /// Reads that needed a load, whether or not it ran.
    #[must_use]
    pub fn misses(&self) -> u64 {
        self.load + self.collapsed + self.shed + self.error
    }

    /// Runs of the loader that ended.
    #[must_use]
    pub fn loads(&self) -> u64 {
        self.loads_ok + self.loads_absent + self.loads_error + self.loads_timeout + self.loads_cancelled
    }
}

#[derive(Debug)]
pub(crate) struct Counters {
    requests: [AtomicU64; Request::ALL.len()],
    series: [Counter; Request::ALL.len()],
    fill_rejected: AtomicU64,
    reads_in_tx: AtomicU64,
    payloads_refused: AtomicU64,
}

#[derive(Debug, Default)]
pub(crate) struct LoadCounters {
    ended: [AtomicU64; LoadEnd::ALL.len()],
    in_flight: AtomicU64,
}

/// A running load. It counts as in flight until this is dropped.
#[derive(Debug)]
pub(super) struct Running<'a> {
    counters: &'a LoadCounters,
    cache: &'static str,
}

impl LoadCounters {
    pub(super) fn of(cache: &'static str) -> Self {
        for outcome in LoadEnd::ALL {
            metrics::announce(CACHE_LOADS, &[tag("cache", cache), tag("outcome", outcome)]);
        }
        metrics::announce_times(metrics::CACHE_LOAD, &[tag("cache", cache)]);
        Self::default()
    }

    pub(super) fn begin(&self, cache: &'static str) -> Running<'_> {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        Gauge::of(CACHE_LOADS_IN_FLIGHT, &[tag("cache", cache)]).add(1.0);
        Running { counters: self, cache }
    }
}

impl Running<'_> {
    pub(super) fn ended(self, end: LoadEnd) {
        self.counters.ended[end as usize].fetch_add(1, Ordering::Relaxed);
        metrics::count(CACHE_LOADS, &[tag("cache", self.cache), tag("outcome", LoadEnd::ALL[end as usize])]);
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.counters.in_flight.fetch_sub(1, Ordering::Relaxed);
        Gauge::of(CACHE_LOADS_IN_FLIGHT, &[tag("cache", self.cache)]).add(-1.0);
    }
}

impl Counters {
    pub(crate) fn of(cache: &'static str) -> Self {
        metrics::announce(metrics::CACHE_FILL_REJECTED, &[tag("cache", cache)]);
        for reason in ["unreadable", "too_large", "no_encoding"] {
            metrics::announce(metrics::CACHE_PAYLOADS_REFUSED, &[tag("cache", cache), tag("reason", reason)]);
        }
        metrics::announce(metrics::CACHE_INTENT_LOST, &[tag("cache", cache)]);
        #[cfg(feature = "postgres")]
        for outcome in LoadEnd::ALL.into_iter().take(4) {
            metrics::announce(CACHE_TX_READS, &[tag("cache", cache), tag("outcome", outcome)]);
        }
        Self {
            requests: Default::default(),
            series: Request::ALL
                .map(|outcome| Counter::of(CACHE_REQUESTS, &[tag("cache", cache), tag("outcome", outcome)])),
            fill_rejected: AtomicU64::new(0),
            reads_in_tx: AtomicU64::new(0),
            payloads_refused: AtomicU64::new(0),
        }
    }

    /// Counts a read. Must be called exactly once for each read that ended.
    pub(crate) fn request<V>(&self, result: &Result<Lookup<V>, CacheError>) {
        let request = Request::of(result) as usize;
        self.requests[request].fetch_add(1, Ordering::Relaxed);
        self.series[request].count();
    }

    pub(crate) fn fill_rejected(&self, cache: &'static str) {
        self.fill_rejected.fetch_add(1, Ordering::Relaxed);
        metrics::count(metrics::CACHE_FILL_REJECTED, &[tag("cache", cache)]);
    }

    #[cfg(feature = "postgres")]
    pub(super) fn read_in_tx(&self, cache: &'static str, ended: LoadEnd) {
        self.reads_in_tx.fetch_add(1, Ordering::Relaxed);
        metrics::count(CACHE_TX_READS, &[tag("cache", cache), tag("outcome", LoadEnd::ALL[ended as usize])]);
    }

    pub(crate) fn refused(&self, cache: &'static str, reason: &'static str) {
        self.payloads_refused.fetch_add(1, Ordering::Relaxed);
        metrics::count(metrics::CACHE_PAYLOADS_REFUSED, &[tag("cache", cache), tag("reason", reason)]);
    }

    pub(crate) fn read(&self, loads: &LoadCounters) -> CacheStats {
        let [hits_local, hits_redis, stale, null, bloom_reject, load, collapsed, shed, error] =
            self.requests.each_ref().map(|count| count.load(Ordering::Relaxed));
        let [loads_ok, loads_absent, loads_error, loads_timeout, loads_cancelled] =
            loads.ended.each_ref().map(|count| count.load(Ordering::Relaxed));
        let loads_in_flight = loads.in_flight.load(Ordering::Relaxed);
        let fill_rejected = self.fill_rejected.load(Ordering::Relaxed);
        let reads_in_tx = self.reads_in_tx.load(Ordering::Relaxed);
        CacheStats {
            hits_local,
            hits_redis,
            stale,
            null,
            bloom_reject,
            load,
            collapsed,
            shed,
            error,
            loads_ok,
            loads_absent,
            loads_error,
            loads_timeout,
            loads_cancelled,
            loads_in_flight,
            fill_rejected,
            reads_in_tx,
            payloads_refused: self.payloads_refused.load(Ordering::Relaxed),
            ..CacheStats::default()
        }
    }
}
