use std::{
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    http::Method,
    routing::{get, post},
};
use futures_util::{FutureExt, future::join};
use serde_json::Value;
use stockade::{Fence, Locks, lock::Force, route_lock::RouteLock};
use stockade_testbed::eventually;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{Notify, mpsc},
    task::JoinSet,
};
use tower::ServiceExt;

use super::support::{LIMIT, SHORT, Sku, hold, idle, is_free, request, send};

/// A handler that reports when it is entered, waits until it may go on, and notes whether it ended or was dropped.
#[derive(Clone, Default)]
struct Work {
    entered: Arc<Notify>,
    go: Arc<Notify>,
    done: Arc<AtomicBool>,
    dropped: Arc<AtomicBool>,
}

struct OnDrop(Arc<AtomicBool>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Work {
    async fn run(self) -> &'static str {
        let _dropped = OnDrop(self.dropped);
        self.entered.notify_one();
        self.go.notified().await;
        self.done.store(true, Ordering::SeqCst);
        "done"
    }

    fn app(&self, lock: RouteLock) -> Router {
        let (read, write) = (self.clone(), self.clone());
        let route = get(async move || read.run().await).post(async move || write.run().await);
        Router::new().route("/stock/{sku}", route.route_layer(lock))
    }

    fn is_done(&self) -> bool {
        self.done.load(Ordering::SeqCst)
    }

    fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::SeqCst)
    }
}

/// A client on a real connection that goes away while its request is in the handler.
async fn disconnect(app: Router, method: &str, work: &Work) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut server = JoinSet::new();
    server.spawn(async move { axum::serve(listener, app).await });
    let mut client = TcpStream::connect(address).await.unwrap();
    let head = format!("{method} /stock/1 HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n");
    client.write_all(head.as_bytes()).await.unwrap();
    work.entered.notified().await;
    // Reset the connection. A server may take a half-close for the end of the requests only.
    client.set_zero_linger().unwrap();
    drop(client);
    if method == "GET" {
        eventually("the read was dropped", async || work.is_dropped()).await;
    } else {
        // The server serves this second connection after it has read the end of the first.
        let mut probe = TcpStream::connect(address).await.unwrap();
        probe.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await.unwrap();
        probe.read_to_end(&mut Vec::new()).await.unwrap();
    }
    // The shutdown ends all connections of the server.
    server.shutdown().await;
}

#[tokio::test]
async fn a_write_whose_client_has_gone_runs_to_its_end_under_the_lock() {
    let (locks, work) = (Locks::memory(), Work::default());
    disconnect(work.app(RouteLock::by::<Sku>(&locks)), "POST", &work).await;
    assert!(!work.is_dropped() && !is_free(&locks, "1").await);
    work.go.notify_one();
    eventually("the write is done", async || work.is_done()).await;
    idle(&locks).await;
}

#[tokio::test]
async fn a_read_whose_client_has_gone_is_dropped_and_released() {
    let (locks, work) = (Locks::memory(), Work::default());
    disconnect(work.app(RouteLock::by::<Sku>(&locks)), "GET", &work).await;
    assert!(!work.is_done());
    idle(&locks).await;
}

#[tokio::test]
async fn a_get_that_writes_runs_as_a_write() {
    let (locks, work) = (Locks::memory(), Work::default());
    let app = work.app(RouteLock::by::<Sku>(&locks).write());
    assert!(tokio::time::timeout(SHORT, app.oneshot(request(Method::GET, "/stock/1"))).await.is_err());
    assert!(!work.is_dropped());
    work.go.notify_one();
    eventually("the write is done", async || work.is_done()).await;
    idle(&locks).await;
}

#[tokio::test]
async fn a_time_out_further_out_drops_a_read_and_leaves_a_write_to_its_end() {
    for (method, done) in [(Method::GET, false), (Method::POST, true)] {
        let (locks, work) = (Locks::memory(), Work::default());
        let app = work.app(RouteLock::by::<Sku>(&locks));
        let timed_out = tokio::time::timeout(SHORT, app.oneshot(request(method.clone(), "/stock/1"))).await;
        assert!(timed_out.is_err());
        assert_eq!(work.is_dropped(), !done);
        work.go.notify_one();
        idle(&locks).await;
        assert_eq!(work.is_done(), done, "{method}");
    }
}

#[tokio::test]
async fn a_client_that_leaves_while_waiting_leaves_no_waiter() {
    let (locks, work) = (Locks::memory(), Work::default());
    let app = work.app(RouteLock::by::<Sku>(&locks));
    let held = hold(&locks, "1").await;
    for method in [Method::GET, Method::POST] {
        assert!(tokio::time::timeout(SHORT, app.clone().oneshot(request(method, "/stock/1"))).await.is_err());
    }
    super::support::waiting(&locks, "stock:1", 0).await;
    drop(held);
    idle(&locks).await;
    assert!(!work.is_dropped(), "no handler has run");
}

