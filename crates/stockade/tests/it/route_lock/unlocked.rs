//! Reads that go on without their lock after they waited too long for it.

use std::{sync::Arc, time::Duration};

use axum::{
    Extension, Router,
    http::Method,
    routing::{get, post},
};
use stockade::{
    Fence, Locks,
    route_lock::{RouteLock, Unlocked},
};
use tokio::{
    sync::Notify,
    time::{Instant, timeout},
};

use super::support::{LIMIT, SHORT, Sku, hold, idle, request, send, waiting};

async fn show(unlocked: Option<Extension<Unlocked>>) -> &'static str {
    if unlocked.is_some() { "unlocked" } else { "locked" }
}

fn app(lock: RouteLock) -> Router {
    Router::new().route("/stock/{sku}", get(show).post(show).route_layer(lock))
}

#[tokio::test]
async fn a_read_goes_on_without_its_lock_after_its_wait_and_a_write_is_refused() {
    let locks = Locks::memory();
    let app = app(RouteLock::by::<Sku>(&locks).wait(LIMIT).read_wait(SHORT));
    assert_eq!(send(&app, request(Method::GET, "/stock/1")).await.text(), "locked");
    idle(&locks).await;
    let held = hold(&locks, "1").await;
    let asked = Instant::now();
    for method in [Method::GET, Method::HEAD] {
        assert_eq!(send(&app, request(method, "/stock/1")).await.status, 200);
    }
    assert!(asked.elapsed() >= SHORT * 2, "it did not wait: {:?}", asked.elapsed());
    assert_eq!(send(&app, request(Method::GET, "/stock/1")).await.text(), "unlocked");
    assert_eq!(locks.inspect("stock:1").await.unwrap().waiting, 0, "it has left the queue");
    drop(held);
    idle(&locks).await;
    assert_eq!(send(&app, request(Method::GET, "/stock/1")).await.text(), "locked");
    idle(&locks).await;

    let app = self::app(RouteLock::by::<Sku>(&locks).wait(SHORT).read_wait(LIMIT));
    let held = hold(&locks, "1").await;
    send(&app, request(Method::POST, "/stock/1")).await.refusal(423, "lock-timeout");
    let asked = Instant::now();
    assert_eq!(send(&app, request(Method::GET, "/stock/1")).await.text(), "unlocked");
    assert!(asked.elapsed() < LIMIT, "it waits no longer than a write");
    drop(held);
    idle(&locks).await;
}

/// Of a route whose lock is shared for all methods.
#[tokio::test]
async fn a_write_that_goes_on_without_its_lock_ends_although_its_client_leaves() {
    let locks = Locks::memory();
    let (began, goes_on, ended) = (Arc::new(Notify::new()), Arc::new(Notify::new()), Arc::new(Notify::new()));
    let handler = {
        let (began, goes_on, ended) = (Arc::clone(&began), Arc::clone(&goes_on), Arc::clone(&ended));
        async move || {
            began.notify_one();
            goes_on.notified().await;
            ended.notify_one();
        }
    };
    let lock = RouteLock::by::<Sku>(&locks).read().read_wait(SHORT);
    let app = Router::new().route("/stock/{sku}", post(handler).route_layer(lock));
    let held = hold(&locks, "1").await;
    tokio::select! {
        _ = send(&app, request(Method::POST, "/stock/1")) => panic!("it is held"),
        () = began.notified() => {}
    }
    goes_on.notify_one();
    timeout(LIMIT, ended.notified()).await.expect("the handler was dropped with its client");
    drop(held);
    idle(&locks).await;
}

#[tokio::test]
async fn a_read_that_finds_too_many_waiting_goes_on_at_once() {
    let locks = Locks::builder().max_waiters(1).memory();
    let app = app(RouteLock::by::<Sku>(&locks).wait(LIMIT).read_wait(LIMIT));
    let held = hold(&locks, "1").await;
    let read = async {
        waiting(&locks, "stock:1", 1).await;
        let asked = Instant::now();
        let answer = send(&app, request(Method::GET, "/stock/1")).await;
        (answer, asked.elapsed(), drop(held))
    };
    let (queued, (read, took, ())) = tokio::join!(send(&app, request(Method::POST, "/stock/1")), read);
    assert_eq!((queued.text(), read.text()), ("locked", "unlocked"));
    assert!(took < LIMIT, "{took:?}");
    idle(&locks).await;
}

#[tokio::test]
async fn a_handler_that_takes_the_fence_is_refused_where_a_read_goes_on_without_its_lock() {
    let locks = Locks::memory();
    let fenced =
        get(async |fence: Fence| fence.token().to_string()).route_layer(RouteLock::by::<Sku>(&locks).read_wait(SHORT));
    let app = Router::new().route("/stock/{sku}", fenced);
    let held = hold(&locks, "1").await;
    send(&app, request(Method::GET, "/stock/1")).await.refusal(423, "lock-timeout");
    drop(held);
    idle(&locks).await;
    assert_eq!(send(&app, request(Method::GET, "/stock/1")).await.status, 200);
    idle(&locks).await;
}

#[tokio::test]
async fn a_wait_of_zero_is_one_attempt() {
    let locks = Locks::memory();
    let app = app(RouteLock::by::<Sku>(&locks).read_wait(Duration::ZERO));
    let held = hold(&locks, "1").await;
    assert_eq!(send(&app, request(Method::GET, "/stock/1")).await.text(), "unlocked");
    drop(held);
    idle(&locks).await;
    assert_eq!(send(&app, request(Method::GET, "/stock/1")).await.text(), "locked");
    idle(&locks).await;
}

/// A read that goes on without the lock that is innermost has no business with the lock further out.
#[tokio::test]
async fn a_handler_gets_no_fence_of_an_outer_lock_in_place_of_the_one_it_goes_on_without() {
    let locks = Locks::memory();
    let [read, outer] = [RouteLock::by::<Sku>(&locks).read_wait(SHORT), RouteLock::template(&locks, "shop:{sku}")];
    let needs = get(async |fence: Fence| fence.key().to_string()).route_layer(read.clone());
    let may = get(async |fence: Option<Fence>| fence.map(|fence| fence.key().to_string()).unwrap_or_default());
    let app = Router::new()
        .route("/needs/{sku}", needs.route_layer(outer.clone()))
        .route("/may/{sku}", may.route_layer(read).route_layer(outer));
    let held = hold(&locks, "1").await;
    send(&app, request(Method::GET, "/needs/1")).await.refusal(423, "lock-timeout");
    assert_eq!(send(&app, request(Method::GET, "/may/1")).await.text(), "");
    drop(held);
    idle(&locks).await;
    for path in ["/needs/1", "/may/1"] {
        assert_eq!(send(&app, request(Method::GET, path)).await.text(), "stock:1");
    }
    idle(&locks).await;
}
