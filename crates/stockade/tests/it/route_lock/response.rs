use std::{convert::Infallible, time::Duration};

use axum::{
    Router,
    body::Body,
    http::{Method, StatusCode},
    response::{IntoResponse, Response},
    routing::get,
};
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, stream};
use http_body_util::BodyExt;
use stockade::{
    Locks,
    lock::Force,
    route_lock::{RouteLock, Until},
};
use tower::ServiceExt;

use super::support::{LIMIT, SHORT, Sku, idle, is_free, request, send};

const BOTH: [Method; 2] = [Method::GET, Method::POST];

fn app(lock: RouteLock, answer: fn() -> Response) -> Router {
    Router::new().route(
        "/stock/{sku}",
        get(move || async move { answer() }).post(move || async move { answer() }).route_layer(lock),
    )
}

fn whole() -> Response {
    "whole".into_response()
}

/// A response of two chunks.
fn streamed() -> Response {
    Body::from_stream(stream::iter(["a", "b"]).map(Ok::<_, Infallible>)).into_response()
}

/// A response of one chunk that never ends.
fn endless() -> Response {
    Body::from_stream(stream::iter(["a"]).chain(stream::pending()).map(Ok::<_, Infallible>)).into_response()
}

fn broken() -> Response {
    Body::from_stream(stream::iter([Ok("a"), Err("broken")])).into_response()
}

async fn head(app: &Router, method: Method) -> Response {
    app.clone().oneshot(request(method, "/stock/1")).await.unwrap()
}

async fn chunk(response: &mut Response) -> Option<Result<Bytes, axum::Error>> {
    let frame = tokio::time::timeout(LIMIT, response.body_mut().frame()).await.expect("no frame");
    frame.map(|frame| frame.map(|frame| frame.into_data().unwrap()))
}

#[tokio::test]
async fn a_body_of_known_length_goes_out_after_the_release() {
    for method in BOTH {
        let locks = Locks::memory();
        let response = head(&app(RouteLock::by::<Sku>(&locks), whole), method).await;
        assert!(is_free(&locks, "1").await);
        assert_eq!(response.headers()["content-length"], "5");
    }
}

#[tokio::test]
async fn a_streamed_body_is_held_for_to_its_end() {
    for method in BOTH {
        let locks = Locks::memory();
        let mut response = head(&app(RouteLock::by::<Sku>(&locks), streamed), method).await;
        assert!(!is_free(&locks, "1").await);
        assert_eq!(chunk(&mut response).await.unwrap().unwrap(), "a");
        assert!(!is_free(&locks, "1").await);
        assert_eq!(chunk(&mut response).await.unwrap().unwrap(), "b");
        assert!(chunk(&mut response).await.is_none());
        idle(&locks).await;
    }
}

#[tokio::test]
async fn a_streamed_body_that_is_dropped_releases() {
    let locks = Locks::memory();
    let response = head(&app(RouteLock::by::<Sku>(&locks), endless), Method::GET).await;
    assert!(!is_free(&locks, "1").await);
    drop(response);
    idle(&locks).await;
}

#[tokio::test]
async fn a_streamed_body_that_fails_releases() {
    let locks = Locks::memory();
    let mut response = head(&app(RouteLock::by::<Sku>(&locks), broken), Method::GET).await;
    assert!(chunk(&mut response).await.unwrap().is_ok());
    assert!(chunk(&mut response).await.unwrap().is_err());
    idle(&locks).await;
}

