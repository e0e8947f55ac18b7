use axum::{
    Router,
    http::Method,
    routing::{get, post},
};
use futures_util::future::join_all;
use stockade::{Fence, Locks, lock::Mode, route_lock::RouteLock};
use stockade_testbed::eventually;
use tokio::sync::Semaphore;

use super::support::{SHORT, Sku, idle, request, send};

async fn mode(fence: Fence) -> &'static str {
    fence.mode().as_str()
}

#[tokio::test]
async fn so_many_requests_at_a_time_hold_a_resource_and_no_more() {
    static GATE: Semaphore = Semaphore::const_new(0);
    let locks = Locks::memory();
    let wait_inside = async || {
        GATE.acquire().await.unwrap().forget();
    };
    let lock = RouteLock::by::<Sku>(&locks).permits(2).wait(SHORT);
    let app = Router::new().route("/stock/{sku}", get(wait_inside).post(wait_inside).route_layer(lock));
    // Safe and unsafe methods take the same permits.
    let two = join_all([send(&app, request(Method::GET, "/stock/1")), send(&app, request(Method::POST, "/stock/1"))]);
    let third = async {
        eventually("both are inside", || async { locks.inspect("stock:1").await.unwrap().holders.len() == 2 }).await;
        assert!(locks.inspect("stock:1").await.unwrap().holders.iter().all(|party| party.mode == Mode::Permit));
        send(&app, request(Method::POST, "/stock/1")).await.refusal(423, "lock-timeout");
        let options = send(&app, request(Method::OPTIONS, "/stock/1")).await;
        assert_eq!(options.status, 405);
        GATE.add_permits(3);
        // Another resource has permits of its own.
        assert_eq!(send(&app, request(Method::POST, "/stock/2")).await.status, 200);
    };
    let (two, ()) = futures_util::future::join(two, third).await;
    assert!(two.iter().all(|answer| answer.status == 200));
    idle(&locks).await;
}

#[tokio::test]
async fn a_handler_sees_its_permit_and_another_capacity_is_a_fault_of_the_service() {
    let locks = Locks::memory();
    let lock = |permits| RouteLock::by::<Sku>(&locks).permits(permits).wait(SHORT);
    let app = Router::new()
        .route("/stock/{sku}", post(mode).route_layer(lock(2)))
        .route("/more/{sku}", post(mode).route_layer(lock(3)));
    assert_eq!(send(&app, request(Method::POST, "/stock/1")).await.text(), "permit");
    let held = locks.semaphore(&Sku("1".to_owned()), 2).acquire().await.unwrap();
    send(&app, request(Method::POST, "/more/1")).await.refusal(500, "internal");
    assert_eq!(send(&app, request(Method::POST, "/stock/1")).await.status, 200);
    drop(held);
    assert_eq!(send(&app, request(Method::POST, "/more/1")).await.status, 200);
    idle(&locks).await;
}

#[test]
fn modes_that_exclude_one_another_are_found_when_the_route_is_built() {
    let pairs: [fn(RouteLock) -> RouteLock; 5] = [
        |lock| lock.permits(4).read(),
        |lock| lock.permits(4).write(),
        |lock| lock.read().permits(4),
        |lock| lock.read().write(),
        |lock| lock.write().permits(4),
    ];
    for pair in pairs {
        let build = std::panic::AssertUnwindSafe(|| pair(RouteLock::by::<Sku>(&Locks::memory())));
        let panic = std::panic::catch_unwind(build).unwrap_err();
        assert!(panic.downcast_ref::<&str>().unwrap().contains("exclude one another"));
    }
    drop(RouteLock::by::<Sku>(&Locks::memory()).permits(4).permits(2));
}
