use std::{fmt, sync::Arc};

use axum::{
    extract::{FromRequestParts, OptionalFromRequestParts},
    http::{
        HeaderValue, Method, StatusCode,
        header::{ETAG, IF_NONE_MATCH},
        request::Parts,
    },
    response::{IntoResponse, Response},
};
use serde::{Serialize, de::DeserializeOwned};

use super::{
    CachePolicy, CachedRejection, Degraded, EntityTag, FromCache, Unlocked,
    cache_policy::Unvouched,
    conditional::{Comparison, any_names},
    header_text::header,
    json::{unwritable, written},
    no_body::no_body,
};
use crate::{
    cache::{CacheInfo, Lookup},
    route_lock::RequestLocks,
};

/// A cached value, as extractor and as answer.
///
/// The answer is 200 with the value as JSON, or 304 without a body if `If-None-Match` names its [`EntityTag`]. Its
/// headers are `Cache-Status`, `Age`, `ETag` and those of [`FromCache::cache_policy`], by default `Cache-Control:
/// private, no-cache`. An answer outside the normal rules, because a store was unreachable, the read has no lock or the
/// value has expired, has no `ETag` and is never 304. `If-Match` is for writes, and is not looked at here.
///
/// In an answer of several parts, put no status in front of it: that would take the place of the 304, and the client
/// would keep the empty body. A layer that compresses must leave 304 out: of `tower-http`, with
/// `.compress_when(DefaultPredicate::new().and(|status: StatusCode, _, _: &_, _: &_| status != 304))`.
///
/// If there is no such row, the request is rejected with 404, see [`CachedRejection`]. `Option<Cached<T>>` is `None`
/// instead, and a [`CacheInfo`] after it tells how that is known.
pub struct Cached<T> {
    value: Arc<T>,
    answer: Answer,
    /// Whether the value is a view of what is in the cache.
    mapped: bool,
}

/// What an answer needs besides its value.
#[derive(Clone, Debug)]
struct Answer {
    info: CacheInfo,
    policy: CachePolicy,
    /// The tag of the value as it is in the cache. `None` if no client may get 304.
    tag: Option<EntityTag>,
    /// The lines of `If-None-Match`.
    condition: Vec<HeaderValue>,
}

impl<T> Cached<T> {
    /// Answers with another view of the value. The headers stay, except that the `ETag` now covers the version of the
    /// value and the bytes of the view, because a view may depend on the client. The view is therefore computed even
    /// for a 304.
    #[must_use]
    pub fn map<U>(self, view: impl FnOnce(Arc<T>) -> U) -> Cached<U> {
        Cached { value: Arc::new(view(self.value)), answer: self.answer, mapped: true }
    }

    /// How the value came about.
    #[must_use]
    pub fn info(&self) -> CacheInfo {
        self.answer.info
    }

    /// The `ETag` of the value as it is in the cache. `None` if the value has no version, or if the answer is outside
    /// the normal rules. If a handler turns the value into something else, that needs a tag of its own.
    #[must_use]
    pub fn etag(&self) -> Option<EntityTag> {
        self.answer.tag
    }

    /// The value, and how it came about. Conditional requests, `ETag` and [`CachePolicy`] are then up to the handler.
    #[must_use]
    pub fn into_parts(self) -> (Arc<T>, CacheInfo) {
        (self.value, self.answer.info)
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
        Self { value: Arc::clone(&self.value), answer: self.answer.clone(), mapped: self.mapped }
    }
}

impl<T: fmt::Debug> fmt::Debug for Cached<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cached").field("value", &self.value).field("info", &self.answer.info).finish_non_exhaustive()
    }
}

type Found<T, S> = Result<(Option<Cached<T>>, CacheInfo), CachedRejection<KeyRejection<T, S>>>;
type KeyRejection<T, S> = <<T as FromCache<S>>::Key as FromRequestParts<S>>::Rejection;

