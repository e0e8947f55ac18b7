//! A route that locks all resources that its request names, also in its body.

use std::{convert::Infallible, time::Duration};

use axum::{
    Json, Router,
    body::Body,
    extract::{Path, Request},
    http::{Method, StatusCode, header::CONTENT_TYPE},
    routing::post,
};
use bytes::Bytes;
use futures_util::{StreamExt, future::join, stream};
use serde_json::{Value, json};
use stockade::{Fence, Locks, lock::MultiFence, resource::Key, route_lock::RouteLock};
use stockade_testbed::eventually;
use tokio::sync::{mpsc, oneshot};
use tower::ServiceExt;

use super::support::{LIMIT, SHORT, Sku, hold, idle, is_free, request, send};

/// The resources are a list of ids.
fn lock(locks: &Locks) -> RouteLock {
    RouteLock::write_all(locks, |Json(ids): Json<Vec<String>>| ids.into_iter().map(|id| Key::of(&Sku(id))))
}

fn move_between(ids: &[&str]) -> Request {
    upload(Body::from(json!(ids).to_string()))
}

fn upload(body: Body) -> Request {
    let request = Request::builder().method(Method::POST).uri("/moves").header(CONTENT_TYPE, "application/json");
    request.body(body).unwrap()
}

async fn ids(fences: MultiFence, Json(ids): Json<Vec<String>>) -> (MultiFence, String) {
    (fences, ids.join("+"))
}

fn app(lock: RouteLock) -> Router {
    Router::new().route("/moves", post(ids).get(ids).route_layer(lock))
}

