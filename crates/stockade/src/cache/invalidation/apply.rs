//! How the store and the in-process tier hear of a write.

use std::time::Duration;

use futures_util::future::BoxFuture;

use super::invalidator::Invalidate;
use crate::{
    cache::{
        CacheError,
        core::{CacheKey, CacheValue, Core},
        store::{HEARD_WITHIN, Outcomes, UnsureRun},
        strict::Intent,
        tags::Tag,
    },
    resource::Key,
};

impl<K: CacheKey, V: CacheValue> Core<K, V> {
    pub(crate) async fn end_all(&self, keys: &[Key], id: &str) -> Outcomes<bool> {
        let ended = self.store.end(keys, id).await;
        self.forget(keys);
        ended
    }

    fn forget(&self, keys: &[Key]) {
        for key in keys {
            self.local.invalidate(key);
            self.flights.detach(key);
        }
    }

    /// Drops values with a tag from the in-process tier. Flights go on: their tags are not known yet, and a caller that
    /// boards one late takes its answer only if the store accepted the value.
    fn forget_tags(&self, tags: &[Tag]) {
        for tag in tags {
            if tag.is_all() {
                self.local.flush();
                self.flights.detach_all();
            } else {
                self.local.invalidate_tag(tag);
            }
        }
    }
}

impl<K: CacheKey, V: CacheValue> Invalidate for Core<K, V> {
    fn name(&self) -> &'static str {
        self.settings.name
    }

    fn invalidate<'a>(&'a self, keys: &'a [Key]) -> BoxFuture<'a, Outcomes<()>> {
        Box::pin(async move {
            self.forget(keys);
            let confirmed = self.store.invalidate(keys).await;
            // Again: a read of this process may have fetched the old value before the store dropped it. The message of
            // the invalidation, which would drop that value here, may arrive later than the reply.
            self.forget(keys);
            confirmed
        })
    }

    fn invalidate_tags<'a>(&'a self, tags: &'a [Tag]) -> BoxFuture<'a, Outcomes<()>> {
        Box::pin(async move {
            self.forget_tags(tags);
            let confirmed = self.store.invalidate_tags(tags).await;
            // Again, for the same reason as for keys.
            self.forget_tags(tags);
            confirmed
        })
    }

    fn is_strict(&self) -> bool {
        self.settings.strict.is_some()
    }

    fn heard_within(&self) -> Option<Duration> {
        self.settings.under_locks.then_some(HEARD_WITHIN)
    }

    fn begin<'a>(&'a self, keys: &'a [Key], intent: &'a Intent) -> BoxFuture<'a, Result<(), CacheError>> {
        Box::pin(async move {
            let confirmed = self.store.begin(keys, intent).await;
            // Every read of the store from now on finds the intent.
            self.forget(keys);
            confirmed
        })
    }

    fn sweep(&self) -> BoxFuture<'_, Result<(), CacheError>> {
        Box::pin(self.sweep_announced())
    }

    fn unsure_run(&self) -> Option<UnsureRun> {
        self.store.unsure_run()
    }

    fn trust<'a>(&'a self, run: &'a UnsureRun) -> BoxFuture<'a, Result<(), CacheError>> {
        Box::pin(self.store.trust_run(run))
    }

    fn end<'a>(&'a self, keys: &'a [Key], id: &'a str) -> BoxFuture<'a, Outcomes<bool>> {
        Box::pin(self.end_all(keys, id))
    }
}
