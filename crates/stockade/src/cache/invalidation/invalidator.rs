use std::{fmt, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;

use crate::{
    cache::{
        CacheError,
        store::{Outcomes, UnsureRun},
        strict::Intent,
        tags::{Tag, TagError},
    },
    resource::Key,
};

/// The invalidating side of a cache, for code that knows neither its key type nor its value type.
pub(crate) trait Invalidate: Send + Sync + 'static {
    fn name(&self) -> &'static str;

    fn invalidate<'a>(&'a self, keys: &'a [Key]) -> BoxFuture<'a, Outcomes<()>>;

    fn invalidate_tags<'a>(&'a self, tags: &'a [Tag]) -> BoxFuture<'a, Outcomes<()>>;

    /// Whether writes are announced to it before they commit.
    fn is_strict(&self) -> bool;

    /// How long after an invalidation a process may still serve the old value to callers that hold a lock, because it
    /// has not heard of the invalidation yet. `None` if the cache serves nothing under locks.
    fn heard_within(&self) -> Option<Duration>;

    /// Announces a write. If an error is returned, the transaction must not commit.
    fn begin<'a>(&'a self, keys: &'a [Key], intent: &'a Intent) -> BoxFuture<'a, Result<(), CacheError>>;

    /// The run of the store that may lack invalidations which an earlier run acknowledged.
    fn unsure_run(&self) -> Option<UnsureRun>;

    /// Marks this run as trusted. Call it after all invalidations that the run may lack were repeated.
    fn trust<'a>(&'a self, run: &'a UnsureRun) -> BoxFuture<'a, Result<(), CacheError>>;

    /// Ends the intents of writers that died. Must be called about once a second.
    fn sweep(&self) -> BoxFuture<'_, Result<(), CacheError>>;

    /// Ends an intent and invalidates its keys. Returns for each key whether the intent was still there.
    fn end<'a>(&'a self, keys: &'a [Key], id: &'a str) -> BoxFuture<'a, Outcomes<bool>>;
}

/// The invalidating side of a [`Cache`](crate::cache::Cache), without its types: for transactions and relays.
#[derive(Clone)]
pub struct Invalidator(pub(crate) Arc<dyn Invalidate>);

impl Invalidator {
    /// The name of the cache.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.0.name()
    }

    /// Drops the values of these keys in every process and voids their running loads. Idempotent.
    ///
    /// Call it after the write was committed. The values in the memory of this process are dropped even if Redis is
    /// unreachable. If the future is dropped, each key may or may not be invalidated: call it again.
    ///
    /// # Errors
    ///
    /// [`CacheError::Unavailable`] if Redis did not confirm every key: call it again.
    pub async fn invalidate(&self, keys: &[Key]) -> Result<(), CacheError> {
        all(self.0.invalidate(keys).await).map(drop)
    }

    /// Drops every value with this tag in every process, and voids the running loads of such values. It takes one
    /// script, however many values there are. Idempotent. Otherwise as [`Invalidator::invalidate`].
    ///
    /// # Errors
    ///
    /// [`CacheError::Tag`]. [`CacheError::Unavailable`] if Redis did not confirm it: call it again.
    pub async fn invalidate_tag<T: AsRef<str> + Sync + ?Sized>(&self, tag: &T) -> Result<(), CacheError> {
        let tag = self.tag(tag)?;
        self.invalidate_tags(&[tag]).await
    }

    /// Drops every value of the cache in every process, and voids all running loads. It takes one script, however many
    /// values there are. Idempotent. Otherwise as [`Cache::clear`](crate::cache::Cache::clear).
    ///
    /// # Errors
    ///
    /// [`CacheError::Unavailable`] if Redis did not confirm it: call it again.
    pub async fn clear(&self) -> Result<(), CacheError> {
        self.invalidate_tags(&[Tag::all()]).await
    }

    /// The tag that stands for the whole cache, for a transaction. A strict cache refuses it.
    #[cfg(feature = "postgres")]
    pub(crate) fn whole(&self) -> Result<Tag, TagError> {
        if self.0.is_strict() { Err(TagError::Strict(self.name())) } else { Ok(Tag::all()) }
    }

    /// Checks a tag. A strict cache refuses every tag.
    pub(crate) fn tag(&self, text: impl AsRef<str>) -> Result<Tag, TagError> {
        if self.0.is_strict() { Err(TagError::Strict(self.name())) } else { Tag::new(text) }
    }

    pub(crate) async fn invalidate_tags(&self, tags: &[Tag]) -> Result<(), CacheError> {
        all(self.0.invalidate_tags(tags).await).map(drop)
    }

    /// Whether both belong to the same cache. Names are not enough: caches in different namespaces, or in memory, may
    /// share a name.
    #[cfg(feature = "postgres")]
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Ends an intent, as [`Invalidate::end`]. Returns whether it was still there for all keys.
    #[cfg(feature = "postgres")]
    pub(crate) async fn end(&self, keys: &[Key], id: &str) -> Result<bool, CacheError> {
        Ok(all(self.0.end(keys, id).await)?.into_iter().all(|was_there| was_there))
    }
}

/// All results, or the first error.
fn all<T>(outcomes: Outcomes<T>) -> Result<Vec<T>, CacheError> {
    outcomes.into_iter().map(|outcome| outcome.map_err(|not_taken| not_taken.error)).collect()
}

impl fmt::Debug for Invalidator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Invalidator").field(&self.name()).finish()
    }
}
