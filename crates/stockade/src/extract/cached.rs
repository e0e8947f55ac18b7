use std::{fmt, sync::Arc};

use axum::{
    extract::{FromRequestParts, OptionalFromRequestParts},
    http::{Method, StatusCode, request::Parts},
    response::{IntoResponse, Response},
};
use serde::{Serialize, de::DeserializeOwned};

use super::{CachedRejection, Degraded, FromCache, cache_headers::entity_tag, conditional, directives, json::json};
use crate::cache::{CacheInfo, Lookup};

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

#[cfg(test)]
mod tests {
    use std::{borrow::Cow, convert::Infallible};

    use axum::{
        Router,
        body::Body,
        extract::Request,
        http::header::{ETAG, IF_NONE_MATCH},
        middleware::{self, Next},
        routing::get,
    };
    use tower::ServiceExt;

    use super::*;
    use crate::{Cache, Resource, extract::CACHE_STATUS};

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
