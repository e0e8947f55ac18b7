use std::{convert::Infallible, fmt, sync::Arc};

use axum::{
    extract::{FromRequestParts, OptionalFromRequestParts},
    http::{
        HeaderMap, HeaderName, HeaderValue, Method, StatusCode,
        header::{AGE, CACHE_CONTROL, ETAG},
        request::Parts,
    },
    response::{IntoResponse, IntoResponseParts, Response, ResponseParts},
};
use serde::{Serialize, de::DeserializeOwned};

use super::{CachedRejection, Degraded, conditional, directives, json::json, status};
use crate::{
    Cache, Resource,
    cache::{CacheInfo, Lookup},
};

/// The response header that says how a cache was used (RFC 9211).
pub const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");

/// A value that handlers take from a cache of the application's state.
///
/// ```
/// # use std::borrow::Cow;
/// # use stockade::{Cache, Resource, extract::FromCache};
/// # #[derive(Clone)]
/// # struct Sku(String);
/// # impl Resource for Sku {
/// #     const KIND: &'static str = "stock";
/// #     fn id(&self) -> Cow<'_, str> { Cow::Borrowed(&self.0) }
/// # }
/// # use axum::{extract::FromRequestParts, http::request::Parts};
/// # impl<S: Sync> FromRequestParts<S> for Sku {
/// #     type Rejection = std::convert::Infallible;
/// #     async fn from_request_parts(_: &mut Parts, _: &S) -> Result<Self, Self::Rejection> { Ok(Sku("a".into())) }
/// # }
/// struct Stock { quantity: u64, version: u64 }
///
/// struct App { stocks: Cache<Sku, Stock> }
///
/// impl FromCache<App> for Stock {
///     type Key = Sku;
///
///     fn cache(app: &App) -> &Cache<Sku, Stock> {
///         &app.stocks
///     }
///
///     fn version(&self) -> Option<u64> {
///         Some(self.version)
///     }
/// }
/// ```
pub trait FromCache<S>: Sized {
    /// The extractor that names the value in the request; it is the resource too.
    type Key: Resource + FromRequestParts<S>;

    /// The cache to take it from.
    fn cache(state: &S) -> &Cache<Self::Key, Self>;

    /// What changes whenever the value does and never repeats for its key, also after deletion and creation anew: the
    /// ETag. Without one there is no ETag and no 304.
    fn version(&self) -> Option<u64> {
        None
    }

    /// Whether this request may have the value loaded anew by `Cache-Control: no-cache`. Default: no request may, and all are
    /// answered as if they had not asked.
    ///
    /// The load runs as [`Cache::reload`] says: under a lease, within the limits of loads, shared with whoever asks for one at
    /// the same time. It still is one query for each request that comes alone, so let only those ask whom you know: an
    /// operator's token, a header that the proxy sets. What a middleware found out is in `parts.extensions`.
    ///
    /// `max-age=0`, which browsers send with every plain reload, and `Pragma` ask for nothing; directives of requests are
    /// advice (RFC 9111, section 5.2.1).
    ///
    /// ```
    /// # use axum::http::request::Parts;
    /// # #[derive(Clone)]
    /// struct Operator; // put into the extensions by the middleware that checks tokens
    ///
    /// fn honours_no_cache(parts: &Parts) -> bool {
    ///     parts.extensions.get::<Operator>().is_some()
    /// }
    /// ```
    fn honours_no_cache(parts: &Parts, state: &S) -> bool {
        let _ = (parts, state);
        false
    }
}

/// A cached value as extractor and as answer.
///
/// As an answer it is 200 with the value as JSON, or 304 without a body when `If-None-Match` names its version, with
/// `Cache-Status`, `Age`, `Cache-Control: no-cache` and `ETag`. An answer given outside the normal rules, because a store
/// was unreachable or the value has expired, has no `ETag` and is never 304.
///
/// `Cache-Control: no-cache` of a GET or HEAD has the value loaded anew where [`FromCache::honours_no_cache`] lets it.
///
/// Rejected with 404 when there is no such row, see [`CachedRejection`]; `Option<Cached<T>>` is `None` then.
pub struct Cached<T> {
    value: Arc<T>,
    info: CacheInfo,
    not_modified: bool,
}

impl<T> Cached<T> {
    /// Another view of the value with the same headers; the version stays that of the value.
    #[must_use]
    pub fn map<U>(self, view: impl FnOnce(Arc<T>) -> U) -> Cached<U> {
        Cached { value: Arc::new(view(self.value)), info: self.info, not_modified: self.not_modified }
    }

    /// How the value came about.
    #[must_use]
    pub fn info(&self) -> CacheInfo {
        self.info
    }

    /// The value, and the headers of the answer to be made of it. The conditional request is then the handler's own.
    #[must_use]
    pub fn into_parts(self) -> (Arc<T>, CacheInfo) {
        (self.value, self.info)
    }
}

impl<T> std::ops::Deref for Cached<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Clone for Cached<T> {
    fn clone(&self) -> Self {
        Self { value: Arc::clone(&self.value), ..*self }
    }
}

impl<T: fmt::Debug> fmt::Debug for Cached<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cached").field("value", &self.value).field("info", &self.info).finish_non_exhaustive()
    }
}