#[tokio::test]
async fn a_panic_releases_and_propagates() {
    async fn panics() {
        panic!("out of stock");
    }
    let locks = Locks::memory();
    let app = Router::new().route("/stock/{sku}", get(panics).post(panics).route_layer(RouteLock::by::<Sku>(&locks)));
    for method in [Method::GET, Method::POST] {
        let call = AssertUnwindSafe(app.clone().oneshot(request(method, "/stock/1"))).catch_unwind();
        let panic = call.await.expect_err("the panic was swallowed");
        assert_eq!(panic.downcast_ref(), Some(&"out of stock"));
        idle(&locks).await;
    }
}

#[tokio::test]
async fn a_write_runs_in_the_span_of_its_request() {
    let _default = tracing::subscriber::set_default(tracing_subscriber::registry());
    let locks = Locks::memory();
    let span = async || format!("{:?}", tracing::Span::current().id());
    let app = Router::new().route("/stock/{sku}", get(span).post(span).route_layer(RouteLock::by::<Sku>(&locks)));
    let request_span = tracing::info_span!("request");
    for method in [Method::GET, Method::POST] {
        use tracing::Instrument;
        let answer = send(&app, request(method, "/stock/1")).instrument(request_span.clone()).await;
        assert_eq!(answer.text(), format!("{:?}", request_span.id()));
    }
}

#[tokio::test]
async fn a_write_that_loses_its_lock_is_told_and_gives_its_own_answer() {
    let locks = Locks::memory();
    let lost = async |fence: Fence| fence.lost().await.as_str();
    let app = Router::new().route("/stock/{sku}", get("").post(lost).route_layer(RouteLock::by::<Sku>(&locks)));
    let force = async {
        eventually("the lock is held", async || !locks.list(1).await.unwrap().is_empty()).await;
        locks.force_release("stock:1", Force::Now).await.unwrap();
    };
    let (answer, ()) = join(send(&app, request(Method::POST, "/stock/1")), force).await;
    assert_eq!((answer.status.as_u16(), answer.text()), (200, "forced"));
    idle(&locks).await;
}

#[tokio::test]
async fn a_read_that_loses_its_lock_is_dropped_and_answered() {
    let (locks, work) = (Locks::memory(), Work::default());
    let app = work.app(RouteLock::by::<Sku>(&locks));
    let force = async {
        work.entered.notified().await;
        locks.force_release("stock:1", Force::Now).await.unwrap();
    };
    let (answer, ()) = join(send(&app, request(Method::GET, "/stock/1")), force).await;
    assert_eq!(answer.refusal(503, "lease-lost")["applied"], false);
    assert_eq!(answer.headers["retry-after"], "1");
    assert!(work.is_dropped() && !work.is_done());
}

#[tokio::test]
async fn a_handler_that_holds_too_long_is_ended_and_answered() {
    for method in [Method::GET, Method::POST] {
        let (locks, work) = (Locks::memory(), Work::default());
        let app = work.app(RouteLock::by::<Sku>(&locks).max_hold(SHORT));
        let answer = send(&app, request(method, "/stock/1")).await;
        assert_eq!(answer.refusal(503, "lease-lost")["applied"], false);
        assert!(work.is_dropped() && !work.is_done());
        idle(&locks).await;
    }
}

/// A handler that reports that its commit is on its way, and ends when it may go on or after `commit_timeout`.
fn committing(locks: &Locks, work: &Work, commit_timeout: Duration) -> Router {
    let commit = {
        let work = work.clone();
        async move |fence: Fence| {
            assert!(fence.commit_started());
            work.run().await
        }
    };
    let lock = RouteLock::by::<Sku>(locks).max_hold(SHORT).commit_timeout(commit_timeout);
    Router::new().route("/stock/{sku}", post(commit).route_layer(lock))
}

#[tokio::test]
async fn a_handler_that_commits_past_its_time_gives_its_real_answer() {
    let (locks, work) = (Locks::memory(), Work::default());
    let app = committing(&locks, &work, LIMIT);
    let commit = async {
        tokio::time::sleep(SHORT + SHORT / 2).await;
        assert!(!is_free(&locks, "1").await, "the lock was given up while the commit was on its way");
        work.go.notify_one();
    };
    let (answer, ()) = join(send(&app, request(Method::POST, "/stock/1")), commit).await;
    assert_eq!((answer.status.as_u16(), answer.text()), (200, "done"));
    idle(&locks).await;
}

