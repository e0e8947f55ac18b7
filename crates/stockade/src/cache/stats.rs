use std::sync::atomic::{AtomicU64, Ordering};

use super::{CacheError, Lookup, Source};
use crate::metrics::{self, CACHE_REQUESTS, tag};

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

/// What a cache did since it was built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    /// Absences that the Bloom filter told.
    pub bloom_reject: u64,
    /// Reads that ran the loader themselves.
    pub load: u64,
    /// Reads that waited for another read's load.
    pub collapsed: u64,
    /// Reads refused to protect the database.
    pub shed: u64,
    /// Reads that failed otherwise.
    pub error: u64,
    /// Fills refused because a write came between.
    pub fill_rejected: u64,
    /// Keys being fetched now.
    pub fetching: usize,
    /// Entries in the memory of this process.
    pub local_entries: usize,
    /// What they weigh, in bytes.
    pub local_weight: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    requests: [AtomicU64; Request::ALL.len()],
    fill_rejected: AtomicU64,
}

impl Counters {
    pub(crate) fn of(cache: &'static str) -> Self {
        for outcome in Request::ALL {
            metrics::announce(CACHE_REQUESTS, &[tag("cache", cache), tag("outcome", outcome)]);
        }
        metrics::announce(metrics::CACHE_FILL_REJECTED, &[tag("cache", cache)]);
        metrics::announce(metrics::CACHE_INTENT_LOST, &[tag("cache", cache)]);
        Self::default()
    }

    /// To be called exactly once for each read that ended.
    pub(crate) fn request<V>(&self, cache: &'static str, result: &Result<Lookup<V>, CacheError>) {
        let request = Request::of(result) as usize;
        self.requests[request].fetch_add(1, Ordering::Relaxed);
        metrics::count(CACHE_REQUESTS, &[tag("cache", cache), tag("outcome", Request::ALL[request])]);
    }

    pub(crate) fn fill_rejected(&self, cache: &'static str) {
        self.fill_rejected.fetch_add(1, Ordering::Relaxed);
        metrics::count(metrics::CACHE_FILL_REJECTED, &[tag("cache", cache)]);
    }

    pub(crate) fn read(&self) -> CacheStats {
        let [hits_local, hits_redis, stale, null, bloom_reject, load, collapsed, shed, error] =
            self.requests.each_ref().map(|count| count.load(Ordering::Relaxed));
        let fill_rejected = self.fill_rejected.load(Ordering::Relaxed);
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
            fill_rejected,
            ..CacheStats::default()
        }
    }
}
