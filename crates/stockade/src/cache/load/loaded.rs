use std::time::Duration;

use crate::cache::tags::{TagError, Tags};

/// The result of a loader: the row, or its absence, with its version, lifetime and tags. A loader that has none of
/// these may return `Option<V>` instead.
///
/// ```
/// # use std::time::Duration;
/// use stockade::cache::Loaded;
///
/// let day_old = Loaded::new(Some("a report")).version(3).ttl(Duration::from_secs(86_400)).tags(["supplier:7"]);
/// # assert_eq!(day_old, day_old.clone());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded<V> {
    pub(crate) value: Option<V>,
    pub(crate) version: Option<u64>,
    pub(crate) ttl: Option<Duration>,
    pub(crate) tags: Result<Tags, TagError>,
}

impl<V> Loaded<V> {
    /// A row, or `None` if there is no such row.
    #[must_use]
    pub fn new(value: Option<V>) -> Self {
        Self { value, version: None, ttl: None, tags: Ok(Tags::default()) }
    }

    /// The version of the row, for [`CacheInfo::version`](crate::cache::CacheInfo::version). It must change whenever
    /// the row does. The extractor `Cached` makes an `ETag` of it if the type has no version of its own: then it must
    /// never repeat for its key, not even after the row was deleted and created again.
    #[must_use]
    pub fn version(self, version: u64) -> Self {
        Self { version: Some(version), ..self }
    }

    /// How long this value is fresh. Default: the lifetime set by
    /// [`CacheBuilder::ttl`](crate::cache::CacheBuilder::ttl). At least 1 ms, and at most 10 minutes in a strict cache.
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { ttl: Some(ttl.max(Duration::from_millis(1))), ..self }
    }

    /// The tags of this value: [`Cache::invalidate_tag`](crate::cache::Cache::invalidate_tag) drops every value with a
    /// tag. Up to 32 texts of 1 to 128 bytes without control characters. Other tags make the load fail with
    /// [`CacheError::Tag`](crate::cache::CacheError::Tag). Absence can have tags too. Default: none.
    ///
    /// If a new version of a loader gives other tags, increase
    /// [`CacheBuilder::schema`](crate::cache::CacheBuilder::schema). While the old version of the program runs, also
    /// invalidate by key: the values that the old version stores lack the new tags.
    ///
    /// A read of a value with tags from Redis takes one more round trip, to check the tags.
    #[must_use]
    pub fn tags<T: AsRef<str>>(self, tags: impl IntoIterator<Item = T>) -> Self {
        Self { tags: Tags::new(tags), ..self }
    }

    /// Checks the tags: an error if they are invalid, or if there are tags and the cache takes none.
    pub(crate) fn accepted(self, takes_tags: Result<(), TagError>) -> Result<Self, TagError> {
        match &self.tags {
            Err(error) => Err(error.clone()),
            Ok(tags) if tags.is_empty() => Ok(self),
            Ok(_) => takes_tags.map(|()| self),
        }
    }

    pub(crate) fn known_tags(&self) -> Tags {
        self.tags.clone().unwrap_or_default()
    }
}

impl<V> From<Option<V>> for Loaded<V> {
    fn from(value: Option<V>) -> Self {
        Self::new(value)
    }
}
