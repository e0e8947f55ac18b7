use std::{borrow::Cow, convert::Infallible, hint::black_box};

use axum::{
    Router,
    body::Body,
    extract::{FromRequestParts, Request, State},
    http::{StatusCode, request::Parts},
    routing::get,
};
use futures_util::FutureExt;
use stockade::{
    Cache, Locks, Redis, Resource,
    cache::Source,
    extract::{Cached, FromCache},
    route_lock::RouteLock,
};
use tokio::sync::mpsc;
use tower::ServiceExt;

use crate::{contender::Failure, hits};

/// The only resource.
#[derive(Clone)]
struct Sku;

impl Resource for Sku {
    const KIND: &'static str = "stock";

    fn id(&self) -> Cow<'_, str> {
        Cow::Borrowed("85123A")
    }
}

impl<S: Sync> FromRequestParts<S> for Sku {
    type Rejection = Infallible;

    async fn from_request_parts(_: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self)
    }
}

/// The state of the handler: the cache, and the channel for its result.
#[derive(Clone)]
struct Site {
    cache: Cache<Sku, String>,
    said: mpsc::Sender<Result<[f64; 2], Failure>>,
}

impl FromCache<Site> for String {
    type Key = Sku;

    fn cache(site: &Site) -> &Cache<Sku, Self> {
        &site.cache
    }
}

/// Nanoseconds of a hit that a handler gets under the shared lock of its route, on one thread and on each of two.
pub(crate) async fn nanoseconds(redis: &Redis) -> Result<[f64; 2], Failure> {
    let load = |_: Sku| async { Ok::<_, Infallible>(Some("x".repeat(256))) };
    let cache = Cache::builder(redis).name("under-lock").under_locks().loader(load).build();
    let (said, mut times) = mpsc::channel(1);
    let lock = RouteLock::by::<Sku>(&Locks::new(redis)).read();
    let app = Router::new().route("/", get(measure).route_layer(lock)).with_state(Site { cache, said });
    let answer = app.oneshot(Request::new(Body::empty())).await?;
    times.try_recv().map_err(|_| format!("a hit under a lock was not served from memory: {}", answer.status()))?
}

/// Measures in a handler, whose request holds the lock all the while.
async fn measure(State(site): State<Site>, request: Request) -> StatusCode {
    let (mut parts, _) = request.into_parts();
    let mut found = Cached::<String>::from_request_parts(&mut parts, &site).await;
    // The subscription of a cache that was just built may not be live yet.
    while found.as_ref().is_ok_and(|found| found.info().source != Source::Local) {
        tokio::task::yield_now().await;
        found = Cached::<String>::from_request_parts(&mut parts, &site).await;
    }
    let one = || {
        let (mut parts, site) = (parts.clone(), &site);
        move |_| {
            let found = black_box(Cached::<String>::from_request_parts(&mut parts, site).now_or_never());
            matches!(found, Some(Ok(found)) if found.info().source == Source::Local)
        }
    };
    let times = tokio::task::block_in_place(|| hits::nanoseconds(&one));
    if found.is_ok() && site.said.try_send(times).is_ok() { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR }
}
