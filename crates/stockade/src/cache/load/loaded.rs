use std::time::Duration;

use crate::cache::tags::{TagError, Tags};

/// What a loader found, with what it knows about it. A loader may as well return `Option<V>`.
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
    /// A row, or that there is none.
    #[must_use]
    pub fn new(value: Option<V>) -> Self {
        Self { value, version: None, ttl: None, tags: Ok(Tags::default()) }
    }

    /// The version of the row, for [`CacheInfo::version`](crate::cache::CacheInfo::version). It must change whenever
    /// the row does.
    #[must_use]
    pub fn version(self, version: u64) -> Self {
        Self { version: Some(version), ..self }
    }

    /// How long this is fresh, in place of what the cache was built with; at least 1 ms. A strict cache keeps it for 10
    /// minutes at most, see [`CacheBuilder::ttl`](crate::cache::CacheBuilder::ttl).
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { ttl: Some(ttl.max(Duration::from_millis(1))), ..self }
    }

    /// What this is invalidated by, beside its key, with
    /// [`Cache::invalidate_tag`](crate::cache::Cache::invalidate_tag): up to 32 texts of 1 to 128 bytes without control
    /// characters; others fail the load with [`CacheError::Tag`](crate::cache::CacheError::Tag). Absence can be tagged
    /// as well. Default none.
    ///
    /// When a loader begins to give other tags, raise [`CacheBuilder::schema`](crate::cache::CacheBuilder::schema), and
    /// go on invalidating by key as well while the old version of the program runs: what that has stored lacks the new
    /// tags.
    ///
    /// A value with tags costs each read from Redis one round trip more, in which its tags are asked about.
    #[must_use]
    pub fn tags<T: AsRef<str>>(self, tags: impl IntoIterator<Item = T>) -> Self {
        Self { tags: Tags::new(tags), ..self }
    }
}

impl<V> Loaded<V> {
    /// What is left of it for a cache that takes tags, or the refusal of its tags.
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
