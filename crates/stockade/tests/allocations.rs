//! Allocations of cached reads and locks, with metrics on.

use std::{borrow::Cow, convert::Infallible, sync::Once, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::{FromRequestParts, Request, State},
    http::{StatusCode, request::Parts},
    routing::get,
};
use futures_util::FutureExt;
use metrics_exporter_prometheus::PrometheusBuilder;
use stockade::{
    Cache, Locks, Redis, Resource,
    cache::Source,
    extract::{Cached, FromCache},
    lock::{LockRequest, Released},
    route_lock::RouteLock,
};
use stockade_testbed::RedisServer;
use tokio::time::{Instant, sleep};
use tower::ServiceExt;

struct Sku(&'static str);

impl Clone for Sku {
    fn clone(&self) -> Self {
        Self(self.0)
    }
}

impl Resource for Sku {
    const KIND: &'static str = "stock";

    fn id(&self) -> Cow<'_, str> {
        Cow::Borrowed(self.0)
    }
}

fn record() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| drop(PrometheusBuilder::new().install_recorder().expect("another recorder")));
}

#[derive(Clone)]
struct App(Cache<Sku, String>);

impl<S: Sync> FromRequestParts<S> for Sku {
    type Rejection = Infallible;

    async fn from_request_parts(_: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self("85123A"))
    }
}

impl FromCache<App> for String {
    type Key = Sku;

    fn cache(app: &App) -> &Cache<Sku, Self> {
        &app.0
    }
}

/// A handler that reads a cached value many times under the lock of its route.
async fn read_often(State(app): State<App>, request: Request) -> StatusCode {
    let (mut parts, _) = request.into_parts();
    assert!(Cached::<String>::from_request_parts(&mut parts, &app).await.is_ok());
    let taken = allocation_counter::measure(|| {
        for _ in 0..1000 {
            let found = Cached::<String>::from_request_parts(&mut parts, &app).now_or_never();
            assert!(found.is_some_and(|found| found.is_ok_and(|found| found.info().source == Source::Local)));
        }
    });
    assert_eq!(taken.count_total, 0, "{taken:?}");
    StatusCode::NO_CONTENT
}

#[tokio::test]
async fn a_hit_under_the_lock_takes_no_memory() {
    record();
    let server = RedisServer::start().await.unwrap();
    let redis = Redis::connect(server.url()).await.unwrap();
    let load = |_: Sku| async { Ok::<_, Infallible>(Some("x".repeat(256))) };
    let cache = Cache::builder(&redis).under_locks().loader(load).build();
    while cache.is_degraded() {
        sleep(Duration::from_millis(2)).await;
    }
    let lock = RouteLock::by::<Sku>(&Locks::memory()).read();
    let app = Router::new().route("/", get(read_often).route_layer(lock)).with_state(App(cache));
    let answer = app.oneshot(Request::new(Body::empty())).await.unwrap();
    assert_eq!(answer.status(), StatusCode::NO_CONTENT);
}

#[tokio::test]
async fn a_hit_in_the_process_takes_no_memory() {
    record();
    let server = RedisServer::start().await.unwrap();
    let redis = Redis::connect(server.url()).await.unwrap();
    let load = |sku: Sku| async move { Ok::<_, Infallible>((sku.0 != "absent").then(|| "x".repeat(256))) };
    let remote = Cache::builder(&redis).local(1 << 20).loader(load).build();
    let memory = Cache::memory().loader(load).build();
    for (cache, id) in
        [&remote, &memory].into_iter().flat_map(|cache| ["85123A", "BANK: 5%", "absent"].map(|id| (cache, id)))
    {
        let key = Sku(id);
        let limit = Instant::now() + Duration::from_secs(10);
        while cache.get(&key).await.unwrap().info.source != Source::Local {
            assert!(Instant::now() < limit, "`{id}` never came from the process");
            sleep(Duration::from_millis(2)).await;
        }
        let taken = allocation_counter::measure(|| {
            for _ in 0..1000 {
                let found = cache.get(&key).now_or_never().unwrap().unwrap();
                assert_eq!(found.info.source, Source::Local);
            }
        });
        assert_eq!(taken.count_total, 0, "`{id}`: {taken:?}");
    }
}

/// Counts an acquire and a release: both scripts, their replies and the work of the connection's driver.
#[test]
fn a_lock_that_waits_for_nobody_takes_little_memory() {
    const PAIRS: u64 = 500;
    const MOST: u64 = 34;
    record();
    // The runtime has one thread, so that all allocations are counted.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = runtime.block_on(RedisServer::start()).unwrap();
    let redis = runtime.block_on(Redis::builder(server.url()).command_timeout(Duration::from_secs(20)).connect());
    let redis = redis.unwrap();
    // An event that its listener does not keep costs nothing.
    let (silent, watched) =
        runtime.block_on(async { (Locks::new(&redis), Locks::builder().on_event(|_| ()).redis(&redis)) });
    let pairs = |locks: &Locks, request: fn(&Locks) -> LockRequest| {
        runtime.block_on(async {
            for _ in 0..PAIRS {
                let guard = request(locks).acquire().await.unwrap();
                assert_eq!(guard.release().await.unwrap(), Released::Released);
            }
        });
    };
    for locks in [&silent, &watched] {
        for request in
            [(|locks| locks.write(&Sku("85123A"))) as fn(&Locks) -> LockRequest, |locks| locks.read(&Sku("22423"))]
        {
            pairs(locks, request);
            let taken = allocation_counter::measure(|| pairs(locks, request));
            assert!(taken.count_total <= MOST * PAIRS, "{} allocations a pair: {taken:?}", taken.count_total / PAIRS);
        }
        runtime.block_on(locks.shutdown(Duration::from_secs(1)));
    }
}
