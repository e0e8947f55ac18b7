use std::{ops::RangeInclusive, time::Duration};

use super::{
    Args, ConfigError, Secret,
    budget::Budget,
    error::Findings,
    parse::{duration, durations, either, number, on_or_off},
};

const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(60 * 60);
const WEEK: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The longest lifetime of a value that a strict cache accepts.
const STRICT_LIFETIME: Duration = Duration::from_secs(10 * 60);

/// How stock is cached.
#[derive(Clone, Debug)]
pub struct CacheSettings {
    /// The URL of its Redis.
    pub redis: Secret,
    /// Whether the cache has another server than the locks, and so a connection of its own.
    pub has_own_redis: bool,
    /// Which writes a read may miss.
    pub mode: CacheMode,
    /// How long a value lives.
    pub ttl: RangeInclusive<Duration>,
    /// How long the cache remembers an absence.
    pub null_ttl: Duration,
    /// Whether reads ask the filter of the SKUs that exist.
    pub filter: bool,
    /// How many rows are loaded before the instance is ready.
    pub warm_keys: u32,
    /// How long the warm-up may take.
    pub warm_limit: Duration,
    /// How many loads run at once.
    pub max_loads: usize,
    /// How long a load may take, the wait for its connection included.
    pub load_timeout: Duration,
}

/// Which writes a read may miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheMode {
    /// A read without the lock of its SKU may miss a write that was acknowledged a moment ago.
    Eventual,
    /// A read misses no write that was acknowledged before it began.
    Strict,
}

impl CacheSettings {
    pub(super) fn read(
        args: &Args,
        redis: Option<Secret>,
        lock_redis: Option<&Secret>,
        budget: Option<Budget>,
        found: &mut Findings,
    ) -> Option<Self> {
        let modes = [("eventual", CacheMode::Eventual), ("strict", CacheMode::Strict)];
        let mode = found.note(either("CACHE_MODE", &args.cache_mode, modes));
        let ttl = found.note(durations("CACHE_TTL", &args.cache_ttl, SECOND..=WEEK));
        let null_ttl = found.note(duration("NULL_TTL", &args.null_ttl, SECOND..=WEEK));
        if mode == Some(CacheMode::Strict) {
            let ends = [
                ("CACHE_TTL", &args.cache_ttl, ttl.as_ref().map(|ttl| *ttl.end())),
                ("NULL_TTL", &args.null_ttl, null_ttl),
            ];
            for (variable, text, end) in ends {
                found.note(strict_lifetime(variable, text, end));
            }
        }
        let filter = found.note(on_or_off("SKU_FILTER", &args.sku_filter));
        let warm_keys = found.note(number("CACHE_WARM_KEYS", &args.cache_warm_keys, 0..=1_000_000));
        let warm_limit = found.note(duration("CACHE_WARM_LIMIT", &args.cache_warm_limit, MILLISECOND..=HOUR));
        let max_loads = found.note(number("DB_MAX_LOADS", &args.db_max_loads, 1..=10_000));
        let Budget { acquire, statement, .. } = budget?;
        Some(Self {
            has_own_redis: redis.as_ref() != lock_redis,
            mode: mode?,
            redis: redis?,
            ttl: ttl?,
            null_ttl: null_ttl?,
            filter: filter?,
            warm_keys: warm_keys?,
            warm_limit: warm_limit?,
            max_loads: max_loads?.try_into().unwrap_or(usize::MAX),
            load_timeout: acquire + statement,
        })
    }
}

/// A strict cache keeps no value longer than its invalidations are kept: a Redis that lost some can get them again.
fn strict_lifetime(variable: &'static str, text: &str, end: Option<Duration>) -> Result<(), ConfigError> {
    if end.is_none_or(|end| end <= STRICT_LIFETIME) {
        return Ok(());
    }
    let remedy = "with CACHE_MODE=strict use 10min or less, or set CACHE_MODE=eventual";
    Err(ConfigError::new(variable, "too long", remedy).with_value(text))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::config::Config;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    fn refused(settings: &[&str]) -> Option<String> {
        let base = ["serve", "--database-url=postgres://u@127.0.0.1/d", "--redis-url=redis://127.0.0.1"];
        let command = Command::parse_from(base.iter().chain(settings));
        Config::new(&command.args).err().map(|errors| errors.to_string())
    }

    #[test]
    fn a_strict_cache_keeps_nothing_for_longer_than_ten_minutes() {
        assert_eq!(refused(&["--cache-mode=strict"]), None);
        assert_eq!(refused(&["--cache-ttl=1h..2h"]), None);
        for (variable, setting) in [("CACHE_TTL", "--cache-ttl=300s..601s"), ("NULL_TTL", "--null-ttl=11min")] {
            let error = refused(&["--cache-mode=strict", setting]).unwrap();
            assert!(error.starts_with(variable) && error.contains("CACHE_MODE=eventual"), "{error}");
        }
    }
}
