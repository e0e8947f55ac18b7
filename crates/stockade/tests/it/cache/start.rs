//! Calls of a cache right after it was built, before anything is connected.

use std::time::Duration;

use futures_util::stream;
use stockade::{
    Cache, Redis,
    cache::{Bloom, Source},
};
use stockade_testbed::{Fault, Proxy};
use tokio::time::Instant;

use super::{
    bloom::{filter, redis},
    support::{Database, Loading, eventually, get, process, quantity, sku, stored},
};
use crate::world::{World, attended, cached};

#[tokio::test]
async fn the_first_read_is_stored_and_the_next_process_finds_it_at_once() {
    let server = World::start().await;
    let database = Database::with(&[("a", 7), ("b", 8)]);
    let stocks = cached(process(&server).await.loading(&database).build());
    let first = get(&stocks, "a").await;
    assert_eq!((quantity(&first), first.info.degraded, first.info.stored), (Some(7), false, true));

    let stocks = cached(process(&server).await.loading(&database).build());
    assert_eq!(get(&stocks, "a").await.info.source, Source::Redis);

    let stocks = cached(process(&server).await.loading(&database).batching(&database).build());
    let many = stocks.get_many(&[sku("a"), sku("b"), sku("none")]).await;
    let infos: Vec<_> = many.into_iter().map(|found| found.unwrap().info).collect();
    assert_eq!(infos[0].source, Source::Redis, "{infos:?}");
    assert!(infos[1..].iter().all(|info| info.stored && !info.degraded), "{infos:?}");
    server.end().await;
}

#[tokio::test]
async fn the_first_warm_up_is_stored() {
    let server = World::start().await;
    let database = Database::with(&[("a", 7), ("b", 8)]);
    get(&cached(process(&server).await.loading(&database).build()), "a").await;

    let stocks = cached(process(&server).await.loading(&database).build());
    // The report counts each key once, however often a call asked Redis again.
    let report = stocks.warm(stream::iter([sku("a"), sku("b")])).run().await;
    assert_eq!((report.present, report.loaded), (1, 1), "{report:?}");
    assert!(stored(&server, "b").await);
    server.end().await;
}

#[tokio::test]
async fn the_first_invalidation_is_confirmed() {
    let server = World::start().await;
    let database = Database::with(&[("a", 7)]);
    let reader = process(&server).await.on(&database).await;
    get(&reader, "a").await;
    let writer = cached(process(&server).await.loading(&database).build());
    writer.invalidate(&sku("a")).await.unwrap();
    assert!(!stored(&server, "a").await);
    let writer = cached(process(&server).await.loading(&database).build());
    writer.invalidate_tag("supplier:7").await.unwrap();
    server.end().await;
}

#[tokio::test]
async fn a_filter_is_asked_and_added_to_at_once() {
    let server = World::start().await;
    let complete = filter(&server.url()).await;
    let builder = || async { Bloom::builder::<super::support::Sku>(&redis(&server.url()).await).expected(2000) };
    let source = || super::bloom::ids(0..1000);
    let bloom = attended(builder().await.source(source).build());
    assert!(!bloom.may_hold(&sku("none")).await, "complete, and says nothing");
    let bloom = attended(builder().await.source(source).build());
    bloom.add(&[sku("new")]).await.unwrap();
    assert!(complete.may_hold(&sku("new")).await);

    let database = Database::with(&[]);
    let bloom = attended(builder().await.source(source).build());
    let stocks = cached(process(&server).await.bloom(&bloom).loading(&database).build());
    assert_eq!(get(&stocks, "none").await.info.source, Source::Filter);
    assert_eq!(database.loads(), 0);
    server.end().await;
}

#[tokio::test]
async fn under_a_silent_redis_the_first_read_waits_for_one_time_out_and_no_other_does() {
    /// An eighth of the limit for an attempt to connect.
    const TIME_OUT: Duration = Duration::from_millis(250);
    let server = World::start().await;
    let database = Database::with(&[("a", 7)]);
    let proxy = Proxy::start(server.addr()).await.unwrap();
    let redis = Redis::builder(proxy.url_for(&server.url())).command_timeout(TIME_OUT).connect().await.unwrap();
    let redis = redis.namespace("shop");
    proxy.set(Fault::Hole);
    let bloom = attended(
        Bloom::builder::<super::support::Sku>(&redis).expected(2000).source(|| super::bloom::ids(0..9)).build(),
    );
    let stocks = cached(Cache::builder(&redis).bloom(&bloom).loading(&database).build());
    let began = Instant::now();
    let first = get(&stocks, "a").await;
    assert_eq!((quantity(&first), first.info.degraded), (Some(7), true));
    assert!(began.elapsed() < 6 * TIME_OUT, "waited {:?}", began.elapsed());
    let mut waited = 0;
    for _ in 0..20 {
        let began = Instant::now();
        assert!(get(&stocks, "a").await.info.degraded);
        waited += usize::from(began.elapsed() >= TIME_OUT / 2);
    }
    // The machine may have stalled.
    assert!(waited <= 3, "{waited} of 20 later reads waited");
    proxy.set(Fault::None);
    eventually("it is on line", || async { !stocks.is_degraded() }).await;
    assert!(!get(&stocks, "a").await.info.degraded);
    server.end_behind(proxy).await;
}
