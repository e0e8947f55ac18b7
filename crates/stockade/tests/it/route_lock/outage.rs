//! The route lock on a real Redis whose scripts are counted, and that is frozen or lost.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    http::{Method, Request},
    routing::{get, post},
};
use futures_util::future::{join, join_all};
use stockade::{
    Fence, Locks, Redis,
    lock::LockError,
    route_lock::{OnStoreError, RouteLock},
};
use stockade_testbed::eventually;
use tokio::{
    sync::{Notify, Semaphore},
    time::Instant,
};

use super::support::{LIMIT, Sku, hold, idle, is_free, request, send};
use crate::{log::Log, redis_traffic::scripts, world::World};

/// The default time-out of a command, and the delay that a busy machine adds. Well below the wait for a lock.
const IN_TIME: Duration = Duration::from_millis(250 + 750);
/// The longest time of an answer that waits for no time-out.
const AT_ONCE: Duration = Duration::from_millis(200);

async fn ok() -> &'static str {
    "ok"
}

async fn start() -> (World, Locks) {
    start_with(Duration::from_millis(250)).await
}

async fn start_with(command_timeout: Duration) -> (World, Locks) {
    let server = World::start().await;
    let redis = Redis::builder(server.url()).command_timeout(command_timeout).connect().await.unwrap();
    let locks = server.opened(Locks::new(&redis));
    // The first connection is made in the background.
    eventually("the link is up", async || locks.list(1).await.is_ok()).await;
    (server, locks)
}

fn app(lock: RouteLock) -> Router {
    Router::new().route("/stock/{sku}", get(ok).post(ok).route_layer(lock))
}

/// Waits until the server has run `expected` scripts since `before`, and fails if it has run more.
async fn settled(server: &World, before: u64, expected: u64) {
    eventually("the scripts have run", async || scripts(server).await >= before + expected).await;
    assert_eq!(scripts(server).await - before, expected);
}

#[tokio::test]
async fn a_locked_request_costs_two_scripts_and_what_takes_no_lock_costs_none() {
    let (server, locks) = start().await;
    let lock = RouteLock::by::<Sku>(&locks);
    let app = app(lock.clone());
    send(&app, request(Method::POST, "/stock/1")).await;
    idle(&locks).await;
    let before = scripts(&server).await;
    for (method, path) in [(Method::PUT, "/stock/1"), (Method::OPTIONS, "/stock/1"), (Method::POST, "/stock/bad")] {
        assert!(send(&app, request(method, path)).await.status.is_client_error());
    }
    assert_eq!(scripts(&server).await, before);
    for method in [Method::GET, Method::POST] {
        let before = scripts(&server).await;
        assert_eq!(send(&app, request(method, "/stock/1")).await.status, 200);
        settled(&server, before, 2).await;
    }

    // The inner lock sends nothing to the store.
    let before = scripts(&server).await;
    let route = post(ok).route_layer(lock.clone()).route_layer(lock);
    let nested = Router::new().route("/stock/{sku}", route);
    send(&nested, request(Method::POST, "/stock/1")).await.refusal(500, "nested-lock");
    settled(&server, before, 2).await;
    server.end().await;
}