async fn look_up<T, S>(parts: &mut Parts, state: &S) -> Found<T, S>
where
    S: Send + Sync,
    T: FromCache<S> + Serialize + DeserializeOwned + Send + Sync + 'static,
    T::Key: Clone + Send + Sync + 'static,
{
    let degraded = parts.extensions.get::<Degraded>().is_some();
    let unlocked = parts.extensions.get::<Unlocked>().is_some();
    let key = T::Key::from_request_parts(parts, state).await.map_err(CachedRejection::Key)?;
    let cache = T::cache(state);
    let safe = matches!(parts.method, Method::GET | Method::HEAD);
    let refused = |error| CachedRejection::Cache { error, degraded: degraded || cache.is_degraded() };
    let held_since = |key: &str| RequestLocks::of(&parts.extensions)?.shared_since(key);
    let found = match cache.core.local_hit_under_lock(&key, held_since) {
        Some(found) => Ok(found),
        None => cache.get(&key).await,
    };
    let Lookup { value, mut info } = found.map_err(refused)?;
    info.version = value.as_deref().and_then(T::version).or(info.version);
    info.degraded |= degraded;
    info.unlocked = unlocked;
    let Some(value) = value else { return Ok((None, info)) };
    // A value that was found has a key.
    let tag_of = |version| EntityTag::of::<T, S>(state, &key, version).ok();
    let answer = Answer {
        info,
        policy: T::cache_policy(parts, state),
        tag: info.version.filter(|_| info.is_vouched()).and_then(tag_of),
        condition: if safe { parts.headers.get_all(IF_NONE_MATCH).iter().cloned().collect() } else { Vec::new() },
    };
    Ok((Some(Cached { value, answer, mapped: false }), info))
}

impl<T, S> FromRequestParts<S> for Cached<T>
where
    S: Send + Sync,
    T: FromCache<S> + Serialize + DeserializeOwned + Send + Sync + 'static,
    T::Key: Clone + Send + Sync + 'static,
{
    type Rejection = CachedRejection<KeyRejection<T, S>>;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let (found, info) = look_up::<T, S>(parts, state).await?;
        found.ok_or(CachedRejection::Absent(info))
    }
}

impl<T, S> OptionalFromRequestParts<S> for Cached<T>
where
    S: Send + Sync,
    T: FromCache<S> + Serialize + DeserializeOwned + Send + Sync + 'static,
    T::Key: Clone + Send + Sync + 'static,
{
    type Rejection = CachedRejection<KeyRejection<T, S>>;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Option<Self>, Self::Rejection> {
        let (found, info) = look_up::<T, S>(parts, state).await?;
        // For the handler's own 404, which takes it by the extractor of `CacheInfo`.
        parts.extensions.insert(info);
        Ok(found)
    }
}

impl<T: Serialize> Cached<T> {
    fn respond(self) -> serde_json::Result<Response> {
        let Self { value, answer: Answer { info, policy, tag, condition }, mapped } = self;
        let write = || serde_json::to_vec(&*value);
        let (tag, body) = match tag {
            Some(tag) if mapped => {
                let body = write()?;
                (Some(tag.of_view(&body)), Some(body))
            }
            tag => (tag, None),
        };
        let tag = tag.and_then(header);
        let same = tag.as_ref().is_some_and(|tag| any_names(&condition, tag.as_bytes(), Comparison::Weak));
        let mut response = if same {
            (StatusCode::NOT_MODIFIED, no_body()).into_response()
        } else {
            written(body.map_or_else(write, Ok)?)
        };
        info.write(&policy, response.headers_mut());
        if !info.is_vouched() {
            response.extensions_mut().insert(Unvouched);
        }
        response.headers_mut().extend(tag.map(|tag| (ETAG, tag)));
        Ok(response)
    }
}

