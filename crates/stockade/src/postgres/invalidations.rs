use std::{collections::HashSet, time::Duration};

use futures_util::future::join_all;

use super::outbox::New;
use crate::{
    cache::{CacheError, Intent, Invalidator, Tag},
    metrics,
    resource::Key,
};

/// How long a transaction waits at most for a cache that goes on answering, before it leaves the rest to the relay. A
/// cache that does not answer fails each call after a command time-out, and soon at once.
const FLUSH_LIMIT: Duration = Duration::from_secs(10);
/// How long a transaction that was rolled back waits for strict caches. Without their answer, readers ask Postgres.
const RETRACT_LIMIT: Duration = Duration::from_millis(250);

/// The keys and tags that a transaction makes stale, by cache.
#[derive(Default)]
pub(super) struct Invalidations {
    caches: Vec<Pending>,
}

/// The invalidations of one cache.
struct Pending {
    cache: Invalidator,
    keys: Vec<Key>,
    tags: Vec<Tag>,
}

impl Invalidations {
    pub(super) fn add_key(&mut self, cache: Invalidator, key: Key) {
        self.of(cache).keys.push(key);
    }

    /// Names each key once, in the order in which the keys were added.
    pub(super) fn deduplicate(&mut self) {
        for Pending { keys, .. } in self.caches.iter_mut().filter(|pending| pending.keys.len() > 1) {
            let mut seen = HashSet::with_capacity(keys.len());
            keys.retain(|key| seen.insert(key.clone()));
        }
    }

    pub(super) fn add_tag(&mut self, cache: Invalidator, tag: Tag) {
        let tags = &mut self.of(cache).tags;
        if !tags.contains(&tag) {
            tags.push(tag);
        }
    }

    fn of(&mut self, cache: Invalidator) -> &mut Pending {
        let known = self.caches.iter().position(|pending| pending.cache.is(&cache));
        let place = known.unwrap_or_else(|| {
            self.caches.push(Pending { cache, keys: Vec::new(), tags: Vec::new() });
            self.caches.len() - 1
        });
        &mut self.caches[place]
    }

    pub(super) fn is_empty(&self) -> bool {
        self.caches.is_empty()
    }

    /// The names of the caches.
    pub(super) fn caches(&self) -> impl Iterator<Item = &'static str> {
        self.caches.iter().map(|pending| pending.cache.name())
    }

    pub(super) fn count(&self) -> usize {
        self.caches.iter().map(|pending| pending.keys.len() + pending.tags.len()).sum()
    }

    /// Whether one of the caches is strict.
    pub(super) fn is_strict(&self) -> bool {
        self.strict().next().is_some()
    }

    fn strict(&self) -> impl Iterator<Item = &Pending> {
        self.caches.iter().filter(|pending| pending.cache.0.is_strict())
    }

    /// The rows for the outbox.
    pub(super) fn rows<'a>(&'a self, intent: Option<&'a str>) -> Vec<New<'a>> {
        let mut rows = Vec::new();
        for Pending { cache, keys, tags } in &self.caches {
            let intent = intent.filter(|_| cache.0.is_strict());
            for key in keys {
                rows.push(New { cache: cache.name(), resource: key.as_str().into(), intent });
            }
            for tag in tags {
                rows.push(New { cache: cache.name(), resource: tag.marked().into(), intent: None });
            }
        }
        rows
    }

    /// Announces to all strict caches at once that the transaction is about to commit.
    pub(super) async fn announce(&self, intent: &Intent) -> Result<(), CacheError> {
        let mut calls = Vec::new();
        for Pending { cache, keys, .. } in self.strict() {
            calls.push(cache.0.begin(keys, intent));
        }
        join_all(calls).await.into_iter().collect()
    }

    /// Tells the strict caches that the transaction was rolled back. A cache that this does not reach asks Postgres
    /// what became of the transaction.
    pub(super) async fn retract(&self, intent: Option<&Intent>) {
        if let Some(intent) = intent {
            let mut calls = Vec::new();
            for Pending { cache, keys, .. } in self.strict() {
                calls.push(cache.end(keys, &intent.id));
            }
            let _ = tokio::time::timeout(RETRACT_LIMIT, join_all(calls)).await;
        }
    }

    /// How long a process may still serve the dropped values to a holder of a lock, by the caches that confirmed.
    pub(super) fn heard_within(&self, unconfirmed: &[&str]) -> Option<Duration> {
        let confirmed = self.caches.iter().filter(|pending| !unconfirmed.contains(&pending.cache.name()));
        confirmed.filter_map(|pending| pending.cache.0.heard_within()).max()
    }

    /// Invalidates in all caches at once and ends the intent. Returns the names of the caches that did not confirm. If
    /// several caches have one name, each of them has to confirm.
    pub(super) async fn flush(&self, intent: Option<&Intent>) -> Vec<&'static str> {
        let mut flushes = Vec::new();
        for pending in &self.caches {
            flushes.push(pending.flush(intent.filter(|_| pending.cache.0.is_strict())));
        }
        join_all(flushes).await.into_iter().flatten().collect()
    }
}

impl Pending {
    /// Returns the name of the cache if the cache did not confirm.
    async fn flush(&self, intent: Option<&Intent>) -> Option<&'static str> {
        let Self { cache, keys, tags } = self;
        let name = cache.name();
        let flushed = async {
            let Some(intent) = intent else {
                let (by_key, by_tag) = tokio::join!(cache.invalidate(keys), cache.invalidate_tags(tags));
                return by_key.and(by_tag);
            };
            if !cache.end(keys, &intent.id).await? {
                lost_intent(name);
            }
            Ok(())
        };
        let flushed = tokio::time::timeout(FLUSH_LIMIT, flushed).await;
        if let Ok(Ok(())) = flushed {
            return None;
        }
        tracing::debug!(?flushed, cache = name, "invalidation left to the relay");
        Some(name)
    }
}

/// A load may have stored a value from before the commit while the intent was gone. Ending the intent dropped that
/// value.
fn lost_intent(cache: &'static str) {
    metrics::count(metrics::CACHE_INTENT_LOST, &[metrics::tag("cache", cache)]);
    tracing::warn!(
        cache,
        "the intent of a write was gone when the write ended it: the cache store lost data, or this process stood \
         still for seconds and another one ended it"
    );
}