async fn look_up<T, S>(
    parts: &mut Parts,
    state: &S,
) -> Result<Lookup<T>, CachedRejection<<T::Key as FromRequestParts<S>>::Rejection>>
where
    S: Send + Sync,
    T: FromCache<S> + Serialize + DeserializeOwned + Send + Sync + 'static,
    T::Key: Clone + Send + Sync + 'static,
{
    let degraded = parts.extensions.get::<Degraded>().is_some();
    let key = T::Key::from_request_parts(parts, state).await.map_err(CachedRejection::Key)?;
    let cache = T::cache(state);
    let safe = matches!(parts.method, Method::GET | Method::HEAD);
    let anew = safe && directives::no_cache(&parts.headers) && T::honours_no_cache(parts, state);
    let refused = |error| CachedRejection::Cache { error, degraded: degraded || cache.is_degraded(), forced: anew };
    let found = if anew { cache.reload(&key).await } else { cache.get(&key).await };
    let mut found = found.map_err(refused)?;
    found.info.version = found.value.as_deref().and_then(T::version).or(found.info.version);
    found.info.degraded |= degraded;
    Ok(found)
}

impl<T> Cached<T> {
    fn found(value: Arc<T>, info: CacheInfo, parts: &Parts) -> Self {
        let safe = matches!(parts.method, Method::GET | Method::HEAD);
        let not_modified = safe && entity_tag(&info).is_some_and(|tag| conditional::none_match(&parts.headers, &tag));
        Self { value, info, not_modified }
    }
}

impl<T, S> FromRequestParts<S> for Cached<T>
where
    S: Send + Sync,
    T: FromCache<S> + Serialize + DeserializeOwned + Send + Sync + 'static,
    T::Key: Clone + Send + Sync + 'static,
{
    type Rejection = CachedRejection<<T::Key as FromRequestParts<S>>::Rejection>;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let Lookup { value, info } = look_up::<T, S>(parts, state).await?;
        let value = value.ok_or(CachedRejection::Absent(info))?;
        Ok(Self::found(value, info, parts))
    }
}

impl<T, S> OptionalFromRequestParts<S> for Cached<T>
where
    S: Send + Sync,
    T: FromCache<S> + Serialize + DeserializeOwned + Send + Sync + 'static,
    T::Key: Clone + Send + Sync + 'static,
{
    type Rejection = CachedRejection<<T::Key as FromRequestParts<S>>::Rejection>;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Option<Self>, Self::Rejection> {
        let Lookup { value, info } = look_up::<T, S>(parts, state).await?;
        Ok(value.map(|value| Self::found(value, info, parts)))
    }
}

impl<T: Serialize> IntoResponse for Cached<T> {
    fn into_response(self) -> Response {
        if self.not_modified {
            (StatusCode::NOT_MODIFIED, self.info, ()).into_response()
        } else {
            (self.info, json(StatusCode::OK, "application/json", &*self.value)).into_response()
        }
    }
}

/// `"<version>"`, unless the answer can't vouch for it.
fn entity_tag(info: &CacheInfo) -> Option<String> {
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

#[cfg(test)]
mod tests {
    use std::{borrow::Cow, convert::Infallible};

    use axum::{
        Router,
        body::Body,
        extract::Request,
        http::header::IF_NONE_MATCH,
        middleware::{self, Next},
        routing::get,
    };
    use tower::ServiceExt;

    use super::*;

    #[derive(Clone)]
    struct Id;

    impl Resource for Id {
        const KIND: &'static str = "count";

        fn id(&self) -> Cow<'_, str> {
            Cow::Borrowed("one")
        }
    }

    impl<S: Sync> FromRequestParts<S> for Id {
        type Rejection = Infallible;

        async fn from_request_parts(_: &mut Parts, _: &S) -> Result<Self, Infallible> {
            Ok(Self)
        }
    }

    #[derive(serde::Serialize, serde::Deserialize)]
    struct Count(u64);

    impl FromCache<Cache<Id, Self>> for Count {
        type Key = Id;

        fn cache(state: &Cache<Id, Self>) -> &Cache<Id, Self> {
            state
        }

        fn version(&self) -> Option<u64> {
            Some(self.0)
        }
    }

    async fn show(count: Cached<Count>) -> Cached<Count> {
        count
    }

    #[tokio::test]
    async fn an_answer_made_without_the_lock_has_no_etag_and_is_never_304() {
        let counts = Cache::memory().loader(|_: Id| async { Ok::<_, Infallible>(Some(Count(7))) }).build();
        let unlocked = middleware::from_fn(|mut request: Request, next: Next| {
            request.extensions_mut().insert(Degraded);
            next.run(request)
        });
        let app: Router = Router::new()
            .route("/unlocked", get(show).route_layer(unlocked))
            .route("/locked", get(show))
            .with_state(counts);
        for tags in [None, Some("\"7\""), Some("*")] {
            let ask = |path| {
                let request = Request::builder().uri(path);
                let request = tags.into_iter().fold(request, |request, tags| request.header(IF_NONE_MATCH, tags));
                app.clone().oneshot(request.body(Body::empty()).unwrap())
            };
            let locked = ask("/locked").await.unwrap();
            assert_eq!(locked.headers()[ETAG], "\"7\"");
            assert_eq!(locked.status() == StatusCode::NOT_MODIFIED, tags.is_some());
            let unlocked = ask("/unlocked").await.unwrap();
            assert_eq!(unlocked.status(), StatusCode::OK);
            assert!(!unlocked.headers().contains_key(ETAG));
            assert!(unlocked.headers()[CACHE_STATUS].to_str().unwrap().ends_with("; detail=degraded"));
        }
    }
}
