use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    handler::Handler,
    http::Method,
    routing::{get, options, post},
};
use futures_util::future::join;
use stockade::{Fence, Locks, extract::Fences, resource::Key, route_lock::RouteLock};
use tokio::{sync::Barrier, time::Instant};

use super::support::{LIMIT, SHORT, Sku, hold, idle, is_free, request, send, waiting};
use crate::log::Log;

async fn ok() -> &'static str {
    "ok"
}

#[tokio::test]
async fn a_method_that_is_not_routed_takes_no_lock() {
    let locks = Locks::memory();
    let app =
        Router::new().route("/stock/{sku}", get(ok).post(ok).route_layer(RouteLock::by::<Sku>(&locks).wait(SHORT)));
    let held = hold(&locks, "1").await;
    let purge = Method::from_bytes(b"PURGE").unwrap();
    for method in [purge, Method::PUT, Method::DELETE, Method::OPTIONS] {
        assert_eq!(send(&app, request(method, "/stock/1")).await.status, 405);
    }
    assert_eq!(send(&app, request(Method::POST, "/stock/1")).await.status, 423);
    drop(held);
    idle(&locks).await;
}

#[tokio::test]
async fn options_takes_no_lock_even_where_every_method_writes() {
    let locks = Locks::memory();
    let lock = RouteLock::by::<Sku>(&locks).write().wait(SHORT);
    let app = Router::new().route("/stock/{sku}", options(ok).get(ok).route_layer(lock));
    let _held = hold(&locks, "1").await;
    assert_eq!(send(&app, request(Method::OPTIONS, "/stock/1")).await.status, 200);
    assert_eq!(send(&app, request(Method::GET, "/stock/1")).await.status, 423);
}

#[tokio::test]
async fn safe_methods_share_and_the_others_exclude() {
    let locks = Locks::memory();
    let both = Arc::new(Barrier::new(2));
    let meet = {
        let both = Arc::clone(&both);
        async move || {
            both.wait().await;
        }
    };
    let lock = RouteLock::by::<Sku>(&locks).wait(SHORT);
    let app = Router::new().route("/stock/{sku}", get(meet.clone()).post(meet).route_layer(lock));
    let (get, head) =
        join(send(&app, request(Method::GET, "/stock/1")), send(&app, request(Method::HEAD, "/stock/1"))).await;
    assert_eq!((get.status.as_u16(), head.status.as_u16()), (200, 200));

    // The write stays in the handler until `unlock` meets it there. Meanwhile the read waits for the lock in vain.
    let (first, second) = (send(&app, request(Method::POST, "/stock/1")), send(&app, request(Method::GET, "/stock/1")));
    let unlock = async {
        tokio::time::sleep(2 * SHORT).await;
        both.wait().await;
    };
    let ((first, second), ()) = join(join(first, second), unlock).await;
    assert_eq!((first.status.as_u16(), second.status.as_u16()), (200, 423));
}

#[tokio::test]
async fn resources_do_not_wait_for_each_other() {
    let locks = Locks::memory();
    let app = Router::new().route("/stock/{sku}", post(ok).route_layer(RouteLock::by::<Sku>(&locks).wait(SHORT)));
    let _held = hold(&locks, "1").await;
    assert_eq!(send(&app, request(Method::POST, "/stock/2")).await.status, 200);
}

#[tokio::test]
async fn a_waiting_request_is_served_when_its_turn_comes() {
    let locks = Locks::memory();
    let app = Router::new().route("/stock/{sku}", post(ok).route_layer(RouteLock::by::<Sku>(&locks).wait(LIMIT)));
    let held = hold(&locks, "1").await;
    let free = async {
        waiting(&locks, "stock:1", 1).await;
        drop(held);
    };
    let (answer, ()) = join(send(&app, request(Method::POST, "/stock/1")), free).await;
    assert_eq!(answer.status, 200);
    idle(&locks).await;
}

#[tokio::test]
async fn a_resource_locked_twice_by_one_request_is_refused_at_once() {
    let locks = Locks::memory();
    let lock = RouteLock::by::<Sku>(&locks).wait(LIMIT);
    let app = Router::new().route(
        "/stock/{sku}",
        get(ok).post(ok).route_layer(RouteLock::template(&locks, "stock:{sku}").wait(LIMIT)).route_layer(lock),
    );
    let started = Instant::now();
    for method in [Method::GET, Method::POST] {
        let answer = send(&app, request(method, "/stock/1")).await;
        assert_eq!(answer.refusal(500, "nested-lock")["applied"], false);
        assert!(!answer.headers.contains_key("retry-after"));
    }
    assert!(started.elapsed() < LIMIT / 2, "it waited for itself");
    idle(&locks).await;
}

#[tokio::test]
async fn a_resource_locked_twice_is_logged_with_both_routes_and_without_its_id() {
    let (log, _logging) = Log::start();
    let locks = Locks::memory();
    let inner = Router::new().route("/{sku}", get(ok).route_layer(RouteLock::template(&locks, "stock:{sku}")));
    let outer = RouteLock::key(&locks, |_| Key::new("stock", "4711").ok()).read();
    let app = Router::new().nest("/stock", inner).route_layer(outer);
    send(&app, request(Method::GET, "/stock/4711")).await.refusal(500, "nested-lock");
    let log = log.text();
    for part in ["outer_route=\"/stock/{sku}\"", " route=\"/stock/{sku}\"", "outer_lock=stock ", "lock=stock:{sku}"] {
        assert!(log.contains(part), "no {part} in {log}");
    }
    assert!(!log.contains("4711"), "{log}");
}