impl<T: Serialize> IntoResponse for Cached<T> {
    fn into_response(self) -> Response {
        self.respond().unwrap_or_else(|error| unwritable(&error))
    }
}

#[cfg(test)]
mod tests {
    use std::{borrow::Cow, convert::Infallible};

    use axum::{
        Router,
        body::Body,
        extract::Request,
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
        let degraded = middleware::from_fn(|mut request: Request, next: Next| {
            request.extensions_mut().insert(Degraded);
            next.run(request)
        });
        let unlocked = middleware::from_fn(|mut request: Request, next: Next| {
            request.extensions_mut().insert(Unlocked);
            next.run(request)
        });
        let tag = EntityTag::of::<Count, _>(&counts, &Id, 7).unwrap().to_string();
        let app: Router = Router::new()
            .route("/degraded", get(show).route_layer(degraded))
            .route("/unlocked", get(show).route_layer(unlocked))
            .route("/locked", get(show))
            .with_state(counts);
        for tags in [None, Some(tag.as_str()), Some("*")] {
            let ask = |path| {
                let request = Request::builder().uri(path);
                let request = tags.into_iter().fold(request, |request, tags| request.header(IF_NONE_MATCH, tags));
                app.clone().oneshot(request.body(Body::empty()).unwrap())
            };
            let locked = ask("/locked").await.unwrap();
            assert_eq!(locked.headers()[ETAG], tag);
            assert_eq!(locked.status() == StatusCode::NOT_MODIFIED, tags.is_some());
            for (path, detail) in [("/degraded", "; detail=degraded"), ("/unlocked", "; detail=unlocked")] {
                let answer = ask(path).await.unwrap();
                assert_eq!(answer.status(), StatusCode::OK);
                assert!(!answer.headers().contains_key(ETAG));
                assert!(answer.headers()[CACHE_STATUS].to_str().unwrap().ends_with(detail));
            }
        }
    }

    #[tokio::test]
    async fn an_answer_made_without_the_lock_gets_no_age_from_a_policy_in_front_of_it() {
        let counts = Cache::memory().loader(|_: Id| async { Ok::<_, Infallible>(Some(Count(7))) }).build();
        let degraded = middleware::from_fn(|mut request: Request, next: Next| {
            request.extensions_mut().insert(Degraded);
            next.run(request)
        });
        let minute = || CachePolicy::shared().max_age(std::time::Duration::from_secs(60));
        let whole = get(async move |count: Cached<Count>| (minute(), count));
        let parts = get(async move |count: Cached<Count>| {
            let (_, info) = count.into_parts();
            (info, minute(), "a view")
        });
        let app: Router = Router::new()
            .route("/whole/degraded", whole.clone().route_layer(degraded.clone()))
            .route("/parts/degraded", parts.clone().route_layer(degraded))
            .route("/whole", whole)
            .route("/parts", parts)
            .with_state(counts);
        for (path, control) in [("/whole", "max-age=60"), ("/parts", "max-age=60")] {
            for (path, control) in [(path.to_owned(), control), (format!("{path}/degraded"), "no-cache")] {
                let request = Request::builder().uri(&path).body(Body::empty()).unwrap();
                let answer = app.clone().oneshot(request).await.unwrap();
                assert_eq!(answer.headers()["cache-control"], control, "{path}");
            }
        }
    }

    #[tokio::test]
    async fn an_entity_tag_in_front_of_an_answer_takes_the_place_of_its_own() {
        let counts = Cache::memory().loader(|_: Id| async { Ok::<_, Infallible>(Some(Count(7))) }).build();
        let own = EntityTag::of::<Count, _>(&counts, &Id, 8).unwrap();
        let app: Router =
            Router::new().route("/", get(async move |count: Cached<Count>| (own, count))).with_state(counts);
        let answer = app.oneshot(Request::builder().uri("/").body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(answer.headers().get_all(ETAG).iter().collect::<Vec<_>>(), [own.to_string().as_str()]);
    }
}
