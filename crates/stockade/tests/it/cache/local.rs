//! The in-process tier. It is used only while the subscription to invalidations works.

use std::{borrow::Cow, convert::Infallible, thread, time::Duration};

use metrics_exporter_prometheus::PrometheusBuilder;
use stockade::{Cache, Redis, Resource, cache::Source};
use stockade_testbed::{Fault, Proxy, RedisServer};
use tokio::{runtime::Builder, time::Instant};

use super::support::{
    Database, Loading, entry_key, eventually, get, hasty, one_read, patient, process, process_at, quantity, race, sku,
    stored, warm,
};
use crate::{redis_traffic::calls, world::World};

const WEIGHT: u64 = 1 << 20;

#[tokio::test]
async fn a_write_elsewhere_is_seen_in_the_process_that_holds_the_value() {
    let server = World::start().await;
    let database = Database::with(&[("a", 0)]);
    let writer = process(&server).await.local(WEIGHT).on(&database).await;
    let reader = process(&server).await.local(WEIGHT).on(&database).await;
    warm(&reader, "a").await;
    warm(&writer, "a").await;
    database.write("a", Some(1));
    writer.invalidate(&sku("a")).await.unwrap();
    assert_eq!(quantity(&get(&writer, "a").await), Some(1), "the writer reads what it wrote");
    eventually("the reader sees it", || async { quantity(&get(&reader, "a").await) == Some(1) }).await;
    let (loads, stats) = (database.loads(), reader.stats());
    warm(&reader, "a").await;
    get(&reader, "a").await;
    assert_eq!(database.loads(), loads);
    assert!(reader.stats().hits_local > stats.hits_local);
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_that_races_a_write_leaves_nothing_stale_behind() {
    let server = World::start().await;
    let database = Database::with(&[("a", 0)]);
    let writer = process(&server).await.on(&database).await;
    let reader = process(&server).await.local(WEIGHT).on(&database).await;
    race(&database, &reader, Duration::from_millis(500), async || writer.invalidate(&sku("a")).await.unwrap()).await;
    server.end().await;
}

/// Does `work` on another thread, like another process, and blocks the thread of the test meanwhile.
fn while_all_stands_still<T: Send>(work: impl Future<Output = T> + Send) -> T {
    let run = || Builder::new_current_thread().enable_all().build().unwrap().block_on(work);
    thread::scope(|scope| scope.spawn(run).join().unwrap())
}

/// Looks up to `looks` times whether Redis has read more values than `before`.
async fn reads_a_value(server: &RedisServer, before: Option<u64>, looks: u32) -> bool {
    for _ in 0..looks {
        if calls(server).await.get("hget").copied() > before {
            return true;
        }
    }
    false
}

#[tokio::test]
async fn a_write_between_a_read_and_its_answer_leaves_nothing_stale_behind() {
    let server = World::start().await;
    let database = Database::with(&[("a", 0)]);
    let reader = process(&server).await.local(WEIGHT).on(&database).await;
    while_all_stands_still(async { get(&process(&server).await.on(&database).await, "a").await });

    let before = calls(&server).await.get("hget").copied();
    let mut reads = one_read(&reader, "a");
    // Wait until Redis has read the value while the blocked thread can't take its answer.
    while !while_all_stands_still(reads_a_value(&server, before, 20)) {
        assert!(reads.try_join_next().is_none(), "the answer came before the write");
        tokio::task::yield_now().await;
    }
    database.write("a", Some(1));
    while_all_stands_still(async {
        process(&server).await.on(&database).await.invalidate(&sku("a")).await.unwrap();
    });
    // The answer and then the message of the write have both arrived.
    let found = reads.join_next().await.unwrap().unwrap().unwrap();
    assert_eq!((quantity(&found), found.info.source), (Some(0), Source::Redis), "it was not read before the write");
    assert_eq!(quantity(&get(&reader, "a").await), Some(1), "the old value was kept");
    server.end().await;
}

#[tokio::test]
async fn a_subscription_that_went_silent_is_not_believed() {
    let server = World::start().await;
    let proxy = Proxy::start(server.addr()).await.unwrap();
    let database = Database::with(&[("a", 0)]);
    let writer = process(&server).await.on(&database).await;
    let reader = hasty(&proxy.url_for(&server.url())).await.local(WEIGHT).grace(Duration::from_secs(5));
    let reader = reader.on(&database).await;
    warm(&reader, "a").await;

    proxy.set(Fault::Hole);
    let cut = Instant::now();
    database.write("a", Some(1));
    writer.invalidate(&sku("a")).await.unwrap();
    let mut degraded = 0;
    while cut.elapsed() < Duration::from_millis(9500) {
        let asked = cut.elapsed();
        let found = get(&reader, "a").await;
        let stale = quantity(&found) == Some(0);
        // The tier is trusted for three seconds after the last heartbeat, which may have come just before the cut.
        assert!(!stale || found.info.degraded || asked < Duration::from_millis(3100), "stale after {asked:?}");
        // After that the value is served as degraded, until its grace ends.
        assert!(!stale || asked < Duration::from_millis(8100), "stale past its grace, after {asked:?}");
        degraded += u32::from(stale && found.info.degraded);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(degraded > 10, "within its grace it was served, and marked");
    assert_eq!(quantity(&get(&reader, "a").await), Some(1), "past its grace it was loaded");

    proxy.set(Fault::None);
    eventually("it is on line again", || async { !reader.is_degraded() }).await;
    let found = get(&reader, "a").await;
    assert_eq!((quantity(&found), found.info.degraded), (Some(1), false));
    server.end_behind(proxy).await;
}

#[tokio::test]
async fn what_was_missed_while_disconnected_is_not_served_after() {
    let server = World::start().await;
    let proxy = Proxy::start(server.addr()).await.unwrap();
    let database = Database::with(&[("a", 0)]);
    let writer = process(&server).await.on(&database).await;
    let reader = process_at(&proxy.url_for(&server.url())).await.local(WEIGHT).on(&database).await;
    for version in 1..=5 {
        warm(&reader, "a").await;
        proxy.set(Fault::Reset);
        database.write("a", Some(version));
        writer.invalidate(&sku("a")).await.unwrap();
        eventually("the loss is noticed", || async { reader.is_degraded() }).await;
        proxy.set(Fault::None);
        eventually("it is on line again", || async { !reader.is_degraded() }).await;
        let found = get(&reader, "a").await;
        assert_eq!((quantity(&found), found.info.degraded), (Some(version), false));
    }
    server.end_behind(proxy).await;
}

#[tokio::test]
async fn a_gap_in_the_sequence_empties_the_tier() {
    let server = World::start().await;
    let database = Database::with(&[("a", 0), ("b", 0)]);
    let writer = process(&server).await.on(&database).await;
    let reader = process(&server).await.local(WEIGHT).on(&database).await;
    warm(&reader, "a").await;
    warm(&reader, "b").await;
    writer.invalidate(&sku("a")).await.unwrap();
    warm(&reader, "a").await;
    warm(&reader, "b").await;
    // The sequence of the bucket goes on, as if messages had been lost.
    let sequence = server.command(&["KEYS", "shop:v1:{*}s:stock"]).await.unwrap();
    server.command(&["INCRBY", &sequence, "5"]).await.unwrap();
    eventually("a beat or message shows the gap", || async { get(&reader, "b").await.info.source != Source::Local })
        .await;
    // Values that the process stores from now on are trusted again.
    warm(&reader, "b").await;
    server.end().await;
}

#[tokio::test]
async fn a_flushed_server_costs_loads_and_no_wrong_answer() {
    let server = World::start().await;
    let database = Database::with(&[("a", 0)]);
    let stocks = process(&server).await.local(WEIGHT).on(&database).await;
    let writer = process(&server).await.on(&database).await;
    warm(&stocks, "a").await;
    writer.invalidate(&sku("a")).await.unwrap();
    warm(&stocks, "a").await;
    for command in ["FLUSHALL", "SCRIPT FLUSH"] {
        server.command(&command.split(' ').collect::<Vec<_>>()).await.unwrap();
        let version = get(&stocks, "a").await.value.unwrap().quantity + 1;
        database.write("a", Some(version));
        writer.invalidate(&sku("a")).await.unwrap();
        eventually("the write is seen", || async { quantity(&get(&stocks, "a").await) == Some(version) }).await;
        assert!(stored(&server, "a").await);
    }
    server.end().await;
}

#[tokio::test]
async fn messages_of_a_process_take_nothing_from_it_that_it_read_after_its_write() {
    let server = World::start().await;
    let database = Database::with(&[("a", 0)]);
    let stocks = process(&server).await.local(WEIGHT).on(&database).await;
    for version in 1..=200 {
        database.write("a", Some(version));
        stocks.invalidate(&sku("a")).await.unwrap();
        assert_eq!(quantity(&get(&stocks, "a").await), Some(version));
        for _ in 0..3 {
            assert_eq!(get(&stocks, "a").await.info.source, Source::Local, "after write {version}");
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(database.loads(), 200);
    server.end().await;
}

/// The bound in `/metrics`. `None` if it is not there.
fn bound(metrics: &str) -> Option<f64> {
    let series = r#"stockade_cache_local_staleness_bound_seconds{cache="stock"} "#;
    metrics.lines().find_map(|line| line.strip_prefix(series))?.parse().ok()
}

#[tokio::test]
async fn each_cache_of_a_process_shows_whether_it_hears_of_invalidations() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let metrics = recorder.handle();
    let _recorder = metrics::set_default_local_recorder(&recorder);
    let server = World::start().await;
    let proxy = Proxy::start(server.addr()).await.unwrap();
    let database = Database::with(&[]);
    let stocks = hasty(&proxy.url_for(&server.url())).await.on(&database).await;
    let redis = Redis::connect(&server.url()).await.unwrap().namespace("shop");
    let prices = Cache::builder(&redis).loader(|_: Price| async { Ok::<_, Infallible>(None::<u8>) }).build();
    let shown = async |stock: u8, price: u8| {
        eventually("both gauges are as they should be", async || {
            let text = metrics.render();
            let has = |cache, up| text.contains(&format!("\nstockade_subscription_up{{cache=\"{cache}\"}} {up}\n"));
            has("stock", stock) && has("price", price)
        })
        .await;
    };
    shown(1, 1).await;
    proxy.set(Fault::Hole);
    shown(0, 1).await;
    // An alert on the cache ends with the cache, and so does what is said of its store.
    stocks.shutdown(Duration::ZERO).await;
    shown(1, 1).await;
    assert!(metrics.render().contains("\nstockade_cache_vouched_for{cache=\"stock\"} 1\n"), "{}", metrics.render());
    prices.shutdown(Duration::ZERO).await;
    server.end_behind(proxy).await;
}

/// The key of another cache than that of [`Database`].
#[derive(Clone)]
struct Price;

impl Resource for Price {
    const KIND: &'static str = "price";

    fn id(&self) -> Cow<'_, str> {
        Cow::Borrowed("a")
    }
}

#[tokio::test]
async fn how_old_an_answer_may_be_is_shown_and_holds() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let metrics = recorder.handle();
    let _recorder = metrics::set_default_local_recorder(&recorder);
    let server = World::start().await;
    let proxy = Proxy::start(server.addr()).await.unwrap();
    let database = Database::with(&[("a", 0)]);
    let writer = process(&server).await.on(&database).await;
    eventually("it is shown", || async { bound(&metrics.render()) == Some(0.0) }).await;
    let reader = hasty(&proxy.url_for(&server.url())).await.local(WEIGHT).on(&database).await;
    let recent_proof = |bound: f64| bound > 0.0 && bound < 1.8;
    eventually("it is above zero", || async { bound(&metrics.render()).is_some_and(recent_proof) }).await;
    warm(&reader, "a").await;
    // There are only hits in memory, and heartbeats of others, which say nothing about the delay to this process. Still
    // the process proves again and again that its values are recent.
    let (mut looks, mut recent) = (0, 0);
    let until = Instant::now() + Duration::from_secs(5);
    while Instant::now() < until {
        server.command(&["PUBLISH", "shop:v1:x:stock", "255 0 -"]).await.unwrap();
        get(&reader, "a").await;
        looks += 1;
        recent += usize::from(bound(&metrics.render()).is_some_and(recent_proof));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(recent * 10 > looks * 8, "{recent} of {looks}");

    // When the connection goes silent, the bound grows to its limit. It is zero once no value is served from memory.
    proxy.set(Fault::Hole);
    let cut = Instant::now();
    database.write("a", Some(1));
    writer.invalidate(&sku("a")).await.unwrap();
    let mut highest = 0.0_f64;
    loop {
        let (shown, asked) = (bound(&metrics.render()).unwrap(), cut.elapsed());
        highest = highest.max(shown);
        let found = get(&reader, "a").await;
        let missed = quantity(&found) == Some(0) && !found.info.degraded;
        assert!(!missed || asked < Duration::from_millis(3100), "missed for {asked:?}");
        if shown == 0.0 {
            assert!(!missed);
            break;
        }
        assert!(asked < Duration::from_secs(8), "{shown} s shown");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(highest > 2.0 && highest <= 3.0, "{highest}");
    proxy.set(Fault::None);
    eventually("it is shown again", || async { bound(&metrics.render()).is_some_and(recent_proof) }).await;

    // When the server closes the connections, older values in memory are not served any more. No message tells of the
    // change.
    eventually("it is on line again", || async { !reader.is_degraded() }).await;
    warm(&reader, "a").await;
    server.command(&["DEL", &entry_key(&server, "a").await]).await.unwrap();
    database.write("a", Some(2));
    for kind in ["pubsub", "normal"] {
        server.command(&["CLIENT", "KILL", "TYPE", kind]).await.unwrap();
    }
    eventually("the cut is noticed", || async {
        let found = get(&reader, "a").await;
        found.info.degraded || quantity(&found) == Some(2)
    })
    .await;
    eventually("it is on line again", || async { !reader.is_degraded() }).await;
    let found = get(&reader, "a").await;
    assert_eq!((quantity(&found), found.info.degraded), (Some(2), false));
    reader.shutdown(Duration::ZERO).await;
    assert_eq!(bound(&metrics.render()), Some(0.0), "a cache that is gone serves nothing");
    server.end_behind(proxy).await;
}

#[tokio::test]
async fn a_connection_that_lags_is_not_believed_although_messages_come() {
    let server = World::start().await;
    let proxy = Proxy::start(server.addr()).await.unwrap();
    let database = Database::with(&[("a", 0)]);
    let writer = process(&server).await.on(&database).await;
    // The time-out is so long that the connection is not closed for its overdue replies.
    let reader = patient(&proxy.url_for(&server.url())).await.local(WEIGHT).on(&database).await;
    warm(&reader, "a").await;
    // The delay grows step by step, so that the channel is never silent.
    for lag in 1..=5 {
        proxy.set(Fault::Delay(Duration::from_secs(lag)));
        let next = Instant::now() + Duration::from_millis(500);
        while Instant::now() < next {
            server.command(&["PUBLISH", "shop:v1:x:stock", "255 0 -"]).await.unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    database.write("a", Some(1));
    writer.invalidate(&sku("a")).await.unwrap();
    let written = Instant::now();
    while written.elapsed() < Duration::from_secs(6) {
        let asked = written.elapsed();
        // A read that has to ask Redis takes seconds now, so it is given up.
        if let Ok(found) = tokio::time::timeout(Duration::from_millis(50), get(&reader, "a")).await {
            let missed = quantity(&found) == Some(0) && !found.info.degraded;
            assert!(!missed || asked < Duration::from_millis(3100), "missed for {asked:?}");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    proxy.set(Fault::None);
    eventually("it is on line again", || async { !reader.is_degraded() }).await;
    eventually("the write is seen", || async { quantity(&get(&reader, "a").await) == Some(1) }).await;
    server.end_behind(proxy).await;
}