#[tokio::test]
async fn a_streamed_read_whose_lock_is_gone_fails_before_the_task_that_keeps_it_has_noticed() {
    let locks = Locks::memory();
    let mut response = head(&app(RouteLock::by::<Sku>(&locks), streamed), Method::GET).await;
    assert_eq!(chunk(&mut response).await.unwrap().unwrap(), "a");
    // Nothing here waits, so no other task runs between the two.
    let forced = locks.force_release("stock:1", Force::Now).now_or_never().expect("it waits");
    assert_eq!(forced.unwrap().holders, 1);
    let next = response.body_mut().frame().now_or_never().expect("it waits");
    assert!(next.unwrap().is_err(), "it may be later than the lock");
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_for_the_longest_hold_only() {
    for method in BOTH {
        let locks = Locks::memory();
        // Nobody polls the body after this.
        let response = head(&app(RouteLock::by::<Sku>(&locks).max_hold(SHORT), endless), method).await;
        assert!(!is_free(&locks, "1").await);
        idle(&locks).await;
        drop(response);
    }
}

#[tokio::test]
async fn a_streamed_body_counts_for_the_time_after_which_to_come_back() {
    let locks = Locks::memory();
    let lock = RouteLock::by::<Sku>(&locks).wait(SHORT).max_hold(Duration::from_millis(1_100));
    let app = app(lock, endless);
    let _streaming = head(&app, Method::POST).await;
    idle(&locks).await;
    let _held = locks.write(&Sku("1".into())).acquire().await.unwrap();
    let refused = send(&app, request(Method::POST, "/stock/1")).await;
    refused.refusal(423, "lock-timeout");
    assert_eq!(refused.headers["retry-after"], "2");
}

#[tokio::test]
async fn a_streamed_read_ends_with_its_lock_and_a_streamed_write_goes_on() {
    let locks = Locks::memory();
    let lock = RouteLock::by::<Sku>(&locks).max_hold(SHORT);
    let mut read = head(&app(lock.clone(), endless), Method::GET).await;
    assert_eq!(chunk(&mut read).await.unwrap().unwrap(), "a");
    let error = chunk(&mut read).await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "the lock of a streamed read ended before the body did");
    assert!(chunk(&mut read).await.is_none());
    idle(&locks).await;

    let mut write = head(&app(lock, streamed), Method::POST).await;
    assert_eq!(chunk(&mut write).await.unwrap().unwrap(), "a");
    idle(&locks).await;
    assert_eq!(chunk(&mut write).await.unwrap().unwrap(), "b");
    assert!(chunk(&mut write).await.is_none());
}

#[tokio::test]
async fn a_route_may_release_with_the_handler_or_hold_for_every_body() {
    let locks = Locks::memory();
    let with_handler = RouteLock::by::<Sku>(&locks).hold(Until::Handler);
    let response = head(&app(with_handler, endless), Method::GET).await;
    assert!(is_free(&locks, "1").await);
    drop(response);

    let with_body = RouteLock::by::<Sku>(&locks).hold(Until::Body);
    let mut response = head(&app(with_body, whole), Method::GET).await;
    assert!(!is_free(&locks, "1").await);
    assert_eq!(response.headers()["content-length"], "5");
    assert_eq!(chunk(&mut response).await.unwrap().unwrap(), "whole");
    idle(&locks).await;
}

#[tokio::test]
async fn a_switch_of_protocols_is_refused_unless_allowed() {
    fn switching() -> Response {
        StatusCode::SWITCHING_PROTOCOLS.into_response()
    }
    let locks = Locks::memory();
    let lock = RouteLock::by::<Sku>(&locks);
    let answer = send(&app(lock.clone(), switching), request(Method::GET, "/stock/1")).await;
    answer.refusal(501, "upgrade-refused");
    idle(&locks).await;
    let answer = send(&app(lock.allow_upgrades(), switching), request(Method::GET, "/stock/1")).await;
    assert_eq!(answer.status, 101);
    idle(&locks).await;
}

#[tokio::test]
async fn the_longest_hold_may_be_without_limit() {
    let locks = Locks::memory();
    let lock = RouteLock::by::<Sku>(&locks).max_hold(Duration::MAX);
    assert_eq!(send(&app(lock, whole), request(Method::POST, "/stock/1")).await.status, 200);
}
