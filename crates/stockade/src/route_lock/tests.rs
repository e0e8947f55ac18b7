//! Routes with a store that fails. No public store can be made to fail at will.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    extract::Request,
    http::{Method, StatusCode},
    response::Response,
    routing::get,
};
use bytes::Bytes;
use futures_util::{FutureExt, future::BoxFuture, stream};
use tower::ServiceExt;

use super::{Degraded, OnStoreError, Rejection, RouteLock};
use crate::{
    lock::{Fence, Force, Forced, Inspection, LockError, Locks, Released, Token, Unavailable},
    resource::Key,
    store::{Attempt, LockStore, Ownership},
};

/// A store that gives no usable answer, and counts its calls.
#[derive(Debug, Default)]
struct Down {
    asked: AtomicUsize,
    breaker_open: bool,
}

const RETRY: Duration = Duration::from_millis(700);
const ERROR: LockError = LockError::Unavailable { reason: Unavailable::Timeout, retry_after: RETRY };

impl LockStore for Down {
    fn acquire(&self, _: Attempt) -> BoxFuture<'_, Result<Arc<Ownership>, LockError>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        std::future::ready(Err(ERROR)).boxed()
    }

    fn release<'a>(&'a self, _: &'a Arc<Ownership>) -> BoxFuture<'a, Result<Released, LockError>> {
        std::future::ready(Err(ERROR)).boxed()
    }

    fn release_detached(&self, _: Arc<Ownership>) {}

    fn renew<'a>(&'a self, _: &'a [Arc<Ownership>]) -> BoxFuture<'a, Result<(), LockError>> {
        std::future::ready(Err(ERROR)).boxed()
    }

    fn seed<'a>(&'a self, _: &'a Key, _: Token) -> BoxFuture<'a, Result<(), LockError>> {
        std::future::ready(Err(ERROR)).boxed()
    }

    fn force<'a>(&'a self, _: &'a Key, _: Force) -> BoxFuture<'a, Result<Forced, LockError>> {
        std::future::ready(Err(ERROR)).boxed()
    }

    fn inspect<'a>(&'a self, _: &'a Key) -> BoxFuture<'a, Result<Inspection, LockError>> {
        std::future::ready(Err(ERROR)).boxed()
    }

    fn list(&self, _: usize) -> BoxFuture<'_, Result<Vec<String>, LockError>> {
        std::future::ready(Err(ERROR)).boxed()
    }

    fn refusing(&self, _: &Key) -> Option<Duration> {
        self.breaker_open.then_some(RETRY)
    }

    fn shutdown(&self, _: Duration) -> BoxFuture<'_, ()> {
        std::future::ready(()).boxed()
    }
}

async fn marked(degraded: Option<axum::Extension<Degraded>>, fence: Option<Fence>) -> String {
    format!("degraded {}, fence {}", degraded.is_some(), fence.is_some())
}

fn app(store: Arc<Down>, set: impl FnOnce(RouteLock) -> RouteLock) -> Router {
    let locks = Locks::builder().on(store);
    let lock = set(RouteLock::template(&locks, "stock:{sku}"));
    Router::new().route("/stock/{sku}", get(marked).post(marked).route_layer(lock))
}

async fn send(app: &Router, method: Method, body: Body) -> Response {
    let request = Request::builder().method(method).uri("/stock/1").body(body).unwrap();
    app.clone().oneshot(request).await.unwrap()
}

#[tokio::test]
async fn a_store_without_an_answer_refuses_reads_and_writes() {
    let store = Arc::new(Down::default());
    let app = app(Arc::clone(&store), |lock| lock);
    for method in [Method::GET, Method::POST] {
        let response = send(&app, method, Body::empty()).await;
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(response.headers()["retry-after"], "1");
        let rejection = response.extensions().get::<Rejection>().unwrap();
        assert_eq!(rejection.problem().slug(), "lock-store-unavailable");
        assert_eq!((rejection.applied(), rejection.retry_after()), (Some(false), Some(RETRY)));
    }
    assert_eq!(store.asked.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn an_open_breaker_refuses_without_a_look_at_body_or_store() {
    let store = Arc::new(Down { breaker_open: true, ..Down::default() });
    let app = app(Arc::clone(&store), |lock| lock);
    let unending = Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>());
    let response = send(&app, Method::POST, unending).now_or_never().expect("it waited");
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(store.asked.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn reads_that_proceed_are_marked_and_writes_never_proceed() {
    for breaker_open in [false, true] {
        let store = Arc::new(Down { breaker_open, ..Down::default() });
        let app = app(store, |lock| lock.on_store_error(OnStoreError::Proceed));
        let read = send(&app, Method::GET, Body::empty()).await;
        assert_eq!(read.status(), StatusCode::OK);
        let text = axum::body::to_bytes(read.into_body(), 100).await.unwrap();
        assert_eq!(text, "degraded true, fence false");
        assert_eq!(send(&app, Method::POST, Body::empty()).await.status(), StatusCode::SERVICE_UNAVAILABLE);
    }
}

#[tokio::test]
async fn a_handler_that_needs_its_fence_does_not_proceed() {
    async fn needs(_: Fence) {}
    let locks = Locks::builder().on(Arc::new(Down::default()));
    let lock = RouteLock::template(&locks, "stock:{sku}").on_store_error(OnStoreError::Proceed);
    let app = Router::new().route("/stock/{sku}", get(needs).route_layer(lock));
    let response = send(&app, Method::GET, Body::empty()).await;
    assert_eq!(response.extensions().get::<Rejection>().unwrap().problem().slug(), "lock-store-unavailable");
}
