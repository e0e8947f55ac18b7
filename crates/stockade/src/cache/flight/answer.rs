use crate::{
    cache::{CacheError, CacheInfo, Loaded, Lookup, Source, value::Entry},
    clock::Instant,
};

/// The value that a flight fetched, and where it came from.
#[derive(Debug)]
pub(crate) struct Answer<V> {
    pub(crate) entry: Entry<V>,
    pub(crate) source: Source,
    pub(crate) degraded: bool,
    pub(crate) stored: bool,
    /// Whether it was loaded by another process.
    pub(crate) waited: bool,
}

/// How a flight ended.
#[derive(Debug)]
pub(crate) enum Outcome<V> {
    /// A value. With `Some(n)`, only passengers with a number below `n` may take it. They boarded before the source of
    /// the value was asked; a later passenger may know of a write that the value does not hold.
    Answer(Answer<V>, Option<u64>),
    Failed(CacheError),
    /// The task of the flight ended without an outcome.
    Lost,
}

impl<V> Clone for Answer<V> {
    fn clone(&self) -> Self {
        Self { entry: self.entry.clone(), ..*self }
    }
}

impl<V> Clone for Outcome<V> {
    fn clone(&self) -> Self {
        match self {
            Self::Answer(answer, before) => Self::Answer(answer.clone(), *before),
            Self::Failed(error) => Self::Failed(error.clone()),
            Self::Lost => Self::Lost,
        }
    }
}

impl<V> Answer<V> {
    /// The answer for an entry of this source.
    pub(crate) fn from_entry(entry: Entry<V>, source: Source, degraded: bool) -> Self {
        Self { entry, source, degraded, stored: false, waited: false }
    }

    /// The answer for a loaded value that is not stored, or not yet.
    pub(crate) fn unstored(loaded: Loaded<V>, weight: u64, degraded: bool) -> Self {
        let (version, tags) = (loaded.version, loaded.known_tags());
        let entry = Entry { version, tags, ..Entry::new(loaded.value, weight) };
        Self::from_entry(entry, Source::Load, degraded)
    }

    /// The answer if the filter says that there is no such row.
    pub(crate) fn ruled_out() -> Self {
        Self { source: Source::Filter, ..Self::unstored(Loaded::new(None), 0, false) }
    }
}

pub(crate) fn lookup<V>(answer: Answer<V>, joined: bool) -> Lookup<V> {
    lookup_at(Instant::now(), answer, joined)
}

pub(crate) fn lookup_at<V>(now: Instant, answer: Answer<V>, joined: bool) -> Lookup<V> {
    let Answer { entry, source, degraded, stored, waited } = answer;
    // A value from neither tier was just loaded, so it can't have expired.
    let kept = matches!(source, Source::Local | Source::Redis);
    let info = CacheInfo {
        source,
        absent: entry.value.is_none(),
        age: now.since(entry.loaded),
        ttl: entry.expires.since(now),
        stale: if kept { entry.staleness(now) } else { None },
        degraded,
        unlocked: false,
        collapsed: joined || waited,
        stored,
        version: entry.version,
    };
    Lookup { value: entry.value, info }
}
