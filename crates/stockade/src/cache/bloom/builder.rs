use std::{fmt, marker::PhantomData};

use futures_util::{Stream, StreamExt};

use super::{Bloom, geometry::Geometry, shared::SourceFn};
use crate::{
    Redis, Resource,
    cache::{BuildError, LoadError},
    resource::Key,
};

/// Settings of a [`Bloom`].
#[must_use = "a builder does nothing until `build()`"]
pub struct BloomBuilder<K> {
    redis: Redis,
    name: &'static str,
    expected: u64,
    rate: f64,
    source: Option<SourceFn>,
    keys: PhantomData<fn(K)>,
}

impl Bloom {
    /// Settings of a filter on a Redis.
    pub fn builder<K: Resource>(redis: &Redis) -> BloomBuilder<K> {
        let (redis, name) = (redis.clone(), K::KIND);
        BloomBuilder { redis, name, expected: 100_000, rate: 0.01, source: None, keys: PhantomData }
    }
}

impl<K: Resource> BloomBuilder<K> {
    /// The name of the filter, `[a-z0-9_-]+`. Default: [`Resource::KIND`]. Filters with one name in one namespace are
    /// the same filter, so keys of another kind or from another source need a filter of another name. In one process
    /// and on one [`Redis`], a second filter of the name is refused until the last clone of the first one is dropped.
    pub fn name(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    /// How many keys the filter is made for. With more keys the rate of false positives rises, and a warning is logged.
    /// Default: 100,000.
    pub fn expected(self, keys: u64) -> Self {
        Self { expected: keys, ..self }
    }

    /// The share of absent keys that the filter lets pass when it holds as many keys as expected. Above 0 and below 1.
    /// Default: 0.01.
    pub fn false_positives(self, rate: f64) -> Self {
        Self { rate, ..self }
    }

    /// All ids that exist. The filter is built from them. One process of the fleet calls the source whenever there is
    /// no complete filter. If another server may be the primary, that is at the earliest 13 seconds after the
    /// connection was made. The source must begin to read after it is called; see the [module docs](super).
    pub fn source<S, E>(self, source: impl Fn() -> S + Send + Sync + 'static) -> Self
    where
        S: Stream<Item = Result<K, E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let source: SourceFn = Box::new(move || {
            let key =
                |key: Result<K, E>| key.map_err(LoadError::new).and_then(|key| Key::of(&key).map_err(LoadError::new));
            source().map(key).boxed()
        });
        Self { source: Some(source), ..self }
    }

    /// Builds the handle.
    ///
    /// # Panics
    ///
    /// If [`BloomBuilder::try_build`] would return an error, and outside of a tokio runtime.
    #[must_use]
    pub fn build(self) -> Bloom {
        self.try_build().unwrap_or_else(|error| panic!("{error}"))
    }

    /// Builds the handle.
    ///
    /// # Errors
    ///
    /// [`BuildError::Name`], [`BuildError::NameTaken`], [`BuildError::Setting`], [`BuildError::Cluster`].
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn try_build(self) -> Result<Bloom, BuildError> {
        if !crate::resource::is_name(self.name) {
            return Err(crate::resource::KeyError::Name(self.name.to_owned()).into());
        }
        if self.redis.is_cluster() {
            return Err(BuildError::Cluster(self.name));
        }
        let wrong = |setting, remedy| BuildError::Setting { name: self.name, setting, remedy };
        if !(self.rate > 0.0 && self.rate < 1.0) {
            return Err(wrong("false_positives", "must be above 0 and below 1"));
        }
        if self.expected == 0 {
            return Err(wrong("expected", "must be 1 or more"));
        }
        let geometry = Geometry::of(self.expected, self.rate);
        let geometry =
            geometry.ok_or_else(|| wrong("expected", "needs over 512 MiB at this rate: allow more false positives"))?;
        let source = self.source.ok_or_else(|| wrong("source", "is missing: the filter is built from it"))?;
        Bloom::open::<K>(&self.redis, self.name, self.expected, geometry, source)
    }
}

impl<K> fmt::Debug for BloomBuilder<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BloomBuilder")
            .field("name", &self.name)
            .field("expected", &self.expected)
            .field("false_positives", &self.rate)
            .finish_non_exhaustive()
    }
}
