use std::convert::Infallible;

use axum::{
    extract::FromRequestParts,
    http::{HeaderMap, HeaderName, HeaderValue, header::AGE, request::Parts},
    response::{IntoResponseParts, ResponseParts},
};

use super::{CachePolicy, cache_policy::Unvouched, header_text::header, status::Status};
use crate::{
    cache::CacheInfo,
    route_lock::{Problem, Rejection},
};

/// The response header that says how a cache was used (RFC 9211).
pub const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");

impl CacheInfo {
    /// Whether the answer was given by the normal rules. Only then may a client get 304.
    pub(super) fn is_vouched(&self) -> bool {
        !self.degraded && !self.unlocked && self.stale.is_none()
    }

    /// Sets `Cache-Status`, `Age` and what `policy` says.
    pub(super) fn write(&self, policy: &CachePolicy, headers: &mut HeaderMap) {
        headers.extend(header(Status(self)).map(|status| (CACHE_STATUS, status)));
        headers.insert(AGE, HeaderValue::from(self.age.as_secs()));
        if self.is_vouched() {
            policy.write(headers);
        } else {
            policy.unvouched().write(headers);
        }
    }
}

/// Adds `Cache-Status`, `Age` and `Cache-Control: private, no-cache`. A [`CachePolicy`] after it says otherwise, but
/// gives an answer outside the normal rules no `max-age`.
///
/// It adds no `ETag`, because a handler may turn the value into another representation.
impl IntoResponseParts for CacheInfo {
    type Error = Infallible;

    fn into_response_parts(self, mut response: ResponseParts) -> Result<ResponseParts, Infallible> {
        self.write(&CachePolicy::default(), response.headers_mut());
        if !self.is_vouched() {
            response.extensions_mut().insert(Unvouched);
        }
        Ok(response)
    }
}

/// Tells how the `Option<Cached<_>>` before it in the handler's arguments came about, also when that is `None`. As part
/// of the answer it gives the handler's own 404 the headers of the usual one.
///
/// ```
/// # use axum::{http::StatusCode, response::IntoResponse};
/// # use stockade::{cache::CacheInfo, extract::Cached};
/// # type Stock = u64;
/// async fn show(stock: Option<Cached<Stock>>, info: CacheInfo) -> impl IntoResponse {
///     stock.ok_or((StatusCode::NOT_FOUND, info, "never heard of it"))
/// }
/// ```
///
/// After several `Option<Cached<_>>` arguments it belongs to the last of them. Without one it is rejected with 500.
impl<S: Sync> FromRequestParts<S> for CacheInfo {
    type Rejection = Rejection;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Rejection> {
        parts.extensions.get().copied().ok_or_else(|| {
            tracing::error!(
                path = parts.uri.path(),
                "a handler takes `CacheInfo`, but no `Option<Cached<_>>` before it"
            );
            Problem::Internal.into()
        })
    }
}
