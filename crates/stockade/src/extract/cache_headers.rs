use std::convert::Infallible;

use axum::{
    http::{
        HeaderMap, HeaderName, HeaderValue,
        header::{AGE, CACHE_CONTROL, ETAG},
    },
    response::{IntoResponseParts, ResponseParts},
};

use super::status;
use crate::cache::CacheInfo;

/// The response header that says how a cache was used (RFC 9211).
pub const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");

/// `"<version>"`, unless the answer can't vouch for it.
pub(super) fn entity_tag(info: &CacheInfo) -> Option<String> {
    let vouched = !info.degraded && info.stale.is_none();
    info.version.filter(|_| vouched).map(|version| format!("\"{version}\""))
}

impl CacheInfo {
    /// Sets `Cache-Status`, `Age`, `Cache-Control` and, where the answer can vouch for it, `ETag`.
    pub(super) fn write(&self, headers: &mut HeaderMap) {
        let text = |text: String| HeaderValue::try_from(text).ok();
        headers.extend(text(status::of(self)).map(|value| (CACHE_STATUS, value)));
        headers.insert(AGE, HeaderValue::from(self.age.as_secs()));
        // An ETag alone would let shared caches answer by their own guess of freshness.
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        headers.extend(entity_tag(self).and_then(text).map(|value| (ETAG, value)));
    }
}

/// Adds `Cache-Status`, `Age`, `Cache-Control: no-cache` and, where the answer can vouch for it, `ETag`.
impl IntoResponseParts for CacheInfo {
    type Error = Infallible;

    fn into_response_parts(self, mut response: ResponseParts) -> Result<ResponseParts, Infallible> {
        self.write(response.headers_mut());
        Ok(response)
    }
}