#[tokio::test]
async fn many_writers_over_two_processes_take_turns() {
    let (server, locks) = start().await;
    let other = server.opened(Locks::new(&Redis::connect(server.url()).await.unwrap()));
    eventually("the other link is up", async || other.list(1).await.is_ok()).await;
    let inside = Arc::new(Semaphore::new(1));
    let handler = {
        let inside = Arc::clone(&inside);
        async move || {
            let _alone = inside.try_acquire().expect("two writers at once");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let apps = [&locks, &other].map(|locks| {
        let lock = RouteLock::by::<Sku>(locks).wait(LIMIT);
        Router::new().route("/stock/{sku}", post(handler.clone()).route_layer(lock))
    });
    let requests = (0..100).map(|n| send(&apps[n % 2], request(Method::POST, "/stock/1")));
    assert!(join_all(requests).await.iter().all(|answer| answer.status == 200));
    idle(&locks).await;
    server.end().await;
}

#[tokio::test]
async fn a_frozen_store_is_refused_in_time_then_at_once_and_recovers() {
    let (server, locks) = start().await;
    let app = app(RouteLock::by::<Sku>(&locks).on_store_error(OnStoreError::Proceed));
    assert_eq!(send(&app, request(Method::POST, "/stock/1")).await.status, 200);
    idle(&locks).await;
    server.pause().unwrap();
    let mut at_once = 0;
    for _ in 0..20 {
        let started = Instant::now();
        let answer = send(&app, request(Method::POST, "/stock/1")).await;
        let took = started.elapsed();
        assert_eq!(answer.refusal(503, "lock-store-unavailable")["applied"], false);
        assert!(answer.headers.contains_key("retry-after"));
        assert!(took < IN_TIME, "{took:?}");
        let started = Instant::now();
        assert_eq!(send(&app, request(Method::GET, "/stock/1")).await.status, 200);
        assert!(started.elapsed() < IN_TIME);
        let large = Request::get("/stock/1").body(Body::from(vec![0; 1 << 17])).unwrap();
        assert_eq!(send(&app, large).await.status, 413, "the limit of the body holds without the lock");
        at_once += u32::from(took < AT_ONCE);
    }
    assert!(at_once >= 10, "the breaker stayed closed: {at_once} of 20 were refused at once");
    server.resume().unwrap();
    eventually("writes go on", async || send(&app, request(Method::POST, "/stock/1")).await.status == 200).await;
    idle(&locks).await;
    server.end().await;
}

#[tokio::test]
async fn without_its_store_no_write_begins_in_a_shutdown() {
    let (server, locks) = start().await;
    let app = app(RouteLock::by::<Sku>(&locks).read().on_store_error(OnStoreError::Proceed));
    let held = hold(&locks, "2").await;
    server.pause().unwrap();
    // The breaker opens.
    for _ in 0..20 {
        assert_eq!(send(&app, request(Method::POST, "/stock/1")).await.status, 200);
    }
    let refused = async {
        let is_closing =
            async || matches!(locks.write(&Sku("3".into())).try_acquire().await, Err(LockError::ShuttingDown));
        eventually("the shutdown has begun", is_closing).await;
        for _ in 0..5 {
            send(&app, request(Method::POST, "/stock/1")).await.refusal(503, "shutting-down");
        }
        server.resume().unwrap();
        drop(held);
    };
    join(locks.shutdown(LIMIT), refused).await;
    server.end().await;
}

#[tokio::test]
async fn a_store_that_is_absent_at_the_start_is_refused_until_it_is_there() {
    let (log, _logging) = Log::start();
    let server = World::start().await;
    server.kill().await.unwrap();
    let locks = server.opened(Locks::new(&Redis::connect(server.url()).await.unwrap()));
    let app = app(RouteLock::by::<Sku>(&locks));
    let started = Instant::now();
    send(&app, request(Method::POST, "/stock/1")).await.refusal(503, "lock-store-unavailable");
    assert!(started.elapsed() < IN_TIME);
    let text = log.text();
    assert!(text.lines().any(|line| line.contains("WARN") && line.contains("a request got no lock")), "{text}");
    server.restart().await.unwrap();
    eventually("writes go on", async || send(&app, request(Method::POST, "/stock/1")).await.status == 200).await;
    server.end().await;
}

#[tokio::test]
async fn those_who_wait_while_the_store_freezes_are_answered_by_their_wait_and_a_time_out() {
    let (server, locks) = start().await;
    let wait = Duration::from_millis(500);
    let app = app(RouteLock::by::<Sku>(&locks).wait(wait));
    let held = hold(&locks, "1").await;
    let freeze = async {
        super::support::waiting(&locks, "stock:1", 1).await;
        server.pause().unwrap();
    };
    let started = Instant::now();
    let (answer, ()) = join(send(&app, request(Method::POST, "/stock/1")), freeze).await;
    assert!(answer.status == 503 || answer.status == 423, "{}", answer.text());
    assert!(started.elapsed() < wait + IN_TIME, "{:?}", started.elapsed());
    server.resume().unwrap();
    drop(held);
    idle(&locks).await;
    server.end().await;
}

#[tokio::test]
async fn a_write_under_way_when_the_store_freezes_does_not_wait_for_it() {
    let (server, locks) = start_with(Duration::from_secs(5)).await;
    let (entered, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let handler = {
        let (entered, go) = (Arc::clone(&entered), Arc::clone(&go));
        async move || {
            entered.notify_one();
            go.notified().await;
            "written"
        }
    };
    let app = Router::new().route("/stock/{sku}", post(handler).route_layer(RouteLock::by::<Sku>(&locks)));
    let freeze = async {
        entered.notified().await;
        server.pause().unwrap();
        go.notify_one();
        Instant::now()
    };
    let (answer, frozen) = join(send(&app, request(Method::POST, "/stock/1")), freeze).await;
    assert_eq!((answer.status.as_u16(), answer.text()), (200, "written"));
    // The release is sent, but nobody waits for its reply.
    assert!(frozen.elapsed() < IN_TIME, "{:?}", frozen.elapsed());
    server.resume().unwrap();
    eventually("the lock is free", async || is_free(&locks, "1").await).await;
    server.end().await;
}

#[tokio::test]
async fn a_write_whose_store_came_back_empty_is_told_and_gives_its_own_answer() {
    let (server, locks) = start().await;
    let entered = Arc::new(Notify::new());
    let handler = {
        let entered = Arc::clone(&entered);
        async move |fence: Fence| {
            entered.notify_one();
            fence.lost().await.as_str()
        }
    };
    let app = Router::new().route("/stock/{sku}", post(handler).route_layer(RouteLock::by::<Sku>(&locks)));
    let restart = async {
        entered.notified().await;
        server.restart().await.unwrap();
    };
    let (answer, ()) = join(send(&app, request(Method::POST, "/stock/1")), restart).await;
    assert_eq!((answer.status.as_u16(), answer.text()), (200, "store_lost_data"));
    server.end().await;
}

#[tokio::test]
async fn clients_that_leave_at_any_moment_leave_nothing_behind() {
    let (server, locks) = start().await;
    let app = app(RouteLock::by::<Sku>(&locks));
    let held = hold(&locks, "1").await;
    let leave = (0..200_u64).map(|n| {
        let method = if n % 2 == 0 { Method::POST } else { Method::GET };
        let call = send(&app, request(method, "/stock/1"));
        tokio::time::timeout(Duration::from_micros(n * 50), call)
    });
    assert!(join_all(leave).await.iter().all(Result::is_err));
    eventually("no waiter is left", async || locks.inspect("stock:1").await.unwrap().waiting == 0).await;
    drop(held);
    idle(&locks).await;
    // The floor of the tokens stays. No key of the resource is left.
    let keys = server.command(&["KEYS", "*"]).await.unwrap();
    assert!(!keys.contains("stock:1"), "{keys}");
    server.end().await;
}

#[tokio::test]
async fn a_foreign_value_in_place_of_a_lock_asks_for_no_retry() {
    let (server, locks) = start().await;
    let app = app(RouteLock::by::<Sku>(&locks));
    let held = hold(&locks, "1").await;
    let key = server.command(&["KEYS", "*stock:1"]).await.unwrap().trim().to_owned();
    drop(held);
    idle(&locks).await;
    server.command(&["SET", &key, "foreign"]).await.unwrap();
    let answer = send(&app, request(Method::POST, "/stock/1")).await;
    let problem = answer.refusal(503, "lock-store-unavailable");
    assert!(!answer.headers.contains_key("retry-after"));
    assert_eq!(problem["detail"], "the fault is in the service: tell its operators when it happened");
    server.command(&["DEL", &key]).await.unwrap();
    assert_eq!(send(&app, request(Method::POST, "/stock/1")).await.status, 200);
    idle(&locks).await;
    server.end().await;
}
