use std::time::Duration;

/// What a loader found, with what it knows about it. A loader may as well return `Option<V>`.
///
/// ```
/// # use std::time::Duration;
/// use stockade::cache::Loaded;
///
/// let day_old = Loaded::new(Some("a report")).version(3).ttl(Duration::from_secs(86_400));
/// # assert_eq!(day_old, day_old.clone());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded<V> {
    pub(super) value: Option<V>,
    pub(super) version: Option<u64>,
    pub(super) ttl: Option<Duration>,
}

impl<V> Loaded<V> {
    /// A row, or that there is none.
    #[must_use]
    pub fn new(value: Option<V>) -> Self {
        Self { value, version: None, ttl: None }
    }

    /// The version of the row, for [`CacheInfo::version`](super::CacheInfo::version). It must change whenever the row does.
    #[must_use]
    pub fn version(self, version: u64) -> Self {
        Self { version: Some(version), ..self }
    }

    /// How long this is fresh, in place of what the cache was built with; at least 1 ms.
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { ttl: Some(ttl.max(Duration::from_millis(1))), ..self }
    }
}

impl<V> From<Option<V>> for Loaded<V> {
    fn from(value: Option<V>) -> Self {
        Self::new(value)
    }
}
