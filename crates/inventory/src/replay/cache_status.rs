use reqwest::header::{HeaderMap, HeaderName};
use serde::Serialize;

const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");

/// The source of a read's answer, by its `Cache-Status` header (RFC 9211).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// A value kept in the process.
    Local,
    /// A value kept in Redis.
    Redis,
    /// One of these two: the answer says something else in place of its source.
    #[serde(rename = "local_or_redis")]
    LocalOrRedis,
    /// A known absence.
    Negative,
    /// A value past its lifetime, within its grace.
    Stale,
    /// The database, for this request.
    #[serde(rename = "loads")]
    Load,
    /// The database, for another request that was under way.
    Collapsed,
    /// Nowhere: the load was refused.
    Shed,
}

impl Source {
    pub(crate) const ALL: [Self; 8] = [
        Self::Local,
        Self::Redis,
        Self::LocalOrRedis,
        Self::Negative,
        Self::Stale,
        Self::Load,
        Self::Collapsed,
        Self::Shed,
    ];
}

/// The source, and whether the answer was given outside the normal rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CacheStatus {
    /// `None` if the header is missing or says something else.
    pub(crate) source: Option<Source>,
    pub(crate) degraded: bool,
}

impl CacheStatus {
    pub(crate) fn read(headers: &HeaderMap) -> Self {
        let text = headers.get(CACHE_STATUS).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let mut hit = false;
        let mut ttl = None;
        let mut source = None;
        let mut degraded = false;
        for parameter in text.split(';').skip(1).map(str::trim) {
            match parameter.split_once('=').unwrap_or((parameter, "")) {
                ("hit", _) => hit = true,
                ("ttl", text) => ttl = Some(text),
                ("fwd", _) if source.is_none() => source = Some(Source::Load),
                ("collapsed", _) => source = Some(Source::Collapsed),
                ("detail", detail) => match detail.trim_matches('"') {
                    "local" => source = Some(Source::Local),
                    "redis" => source = Some(Source::Redis),
                    "negative" => source = Some(Source::Negative),
                    "shed" => source = Some(Source::Shed),
                    "degraded" => degraded = true,
                    _ => {}
                },
                _ => {}
            }
        }
        if hit {
            source = match ttl {
                Some(ttl) if ttl.starts_with('-') => Some(Source::Stale),
                Some(_) => source.or(Some(Source::LocalOrRedis)),
                None => Some(Source::Negative),
            };
        }
        Self { source, degraded }
    }
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    fn read(text: &'static str) -> (Source, bool) {
        let status = CacheStatus::read(&HeaderMap::from_iter([(CACHE_STATUS, HeaderValue::from_static(text))]));
        (status.source.unwrap(), status.degraded)
    }

    #[test]
    fn every_form_that_the_service_sends_is_understood() {
        assert_eq!(read("stockade; hit; ttl=120; detail=local"), (Source::Local, false));
        assert_eq!(read("stockade; hit; ttl=120; detail=redis"), (Source::Redis, false));
        assert_eq!(read("stockade; hit; detail=negative"), (Source::Negative, false));
        assert_eq!(read("stockade; hit; ttl=-7"), (Source::Stale, false));
        assert_eq!(read("stockade; hit; ttl=-7; detail=degraded"), (Source::Stale, true));
        assert_eq!(read("stockade; hit; ttl=7; detail=degraded"), (Source::LocalOrRedis, true));
        assert_eq!(read("stockade; hit; ttl=7; detail=unlocked"), (Source::LocalOrRedis, false));
        assert_eq!(read("stockade; hit; detail=degraded"), (Source::Negative, true));
        assert_eq!(read("stockade; fwd=uri-miss; stored"), (Source::Load, false));
        assert_eq!(read("stockade; fwd=uri-miss; detail=degraded"), (Source::Load, true));
        assert_eq!(read("stockade; fwd=uri-miss; collapsed"), (Source::Collapsed, false));
        assert_eq!(read("stockade; collapsed; fwd=uri-miss"), (Source::Collapsed, false));
        assert_eq!(read("stockade; fwd=uri-miss; detail=shed"), (Source::Shed, false));
    }

    #[test]
    fn an_answer_without_the_header_has_no_source() {
        assert_eq!(CacheStatus::read(&HeaderMap::new()), CacheStatus { source: None, degraded: false });
    }
}
