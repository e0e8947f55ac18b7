use std::time::Duration;

use super::CacheBuilder;
use super::parts::Home;
use crate::{
    cache::{BuildError, strict::Strict},
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
        if let Some(strict) = &self.strict {
            self.check_strict(strict)?;
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
        if self.bloom.as_ref().is_some_and(|bloom| bloom.kind() != K::KIND) {
            return self
                .wrong("bloom", "must be a filter of keys of the same kind: build it with the key type of the cache");
        }
        Ok(())
    }

    fn check_lifetimes(&self) -> Result<(), BuildError> {
        if self.ttl.is_empty() || *self.ttl.start() < SHORTEST {
            return self.wrong("ttl", "must be a range from 1 ms or more that is not empty");
        }
        if self.null_ttl < SHORTEST {
            return self.wrong("null_ttl", "must be 1 ms or more");
        }
        if self.revalidate > self.grace {
            return self.wrong("stale_while_revalidate", "must not be longer than `grace`, for which values are kept");
        }
        if !self.beta.is_finite() || self.beta < 0.0 {
            return self.wrong("early_refresh", "must be a number from 0");
        }
        Ok(())
    }

    fn check_loads(&self) -> Result<(), BuildError> {
        if self.load_timeout < SHORTEST {
            return self.wrong("load_timeout", "must be 1 ms or more");
        }
        if self.soft_timeout.is_some_and(|soft| soft < SHORTEST) {
            return self.wrong("soft_timeout", "must be 1 ms or more: leave it out to wait for every load");
        }
        if self.hard_timeout.is_some_and(|hard| hard < SHORTEST) {
            return self.wrong("hard_timeout", "must be 1 ms or more: leave it out to wait for every load");
        }
        if self.hard_timeout.is_some_and(|hard| self.soft_timeout.is_some_and(|soft| soft >= hard)) {
            return self.wrong("soft_timeout", "must be shorter than `hard_timeout`");
        }
        if self.soft_timeout.is_some() && self.grace.is_zero() {
            return self.wrong("soft_timeout", "needs a `grace`, for which expired values are kept");
        }
        if self.max_loads == 0 {
            return self.wrong("max_loads", "must be 1 or more");
        }
        Ok(())
    }

    /// What a strict cache takes: nothing that serves an expired value or one from memory, and a Redis that it can
    /// trust.
    fn check_strict(&self, strict: &Strict) -> Result<(), BuildError> {
        if self.soft_timeout.is_some() {
            return self.wrong("soft_timeout", "must not be set with `strict`, which serves nothing that expired");
        }
        if !self.revalidate.is_zero() {
            return self
                .wrong("stale_while_revalidate", "must be zero with `strict`, which serves nothing that expired");
        }
        // The text names `postgres::outbox::KEEP`.
        let remedy = "must end at 10 minutes or less with `strict`: for so long the outbox can drop a value again that a \
                      restarted Redis brought back";
        if *self.ttl.end() > strict.longest() {
            return self.wrong("ttl", remedy);
        }
        if self.null_ttl > strict.longest() {
            return self.wrong("null_ttl", remedy);
        }
        self.check_strict_redis()?;
        if self.local.is_some() {
            return self
                .wrong("local", "must not be set with `strict`: another process could not be told of a write in time");
        }
        if self.under_locks {
            return self.wrong(
                "under_locks",
                "must not be set with `strict`, which serves nothing from memory: choose one of them. `under_locks` is for \
                 values whose writers all hold the lock of their key",
            );
        }
        Ok(())
    }

    fn check_strict_redis(&self) -> Result<(), BuildError> {
        if matches!(&self.home, Home::Redis(redis) if redis.may_evict()) {
            return self.wrong(
                "strict",
                "needs a Redis that keeps its keys: `noeviction`, connected without `allow_eviction`",
            );
        }
        if matches!(&self.home, Home::Redis(redis) if redis.is_unbounded()) {
            return self.wrong(
                "strict",
                "needs a primary that refuses writes once it is replaced: set `min-replicas-to-write` (half the number of \
                 replicas or more) and `min-replicas-max-lag` (10 or less) on every Redis that may become the \
                 primary, of version 7.0 or later",
            );
        }
        Ok(())
    }

    fn check_lease(&self) -> Result<Duration, BuildError> {
        let lease = self.lease.unwrap_or(self.load_timeout.saturating_mul(2));
        if lease < self.load_timeout.saturating_mul(3) / 2 {
            return self.wrong("lease", "must be at least one and a half times `load_timeout`");
        }
        Ok(lease)
    }

    fn wrong<T>(&self, setting: &'static str, remedy: &'static str) -> Result<T, BuildError> {
        Err(BuildError::Setting { name: self.name, setting, remedy })
    }
}
