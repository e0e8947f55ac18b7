use std::time::Duration;

use axum::{
    Router,
    http::{Method, StatusCode},
    routing::get,
};
use futures_util::future::join3;
use stockade::{
    Locks,
    route_lock::{Problem, Rejection, RouteLock},
};

use super::support::{LIMIT, SHORT, Sku, hold, idle, request, send, waiting};

async fn ok() -> &'static str {
    "ok"
}

fn app(lock: RouteLock) -> Router {
    Router::new().route("/stock/{sku}", get(ok).post(ok).route_layer(lock))
}

#[tokio::test]
async fn a_wait_that_is_over_answers_423_with_a_retry() {
    let locks = Locks::memory();
    let app = app(RouteLock::by::<Sku>(&locks).wait(SHORT));
    let held = hold(&locks, "1").await;
    for method in [Method::GET, Method::POST] {
        let answer = send(&app, request(method, "/stock/1")).await;
        let problem = answer.refusal(423, "lock-timeout");
        assert_eq!(problem["applied"], false);
        let seconds: u64 = answer.headers["retry-after"].to_str().unwrap().parse().unwrap();
        assert!((1..=10).contains(&seconds), "{seconds}");
        assert!(problem["retry_after_ms"].as_u64().unwrap() <= seconds * 1000);
    }
    assert_eq!(locks.inspect("stock:1").await.unwrap().waiting, 0);
    drop(held);
    idle(&locks).await;
}

#[tokio::test]
async fn a_wait_of_zero_tries_once() {
    let locks = Locks::memory();
    let app = app(RouteLock::by::<Sku>(&locks).wait(Duration::ZERO));
    let held = hold(&locks, "1").await;
    send(&app, request(Method::POST, "/stock/1")).await.refusal(423, "lock-timeout");
    drop(held);
    idle(&locks).await;
    assert_eq!(send(&app, request(Method::POST, "/stock/1")).await.status, 200);
}

#[tokio::test]
async fn a_full_queue_answers_429_with_a_retry() {
    let locks = Locks::builder().max_waiters(1).memory();
    let app = app(RouteLock::by::<Sku>(&locks).wait(LIMIT));
    let held = hold(&locks, "1").await;
    let refused = async {
        waiting(&locks, "stock:1", 1).await;
        let answer = send(&app, request(Method::POST, "/stock/1")).await;
        drop(held);
        answer
    };
    let (queued, refused, ()) = join3(send(&app, request(Method::POST, "/stock/1")), refused, async {}).await;
    assert_eq!(queued.status, 200);
    assert_eq!(refused.refusal(429, "queue-full")["applied"], false);
    let seconds: u64 = refused.headers["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=60).contains(&seconds), "{seconds}");
    idle(&locks).await;
}

#[tokio::test]
async fn the_rejection_of_the_resource_is_the_answer() {
    let locks = Locks::memory();
    let answer = send(&app(RouteLock::by::<Sku>(&locks)), request(Method::POST, "/stock/bad")).await;
    assert_eq!((answer.status, answer.text()), (StatusCode::BAD_REQUEST, "not a SKU"));
}

#[tokio::test]
async fn the_answer_of_a_key_function_is_the_answer() {
    let locks = Locks::memory();
    let lock = RouteLock::try_key(&locks, |_| Err(StatusCode::IM_A_TEAPOT));
    assert_eq!(send(&app(lock), request(Method::POST, "/stock/1")).await.status, 418);
}

#[tokio::test]
async fn an_id_of_any_length_is_locked() {
    let locks = Locks::memory();
    let path = format!("/stock/{}", "x".repeat(600));
    for lock in [RouteLock::by::<Sku>(&locks), RouteLock::template(&locks, "stock:{sku}")] {
        assert_eq!(send(&app(lock), request(Method::POST, &path)).await.status, 200);
    }
}

#[tokio::test]
async fn locks_that_shut_down_answer_503() {
    let locks = Locks::memory();
    locks.shutdown(Duration::ZERO).await;
    let answer = send(&app(RouteLock::by::<Sku>(&locks)), request(Method::GET, "/stock/1")).await;
    answer.refusal(503, "shutting-down");
    assert_eq!(answer.headers["retry-after"], "1");
}

#[tokio::test]
async fn rejections_are_rendered_once_for_the_app_and_again_for_a_route() {
    let render = |rejection: Rejection| (rejection.status(), format!("app: {}", rejection.problem().slug()));
    let locks = Locks::builder().on_reject(render).memory();
    let _held = hold(&locks, "1").await;
    let lock = RouteLock::by::<Sku>(&locks).wait(Duration::ZERO);
    let answer = send(&app(lock.clone()), request(Method::POST, "/stock/1")).await;
    assert_eq!((answer.status.as_u16(), answer.text()), (423, "app: lock-timeout"));

    let own = lock.on_reject(|rejection| {
        assert_eq!((rejection.problem(), rejection.applied()), (Problem::LockTimeout, Some(false)));
        (StatusCode::CONFLICT, "route")
    });
    let answer = send(&app(own), request(Method::POST, "/stock/1")).await;
    assert_eq!((answer.status.as_u16(), answer.text()), (409, "route"));
}

#[tokio::test]
async fn an_outer_layer_can_render_a_rejection_anew() {
    let locks = Locks::memory();
    let _held = hold(&locks, "1").await;
    let app = app(RouteLock::by::<Sku>(&locks).wait(Duration::ZERO)).layer(axum::middleware::map_response(
        async |response: axum::response::Response| match response.extensions().get::<Rejection>() {
            Some(rejection) => Err(rejection.problem().slug()),
            None => Ok(response),
        },
    ));
    assert_eq!(send(&app, request(Method::POST, "/stock/1")).await.text(), "lock-timeout");
}

#[test]
fn a_setting_that_every_request_would_be_refused_for_panics_where_it_is_made() {
    let (short, long) = (Duration::from_millis(99), Duration::from_secs(301));
    let route = || RouteLock::template(&Locks::memory(), "report:{day}");
    let said = |made: &dyn Fn()| {
        let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(made)).unwrap_err();
        *panic.downcast::<String>().unwrap()
    };
    let malformed = said(&|| drop(RouteLock::template(&Locks::memory(), "report:{day")));
    assert_eq!(
        malformed,
        "the lock template `report:{day` is malformed: a brace is not closed or not opened: write placeholders as `{name}`"
    );
    assert_eq!(said(&|| drop(route().lease(short))), "the lease is 99ms: it must be within 100ms and 300s");
    assert_eq!(said(&|| drop(Locks::builder().lease(long))), "the lease is 301s: it must be within 100ms and 300s");
    let delegation = said(&|| drop(Locks::builder().delegation_lease(short)));
    assert_eq!(delegation, "the delegation lease is 99ms: it must be within 100ms and 300s");
    for permits in [0, 65_536] {
        assert!(said(&|| drop(route().permits(permits))).contains("65535"), "{permits}");
    }
}