#[tokio::test]
async fn a_commit_that_does_not_end_is_answered_as_unknown() {
    let (locks, work) = (Locks::memory(), Work::default());
    let answer = send(&committing(&locks, &work, 2 * SHORT), request(Method::POST, "/stock/1")).await;
    assert_eq!(answer.refusal(503, "outcome-unknown")["applied"], Value::Null);
    assert!(!answer.headers.contains_key("retry-after"));
    idle(&locks).await;
}

#[tokio::test]
async fn nothing_commits_after_it_was_said_that_nothing_was_applied() {
    let locks = Locks::memory();
    let (leave, mut left) = mpsc::channel(1);
    let route = post(async move |fence: Fence| {
        leave.send(fence).await.unwrap();
        std::future::pending::<()>().await;
    });
    let app = Router::new().route("/stock/{sku}", route.route_layer(RouteLock::by::<Sku>(&locks).max_hold(SHORT)));
    let answer = send(&app, request(Method::POST, "/stock/1")).await;
    assert_eq!(answer.refusal(503, "lease-lost")["applied"], false);
    assert!(!left.recv().await.unwrap().commit_started());
}

/// The handler under the inner lock runs on a task of its own, which the end of the outer lock does not stop.
#[tokio::test]
async fn nothing_commits_under_an_inner_lock_after_the_outer_one_said_that_nothing_was_applied() {
    for method in [Method::GET, Method::POST] {
        let locks = Locks::memory();
        let (leave, mut left) = mpsc::channel(1);
        let handler = async move |fence: Fence| {
            leave.send(fence).await.unwrap();
            std::future::pending::<()>().await;
        };
        let outer = RouteLock::template(&locks, "shop:{sku}").max_hold(SHORT);
        let route = get(handler.clone()).post(handler).route_layer(RouteLock::by::<Sku>(&locks).write());
        let app = Router::new().route("/stock/{sku}", route.route_layer(outer));
        let answer = send(&app, request(method, "/stock/1")).await;
        assert_eq!(answer.refusal(503, "lease-lost")["applied"], false);
        assert!(!left.recv().await.unwrap().commit_started());
    }
}

/// The outer lock of these is for reading, so its layer ends with the client.
fn within_a_read(locks: &Locks, work: &Work) -> Router {
    let work = work.clone();
    let route = get(async move || work.run().await).route_layer(RouteLock::by::<Sku>(locks).write());
    Router::new().route("/stock/{sku}", route.route_layer(RouteLock::template(locks, "shop:{sku}")))
}

#[tokio::test]
async fn a_write_within_a_read_whose_client_has_gone_keeps_both_locks_to_its_end() {
    let (locks, work) = (Locks::memory(), Work::default());
    let app = within_a_read(&locks, &work);
    let mut client = JoinSet::new();
    client.spawn(app.oneshot(request(Method::GET, "/stock/1")));
    work.entered.notified().await;
    client.shutdown().await;
    assert_eq!(locks.list(9).await.unwrap(), ["shop:1", "stock:1"]);
    work.go.notify_one();
    eventually("the write is done", async || work.is_done()).await;
    idle(&locks).await;
}

#[tokio::test]
async fn the_longest_hold_of_an_outer_lock_ends_the_handler_under_an_inner_one() {
    for commits in [false, true] {
        let (locks, work) = (Locks::memory(), Work::default());
        let handler = {
            let work = work.clone();
            async move |fence: Fence| {
                assert!(!commits || fence.commit_started());
                work.run().await
            }
        };
        let outer = RouteLock::template(&locks, "shop:{sku}").max_hold(SHORT).commit_timeout(SHORT);
        let route = post(handler).route_layer(RouteLock::by::<Sku>(&locks).max_hold(2 * LIMIT));
        let app = Router::new().route("/stock/{sku}", route.route_layer(outer));
        let answer = send(&app, request(Method::POST, "/stock/1")).await;
        answer.refusal(503, if commits { "outcome-unknown" } else { "lease-lost" });
        eventually("the handler was dropped", async || work.is_dropped()).await;
        assert!(!work.is_done());
        idle(&locks).await;
    }
}

/// The inner layer goes on without its lock, so only the outer one limits the handler.
#[tokio::test]
async fn the_longest_hold_of_an_outer_lock_ends_a_write_that_goes_on_without_the_inner_one() {
    let (locks, work) = (Locks::memory(), Work::default());
    let handler = {
        let work = work.clone();
        async move || work.run().await
    };
    let outer = RouteLock::template(&locks, "shop:{sku}").max_hold(SHORT).commit_timeout(SHORT);
    let inner = RouteLock::by::<Sku>(&locks).read().read_wait(Duration::ZERO).max_hold(100 * LIMIT);
    let app = Router::new().route("/stock/{sku}", post(handler).route_layer(inner).route_layer(outer));
    let held = hold(&locks, "1").await;
    send(&app, request(Method::POST, "/stock/1")).await.refusal(503, "lease-lost");
    eventually("the handler was dropped", async || work.is_dropped()).await;
    assert!(!work.is_done());
    drop(held);
    idle(&locks).await;
}