#[tokio::test]
async fn layers_chained_per_method_wrap_the_methods_before_them_and_are_refused() {
    let locks = Locks::memory();
    let (read, write) = (RouteLock::by::<Sku>(&locks).read(), RouteLock::by::<Sku>(&locks).write());
    let chained = Router::new().route("/stock/{sku}", get(ok).layer(read.clone()).put(ok).layer(write.clone()));
    send(&chained, request(Method::GET, "/stock/1")).await.refusal(500, "nested-lock");
    assert_eq!(send(&chained, request(Method::PUT, "/stock/1")).await.status, 200);

    let apart = Router::new().route("/stock/{sku}", get(ok.layer(read)).put(ok.layer(write)));
    assert_eq!(send(&apart, request(Method::GET, "/stock/1")).await.status, 200);
    assert_eq!(send(&apart, request(Method::PUT, "/stock/1")).await.status, 200);
    idle(&locks).await;
}

#[tokio::test]
async fn nested_locks_of_two_resources_are_both_held_and_both_answered() {
    async fn tokens(innermost: Fence, Fences(all): Fences) -> (Fences, String) {
        let keys = all.iter().map(|fence| fence.key().as_str()).collect::<Vec<_>>().join(" ");
        let text = format!("{keys}, innermost {}", innermost.key());
        (Fences(all), text)
    }
    let locks = Locks::memory();
    let shop = RouteLock::template(&locks, "shop:{shop}").read();
    let route = post(tokens).route_layer(RouteLock::by::<Sku>(&locks)).route_layer(shop);
    // `Path<String>` takes one parameter only, so the shop comes from the prefix.
    let app = Router::new().route("/{shop}", route);
    let answer = send(&app, request(Method::POST, "/7")).await;
    assert_eq!(answer.text(), "shop:7 stock:7, innermost stock:7");
    assert_eq!(answer.headers.get_all("fencing-token").iter().count(), 2);
    idle(&locks).await;
}

#[tokio::test]
async fn the_fence_of_a_write_is_its_token() {
    async fn token(fence: Fence) -> (Fence, String) {
        let text = fence.token().to_string();
        (fence, text)
    }
    let locks = Locks::memory();
    let app = Router::new().route("/stock/{sku}", post(token).route_layer(RouteLock::by::<Sku>(&locks)));
    let first = send(&app, request(Method::POST, "/stock/1")).await;
    let second = send(&app, request(Method::POST, "/stock/1")).await;
    assert_eq!(first.headers["fencing-token"], first.text());
    assert!(first.text().parse::<u64>().unwrap() < second.text().parse::<u64>().unwrap());
}

#[tokio::test]
async fn a_fence_without_a_lock_is_a_server_error_and_an_optional_one_is_none() {
    async fn needs(_: Fence) {}
    async fn may(fence: Option<Fence>, Fences(all): Fences) -> String {
        format!("{} {}", fence.is_some(), all.len())
    }
    let app = Router::new().route("/needs", get(needs)).route("/may", get(may));
    send(&app, request(Method::GET, "/needs")).await.refusal(500, "internal");
    assert_eq!(send(&app, request(Method::GET, "/may")).await.text(), "false 0");
}

#[tokio::test]
async fn a_key_of_none_runs_without_a_lock() {
    let locks = Locks::memory();
    let app = Router::new().route("/stock/{sku}", post(ok).route_layer(RouteLock::key(&locks, |_| None)));
    let _held = hold(&locks, "1").await;
    assert_eq!(send(&app, request(Method::POST, "/stock/1")).await.status, 200);
}

#[tokio::test]
async fn a_layer_that_takes_no_lock_gives_no_fence_of_one_further_out() {
    let locks = Locks::memory();
    let shop = RouteLock::template(&locks, "shop:{shop}");
    let handler = async |fence: Option<Fence>, Fences(all): Fences| format!("{} {}", fence.is_some(), all.len());
    let route = post(handler).route_layer(RouteLock::key(&locks, |_| None)).route_layer(shop);
    let app = Router::new().route("/{shop}", route);
    assert_eq!(send(&app, request(Method::POST, "/7")).await.text(), "false 1");
}

#[tokio::test]
async fn who_holds_shows_method_and_route_but_no_id() {
    let locks = Locks::memory();
    let inspecting = locks.clone();
    let tag = async move || inspecting.inspect("stock:1").await.unwrap().holders[0].tag.clone();
    let app = Router::new().route("/stock/{sku}", post(tag).route_layer(RouteLock::by::<Sku>(&locks)));
    assert_eq!(send(&app, request(Method::POST, "/stock/1")).await.text(), "POST /stock/{sku}");
}

#[tokio::test]
async fn the_lease_of_a_route_is_the_one_it_asks_for() {
    let locks = Locks::memory();
    let remaining = async |fence: Fence| fence.remaining().as_secs().to_string();
    let lock = RouteLock::by::<Sku>(&locks).lease(Duration::from_secs(100));
    let app = Router::new().route("/stock/{sku}", post(remaining).route_layer(lock));
    let seconds: u64 = send(&app, request(Method::POST, "/stock/1")).await.text().parse().unwrap();
    assert!((90..100).contains(&seconds), "{seconds}");
    assert!(is_free(&locks, "2").await);
}
