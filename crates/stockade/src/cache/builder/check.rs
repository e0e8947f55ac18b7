use std::time::Duration;

use super::CacheBuilder;
use super::parts::Home;
use crate::{
    cache::{BuildError, store::REPEATABLE},
    resource::{Key, KeyError, Resource},
};

/// The shortest time that any setting may name.
const SHORTEST: Duration = Duration::from_millis(1);

impl<K: Resource, V> CacheBuilder<K, V> {
    /// How long the lease of a load lasts, when all settings fit together.
    pub(super) fn check(&self) -> Result<Duration, BuildError> {
        self.check_names()?;
        self.check_lifetimes()?;
        self.check_loads()?;
        if self.strict.is_some() {
            self.check_strict()?;
        }
        self.check_lease()
    }

    fn check_names(&self) -> Result<(), BuildError> {
        if !crate::resource::is_name(self.name) {
            return Err(KeyError::Name(self.name.to_owned()).into());
        }
        // The kind is checked here once, so that no read fails for it.
        if let Err(error @ KeyError::Name(_)) = Key::new(K::KIND, "x") {
            return Err(error.into());
        }
        // A key includes its kind, so such a filter would hold none of the keys: every row would be absent.
        let is_other = self.bloom.as_ref().is_some_and(|bloom| bloom.kind() != K::KIND);
        let remedy = "must be a filter of keys of the same kind: build it with the key type of the cache";
        self.refuse(is_other, "bloom", remedy)
    }

    fn check_lifetimes(&self) -> Result<(), BuildError> {
        let is_wrong = self.ttl.is_empty() || *self.ttl.start() < SHORTEST;
        self.refuse(is_wrong, "ttl", "must be a range from 1 ms or more that is not empty")?;
        self.refuse(self.null_ttl < SHORTEST, "null_ttl", "must be 1 ms or more")?;
        let remedy = "must not be longer than `grace`, for which values are kept";
        self.refuse(self.revalidate > self.grace, "stale_while_revalidate", remedy)?;
        self.refuse(!self.beta.is_finite() || self.beta < 0.0, "early_refresh", "must be a number from 0")
    }

    fn check_loads(&self) -> Result<(), BuildError> {
        let (soft, hard) = (self.soft_timeout, self.hard_timeout);
        let remedy = "must be 1 ms or more: leave it out to wait for every load";
        self.refuse(self.load_timeout < SHORTEST, "load_timeout", "must be 1 ms or more")?;
        self.refuse(soft.is_some_and(|soft| soft < SHORTEST), "soft_timeout", remedy)?;
        self.refuse(hard.is_some_and(|hard| hard < SHORTEST), "hard_timeout", remedy)?;
        self.refuse(hard.is_some() && soft >= hard, "soft_timeout", "must be shorter than `hard_timeout`")?;
        let remedy = "needs a `grace`, for which expired values are kept";
        self.refuse(soft.is_some() && self.grace.is_zero(), "soft_timeout", remedy)?;
        self.refuse(self.max_loads == 0, "max_loads", "must be 1 or more")
    }

    /// What a strict cache takes: nothing that serves an expired value or one from memory, and a Redis that it can
    /// trust.
    fn check_strict(&self) -> Result<(), BuildError> {
        let remedy = "must not be set with `strict`, which serves nothing that expired";
        self.refuse(self.soft_timeout.is_some(), "soft_timeout", remedy)?;
        let remedy = "must be zero with `strict`, which serves nothing that expired";
        self.refuse(!self.revalidate.is_zero(), "stale_while_revalidate", remedy)?;
        // The text names `REPEATABLE`.
        let remedy = "must end at 10 minutes or less with `strict`: for so long the outbox can drop a value again that \
                      a restarted Redis brought back";
        self.refuse(*self.ttl.end() > REPEATABLE, "ttl", remedy)?;
        self.refuse(self.null_ttl > REPEATABLE, "null_ttl", remedy)?;
        self.check_strict_redis()?;
        let remedy = "must not be set with `strict`: another process could not be told of a write in time";
        self.refuse(self.local.is_some(), "local", remedy)?;
        let remedy = "must not be set with `strict`, which serves nothing from memory: choose one of them. \
                      `under_locks` is for values whose writers all hold the lock of their key";
        self.refuse(self.under_locks, "under_locks", remedy)
    }

    fn check_strict_redis(&self) -> Result<(), BuildError> {
        let Home::Redis(redis) = &self.home else {
            return self.wrong("strict", "needs a Redis, which keeps its announcements: `Cache::builder(&redis)`");
        };
        let remedy = "needs a Redis that keeps its keys: `noeviction`, connected without `allow_eviction`";
        self.refuse(redis.may_evict(), "strict", remedy)?;
        let remedy = "needs a primary that refuses writes once it is replaced: set `min-replicas-to-write` (half the \
                      number of replicas or more) and `min-replicas-max-lag` (10 or less) on every Redis that may \
                      become the primary, of version 7.0 or later";
        self.refuse(redis.is_unbounded(), "strict", remedy)
    }

    fn check_lease(&self) -> Result<Duration, BuildError> {
        let lease = self.lease.unwrap_or(self.load_timeout.saturating_mul(2));
        let is_short = lease < self.load_timeout.saturating_mul(3) / 2;
        self.refuse(is_short, "lease", "must be at least one and a half times `load_timeout`")?;
        Ok(lease)
    }

    fn refuse(&self, is_wrong: bool, setting: &'static str, remedy: &'static str) -> Result<(), BuildError> {
        if is_wrong { self.wrong(setting, remedy) } else { Ok(()) }
    }

    fn wrong(&self, setting: &'static str, remedy: &'static str) -> Result<(), BuildError> {
        Err(BuildError::Setting { name: self.name, setting, remedy })
    }
}