#[tokio::test]
async fn handlers_that_were_ended_count_for_the_time_after_which_to_come_back() {
    let locks = Locks::memory();
    let work = Work::default();
    let lock = RouteLock::by::<Sku>(&locks).wait(SHORT).max_hold(Duration::from_millis(1_100));
    let app = work.app(lock);
    send(&app, request(Method::POST, "/stock/1")).await.refusal(503, "lease-lost");
    let _held = locks.write(&Sku("1".into())).acquire().await.unwrap();
    let refused = send(&app, request(Method::POST, "/stock/1")).await;
    refused.refusal(423, "lock-timeout");
    assert_eq!(refused.headers["retry-after"], "2");
}

#[tokio::test]
async fn a_commit_under_an_inner_lock_counts_for_the_outer_one() {
    for method in [Method::GET, Method::POST] {
        let locks = Locks::memory();
        let handler = async |fence: Fence| {
            assert!(fence.commit_started());
            std::future::pending::<()>().await;
        };
        let outer = RouteLock::template(&locks, "shop:{sku}").max_hold(SHORT).commit_timeout(SHORT);
        let route = get(handler).post(handler).route_layer(RouteLock::by::<Sku>(&locks).write());
        let app = Router::new().route("/stock/{sku}", route.route_layer(outer));
        let answer = send(&app, request(method, "/stock/1")).await;
        assert_eq!(answer.refusal(503, "outcome-unknown")["applied"], Value::Null);
    }
}

#[tokio::test]
async fn a_shutdown_lets_handlers_end_and_stops_those_that_do_not() {
    let (locks, work) = (Locks::memory(), Work::default());
    let app = work.app(RouteLock::by::<Sku>(&locks));
    let shutdown = async {
        work.entered.notified().await;
        work.go.notify_one();
        locks.shutdown(LIMIT).await;
        assert!(work.is_done(), "the shutdown did not wait");
    };
    let (answer, ()) = join(send(&app, request(Method::POST, "/stock/1")), shutdown).await;
    assert_eq!(answer.text(), "done");

    for method in [Method::GET, Method::POST] {
        let (locks, work) = (Locks::memory(), Work::default());
        let app = work.app(RouteLock::by::<Sku>(&locks));
        let shutdown = async {
            work.entered.notified().await;
            locks.shutdown(SHORT).await;
        };
        let (answer, ()) = join(send(&app, request(method, "/stock/1")), shutdown).await;
        answer.refusal(503, "shutting-down");
        assert!(work.is_dropped());
    }
}

#[tokio::test]
async fn a_write_that_has_lost_its_lock_goes_on_to_the_limit_of_a_shutdown() {
    let (locks, work) = (Locks::memory(), Work::default());
    let app = work.app(RouteLock::by::<Sku>(&locks));
    let ended = async {
        work.entered.notified().await;
        locks.force_release("stock:1", Force::Now).await.unwrap();
        join(locks.shutdown(LIMIT), async {
            let refused = async || locks.write(&Sku("2".into())).try_acquire().await.is_err();
            eventually("the shutdown has begun", refused).await;
            // All tasks that are ready run, the request's among them.
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            work.go.notify_one();
        })
        .await
    };
    let (answer, _) = join(send(&app, request(Method::POST, "/stock/1")), ended).await;
    assert_eq!((answer.status.as_u16(), answer.text()), (200, "done"));
}

#[tokio::test]
async fn a_shutdown_lets_writes_without_their_lock_end_and_begins_none() {
    for is_done in [true, false] {
        let (locks, work) = (Locks::memory(), Work::default());
        let app = work.app(RouteLock::by::<Sku>(&locks).read().read_wait(Duration::ZERO));
        let held = hold(&locks, "1").await;
        let shutdown = async {
            work.entered.notified().await;
            drop(held);
            let end = async {
                let refused = async || locks.write(&Sku("2".into())).try_acquire().await.is_err();
                eventually("the shutdown has begun", refused).await;
                if is_done {
                    // All tasks that are ready run, the request's among them.
                    for _ in 0..100 {
                        tokio::task::yield_now().await;
                    }
                    assert!(!work.is_dropped(), "dropped within its work");
                    work.go.notify_one();
                }
            };
            join(locks.shutdown(if is_done { LIMIT } else { SHORT }), end).await;
        };
        let (answer, ()) = join(send(&app, request(Method::POST, "/stock/1")), shutdown).await;
        if is_done {
            assert_eq!((answer.status.as_u16(), answer.text()), (200, "done"));
        } else {
            answer.refusal(503, "outcome-unknown");
        }
        send(&app, request(Method::POST, "/stock/1")).await.refusal(503, "shutting-down");
    }
}