#[tokio::test]
async fn all_are_held_while_the_handler_runs_and_none_after_it() {
    let locks = Locks::memory();
    let inside = locks.clone();
    let handler = async move |fences: MultiFence, body: Bytes| {
        let free = (is_free(&inside, "a").await, is_free(&inside, "b").await, is_free(&inside, "c").await);
        assert_eq!(free, (false, false, true));
        (fences, body)
    };
    let app = Router::new().route("/moves", post(handler).route_layer(lock(&locks)));
    let answer = send(&app, move_between(&["b", "a"])).await;
    assert_eq!((answer.status.as_u16(), answer.text()), (200, r#"["b","a"]"#));
    assert_eq!(answer.headers.get_all("fencing-token").iter().count(), 2);
    idle(&locks).await;
    let again = send(&app, move_between(&["a", "b"])).await;
    let tokens = |answer: &super::support::Answer| -> Vec<u64> {
        let tokens = answer.headers.get_all("fencing-token").iter();
        tokens.map(|token| token.to_str().unwrap().parse().unwrap()).collect()
    };
    let (first, second) = (tokens(&answer), tokens(&again));
    assert!(second[0] > first[1] && second[1] > first[0], "in the order of the request: {first:?} {second:?}");
}

#[tokio::test]
async fn where_one_is_not_free_none_is_kept() {
    let locks = Locks::memory();
    let held = hold(&locks, "b").await;
    let answer = send(&app(lock(&locks).wait(SHORT)), move_between(&["a", "b", "c"])).await;
    assert_eq!(answer.refusal(423, "lock-timeout")["applied"], false);
    assert!(is_free(&locks, "a").await && is_free(&locks, "c").await);
    held.release().await.unwrap();
}

#[tokio::test]
async fn opposite_orders_never_wait_for_each_other_in_a_circle() {
    let locks = Locks::memory();
    let app = app(lock(&locks).wait(LIMIT));
    let orders = [["a", "b", "c"], ["c", "b", "a"], ["b", "c", "a"]].into_iter().cycle().take(300);
    let answers: Vec<_> = stream::iter(orders)
        .map(|order| {
            let app = app.clone();
            async move { send(&app, move_between(&order)).await.status }
        })
        .buffer_unordered(64)
        .collect()
        .await;
    assert!(answers.iter().all(|status| *status == 200), "{answers:?}");
    idle(&locks).await;
}

#[tokio::test]
async fn a_client_that_leaves_does_not_end_the_handler() {
    let locks = Locks::memory();
    let (enter, mut entered) = mpsc::channel::<oneshot::Sender<()>>(1);
    let (finish, mut finished) = mpsc::channel(1);
    let handler = async move |_: MultiFence| {
        let (go, going) = oneshot::channel();
        enter.send(go).await.unwrap();
        going.await.unwrap();
        finish.send(()).await.unwrap();
    };
    let app = Router::new().route("/moves", post(handler).route_layer(lock(&locks)));
    let mut client = Box::pin(app.oneshot(move_between(&["a", "b"])));
    let go = tokio::select! {
        _ = &mut client => panic!("answered before it was let go"),
        go = entered.recv() => go.unwrap(),
    };
    drop(client);
    assert!(!is_free(&locks, "a").await && !is_free(&locks, "b").await, "given back with the client");
    go.send(()).unwrap();
    finished.recv().await.unwrap();
    idle(&locks).await;
}

#[tokio::test]
async fn a_trickling_body_holds_nothing() {
    let locks = Locks::memory();
    let app = app(lock(&locks));
    let (chunks, receiver) = mpsc::channel::<&'static str>(1);
    let body = stream::unfold(receiver, async |mut receiver: mpsc::Receiver<&'static str>| {
        receiver.recv().await.map(|chunk| (Ok::<_, Infallible>(Bytes::from(chunk)), receiver))
    });
    let meanwhile = async {
        for chunk in [r#"["a""#, r#","b""#] {
            chunks.send(chunk).await.unwrap();
            assert_eq!(locks.list(1).await.unwrap(), Vec::<String>::new());
            assert_eq!(send(&app, move_between(&["a", "b"])).await.status, 200);
        }
        chunks.send("]").await.unwrap();
        drop(chunks);
    };
    let (slow, ()) = join(send(&app, upload(Body::from_stream(body))), meanwhile).await;
    assert_eq!((slow.status.as_u16(), slow.text()), (200, "a+b"));
}

#[tokio::test]
async fn what_names_no_resources_is_refused_before_the_store_is_asked() {
    let locks = Locks::memory();
    locks.shutdown(Duration::ZERO).await;
    let app = app(lock(&locks));
    assert_eq!(send(&app, upload(Body::from("["))).await.status, StatusCode::BAD_REQUEST, "the extractor's answer");
    let wrong = Request::builder().method(Method::POST).uri("/moves").body(Body::from("[]")).unwrap();
    assert_eq!(send(&app, wrong).await.status, StatusCode::UNSUPPORTED_MEDIA_TYPE, "the extractor's answer");
    send(&app, move_between(&[])).await.refusal(400, "bad-request");
    send(&app, move_between(&[""])).await.refusal(400, "bad-request");
    let many: Vec<_> = (0..65).map(|id| id.to_string()).collect();
    send(&app, move_between(&many.iter().map(String::as_str).collect::<Vec<_>>())).await.refusal(400, "bad-request");
    send(&app, move_between(&["a", "b"])).await.refusal(503, "shutting-down");
}

#[tokio::test]
async fn sixty_four_are_locked_and_one_named_twice_is_one() {
    let locks = Locks::memory();
    let app = app(lock(&locks));
    let many: Vec<_> = (0..64).map(|id| id.to_string()).collect();
    let answer = send(&app, move_between(&many.iter().map(String::as_str).collect::<Vec<_>>())).await;
    assert_eq!((answer.status.as_u16(), answer.headers.get_all("fencing-token").iter().count()), (200, 64));
    let answer = send(&app, move_between(&["a", "a"])).await;
    let tokens: Vec<_> = answer.headers.get_all("fencing-token").iter().collect();
    assert!(tokens.len() == 2 && tokens[0] == tokens[1], "{tokens:?}");
}

#[tokio::test]
async fn keys_may_come_from_path_and_body_together() {
    let locks = Locks::memory();
    let by = RouteLock::write_all(&locks, |(Path(from), Json(to)): (Path<String>, Json<Vec<String>>)| {
        std::iter::once(from).chain(to).map(|id| Key::of(&Sku(id)))
    });
    let inside = locks.clone();
    let handler = async move || format!("{} {}", is_free(&inside, "a").await, is_free(&inside, "b").await);
    let app = Router::new().route("/stock/{from}/moves", post(handler).route_layer(by));
    let mut request = move_between(&["b"]);
    *request.uri_mut() = "/stock/a/moves".parse().unwrap();
    assert_eq!(send(&app, request).await.text(), "false false");
}

/// The answer to a request whose handler never ends. With `commits` it has begun a commit before.
async fn held_too_long(commits: bool) -> (Value, Vec<bool>) {
    let locks = Locks::memory();
    let (show, mut shown) = mpsc::channel(1);
    let handler = async move |fences: MultiFence| {
        assert!(!commits || fences.iter().last().unwrap().commit_started());
        show.send(fences).await.unwrap();
        std::future::pending::<()>().await;
    };
    let lock = lock(&locks).max_hold(SHORT).commit_timeout(SHORT);
    let app = Router::new().route("/moves", post(handler).route_layer(lock));
    let answer = send(&app, move_between(&["a", "b"])).await;
    let slug = if commits { "outcome-unknown" } else { "lease-lost" };
    let applied = answer.refusal(503, slug)["applied"].clone();
    let fences = shown.recv().await.unwrap();
    let may_commit = fences.iter().map(Fence::commit_started).collect();
    idle(&locks).await;
    (applied, may_commit)
}

#[tokio::test]
async fn a_commit_under_any_of_them_counts_for_all() {
    assert_eq!(held_too_long(false).await, (Value::Bool(false), vec![false, false]), "no commit may follow");
    assert_eq!(held_too_long(true).await, (Value::Null, vec![true, true]), "nobody can say");
}

#[tokio::test]
async fn a_streamed_answer_keeps_all_to_its_end() {
    let locks = Locks::memory();
    let (end, ended) = oneshot::channel::<()>();
    let ended = std::sync::Mutex::new(Some(ended));
    let handler = move |_: MultiFence| {
        let ended = ended.lock().unwrap().take().unwrap();
        std::future::ready(Body::from_stream(stream::once(async move {
            ended.await.unwrap();
            Ok::<_, Infallible>("rest")
        })))
    };
    let handler = std::sync::Arc::new(handler);
    let route = post(move |fences: MultiFence| handler(fences)).route_layer(lock(&locks));
    let app: Router = Router::new().route("/moves", route);
    let response = app.oneshot(move_between(&["a", "b"])).await.unwrap();
    assert!(!is_free(&locks, "a").await && !is_free(&locks, "b").await);
    end.send(()).unwrap();
    assert_eq!(axum::body::to_bytes(response.into_body(), 10).await.unwrap(), "rest");
    idle(&locks).await;
}

#[tokio::test]
async fn a_handler_that_takes_one_fence_of_several_is_told_which_to_take() {
    let locks = Locks::memory();
    let one = Router::new().route("/moves", post(async |_: Fence| ()).route_layer(lock(&locks)));
    send(&one, move_between(&["a", "b"])).await.refusal(500, "internal");
    let optional = async |fence: Option<Fence>| fence.is_none().to_string();
    let optional = Router::new().route("/moves", post(optional).route_layer(lock(&locks)));
    assert_eq!(send(&optional, move_between(&["a", "b"])).await.text(), "true");
    let single = async |fences: MultiFence| fences.iter().count().to_string();
    let single: Router = Router::new().route("/stock/{sku}", post(single).route_layer(RouteLock::by::<Sku>(&locks)));
    assert_eq!(send(&single, request(Method::POST, "/stock/1")).await.text(), "1");
    let none: Router = Router::new().route("/moves", post(async |_: MultiFence| ()));
    send(&none, move_between(&[])).await.refusal(500, "internal");
}

#[tokio::test]
async fn several_within_another_lock_are_refused_and_one_within_several_is_locked() {
    let locks = Locks::memory();
    let outer = RouteLock::template(&locks, "shelf:all");
    let within = Router::new().route("/moves", post(ids).route_layer(lock(&locks)).route_layer(outer));
    send(&within, move_between(&["a", "b"])).await.refusal(500, "nested-lock");
    idle(&locks).await;

    let inner = async |fence: Fence, fences: MultiFence| (fence, fences.iter().count().to_string());
    let inner = |key: &'static str| post(inner).route_layer(RouteLock::template(&locks, key)).route_layer(lock(&locks));
    let around = Router::new().route("/moves", inner("shelf:all"));
    assert_eq!(send(&around, move_between(&["a", "b"])).await.text(), "1", "the innermost is a lock of one");
    let twice = Router::new().route("/moves", inner("stock:b"));
    send(&twice, move_between(&["a", "b"])).await.refusal(500, "nested-lock");
    idle(&locks).await;
}

#[tokio::test]
async fn every_method_is_exclusive_but_options() {
    let locks = Locks::memory();
    let held = hold(&locks, "a").await;
    let app = app(lock(&locks).wait(Duration::ZERO));
    let mut get = move_between(&["a", "b"]);
    *get.method_mut() = Method::GET;
    send(&app, get).await.refusal(423, "lock-timeout");
    assert_eq!(send(&app, request(Method::OPTIONS, "/moves")).await.status, 405, "on its way to the handlers");
    held.release().await.unwrap();
    eventually("free", async || is_free(&locks, "a").await).await;
}

#[tokio::test]
async fn settings_that_do_not_go_with_several_are_found_when_the_route_is_built() {
    for wrong in [RouteLock::read, RouteLock::stream_body, |lock: RouteLock| lock.permits(2)] {
        let build = std::panic::AssertUnwindSafe(|| wrong(lock(&Locks::memory())));
        let panic = std::panic::catch_unwind(build).unwrap_err();
        let message = panic.downcast_ref::<String>().unwrap();
        assert!(message.contains("can't be combined with `RouteLock::write_all`"), "{message}");
    }
}
