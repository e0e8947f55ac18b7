use std::time::Duration;

use super::CacheBuilder;
use super::parts::Home;
use crate::{
    cache::BuildError,
    resource::{Key, KeyError, Resource},
};

impl<K: Resource, V> CacheBuilder<K, V> {
    /// How long the lease of a load lasts, when all settings fit together.
    pub(super) fn check(&self) -> Result<Duration, BuildError> {
        if !crate::resource::is_name(self.name) {
            return Err(KeyError::Name(self.name.to_owned()).into());
        }
        // The kind is checked here once, so that no read fails for it.
        if let Err(error @ KeyError::Name(_)) = Key::new(K::KIND, "x") {
            return Err(error.into());
        }
        let wrong = |setting, remedy| Err(BuildError::Setting { name: self.name, setting, remedy });
        let shortest = Duration::from_millis(1);
        if self.ttl.is_empty() || *self.ttl.start() < shortest {
            return wrong("ttl", "must be a range from 1 ms or more that is not empty");
        }
        if self.null_ttl < shortest {
            return wrong("null_ttl", "must be 1 ms or more");
        }
        if self.load_timeout < shortest {
            return wrong("load_timeout", "must be 1 ms or more");
        }
        if self.soft_timeout.is_some_and(|soft| soft < shortest) {
            return wrong("soft_timeout", "must be 1 ms or more: leave it out to wait for every load");
        }
        if self.hard_timeout.is_some_and(|hard| hard < shortest) {
            return wrong("hard_timeout", "must be 1 ms or more: leave it out to wait for every load");
        }
        if self.hard_timeout.is_some_and(|hard| self.soft_timeout.is_some_and(|soft| soft >= hard)) {
            return wrong("soft_timeout", "must be shorter than `hard_timeout`");
        }
        if self.soft_timeout.is_some() && self.grace.is_zero() {
            return wrong("soft_timeout", "needs a `grace`, for which expired values are kept");
        }
        if self.strict.is_some() && self.soft_timeout.is_some() {
            return wrong("soft_timeout", "must not be set with `strict`, which serves nothing that expired");
        }
        if self.max_loads == 0 {
            return wrong("max_loads", "must be 1 or more");
        }
        if !self.beta.is_finite() || self.beta < 0.0 {
            return wrong("early_refresh", "must be a number from 0");
        }
        if self.revalidate > self.grace {
            return wrong("stale_while_revalidate", "must not be longer than `grace`, for which values are kept");
        }
        if self.strict.is_some() && !self.revalidate.is_zero() {
            return wrong("stale_while_revalidate", "must be zero with `strict`, which serves nothing that expired");
        }
        if let Some(strict) = &self.strict {
            // The text names `postgres::outbox::KEEP`.
            let remedy = "must end at 10 minutes or less with `strict`: for so long the outbox can drop a value again that a \
                          restarted Redis brought back";
            if *self.ttl.end() > strict.longest() {
                return wrong("ttl", remedy);
            }
            if self.null_ttl > strict.longest() {
                return wrong("null_ttl", remedy);
            }
        }
        if self.strict.is_some() && matches!(&self.home, Home::Redis(redis) if redis.may_evict()) {
            return wrong(
                "strict",
                "needs a Redis that keeps its keys: `noeviction`, connected without `allow_eviction`",
            );
        }
        if self.strict.is_some() && matches!(&self.home, Home::Redis(redis) if redis.is_unbounded()) {
            return wrong(
                "strict",
                "needs a primary that refuses writes once it is replaced: set `min-replicas-to-write` (half the number of \
                 replicas or more) and `min-replicas-max-lag` (10 or less) on every Redis that may become the \
                 primary, of version 7.0 or later",
            );
        }
        if self.strict.is_some() && self.local.is_some() {
            return wrong(
                "local",
                "must not be set with `strict`: another process could not be told of a write in time",
            );
        }
        if self.strict.is_some() && self.under_locks {
            return wrong(
                "under_locks",
                "must not be set with `strict`, which serves nothing from memory: choose one of them. `under_locks` is for \
                 values whose writers all hold the lock of their key",
            );
        }
        let lease = self.lease.unwrap_or(self.load_timeout.saturating_mul(2));
        if lease < self.load_timeout.saturating_mul(3) / 2 {
            return wrong("lease", "must be at least one and a half times `load_timeout`");
        }
        Ok(lease)
    }
}
