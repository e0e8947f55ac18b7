//! The filter of existing ids on a real Redis.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::{Stream, StreamExt, stream};
use stockade::{
    Redis, Resource,
    cache::{Bloom, CacheError, Source},
    resource::KeyError,
};
use stockade_testbed::Proxy;
use tokio::sync::Semaphore;

use super::support::{Database, Loading, Sku, Stocks, eventually, get, process_at, quantity, sku};
use crate::world::{World, attended, patient};

/// A Redis with a long time-out. If a process gave up building a filter on a busy machine, no other process would
/// begin for half a minute.
pub(super) async fn redis(url: &str) -> Redis {
    patient(url).await.namespace("shop")
}

pub(super) fn ids(numbers: std::ops::Range<u64>) -> impl Stream<Item = Result<Sku, Infallible>> + Send + 'static {
    stream::iter(numbers.map(|number| Ok(sku(&format!("n{number}")))))
}

/// A filter of the ids n0 to n999.
pub(super) async fn filter(url: &str) -> Bloom {
    let bloom = attended(Bloom::builder::<Sku>(&redis(url).await).expected(2000).source(|| ids(0..1000)).build());
    eventually("the filter is complete", || async { bloom.stats().ready }).await;
    bloom
}

/// More permits than attempts to build a filter, however slow the machine is.
pub(super) const PLENTY: usize = 100;

/// A filter of the ids n0 to n999, and the permits for its source. Each further reading of the source takes a permit.
pub(super) async fn rationed(url: &str) -> (Bloom, Arc<Semaphore>) {
    let gate = Arc::new(Semaphore::new(PLENTY));
    let waits = Arc::clone(&gate);
    let source = move || {
        let waits = Arc::clone(&waits);
        stream::once(async move { waits.acquire().await.unwrap().forget() }).flat_map(|()| ids(0..1000))
    };
    let bloom = attended(Bloom::builder::<Sku>(&redis(url).await).expected(2000).source(source).build());
    eventually("the filter is complete", || async { bloom.stats().ready }).await;
    gate.forget_permits(PLENTY);
    (bloom, gate)
}

async fn filtered(url: &str, bloom: &Bloom, database: &Arc<Database>) -> Stocks {
    process_at(url).await.bloom(bloom).on(database).await
}

#[tokio::test]
async fn a_filter_is_opened_on_a_server_out_of_memory() {
    let server = World::start().await;
    server.command(&["CONFIG", "SET", "maxmemory", "1"]).await.unwrap();
    let redis = Redis::builder(server.url()).command_timeout(Duration::from_secs(10)).connect().await.unwrap();
    let bloom =
        attended(Bloom::builder::<Sku>(&redis.namespace("shop")).expected(2000).source(|| ids(0..1000)).build());
    eventually("its state is there", || async { !server.command(&["KEYS", "*"]).await.unwrap().is_empty() }).await;
    assert!(bloom.may_hold(&sku("none")).await);
    server.end().await;
}

#[tokio::test]
async fn an_id_that_never_existed_costs_no_load() {
    let server = World::start().await;
    let database = Database::with(&[("n7", 7)]);
    let bloom = filter(&server.url()).await;
    let stocks = filtered(&server.url(), &bloom, &database).await;
    assert_eq!(quantity(&get(&stocks, "n7").await), Some(7));
    let before = database.loads();
    let mut rejected = 0;
    for number in 0..300 {
        let lookup = get(&stocks, &format!("none{number}")).await;
        assert_eq!(quantity(&lookup), None);
        rejected += usize::from(lookup.info.source == Source::Filter);
    }
    let loads = database.loads() - before;
    assert_eq!(loads + rejected, 300);
    assert!(loads <= 15, "{loads} of 300 absent ids passed a filter of 1 %");
    assert_eq!(stocks.stats().bloom_reject, u64::try_from(rejected).unwrap());
    let many = stocks.get_many(&[sku("n7"), sku("none1000"), sku("none1001"), sku("none1002")]).await;
    let sources: Vec<_> = many.iter().map(|lookup| lookup.as_ref().unwrap().info.source).collect();
    assert_eq!(sources[0], Source::Redis);
    assert!(sources[1..].iter().filter(|source| **source == Source::Filter).count() >= 2, "{sources:?}");
    server.end().await;
}

#[tokio::test]
async fn a_key_of_another_kind_is_neither_ruled_out_nor_added() {
    struct Order;
    impl Resource for Order {
        const KIND: &'static str = "order";

        fn id(&self) -> std::borrow::Cow<'_, str> {
            "n1".into()
        }
    }
    let server = World::start().await;
    let bloom = filter(&server.url()).await;
    assert!(bloom.may_hold(&Order).await, "the filter knows nothing about orders");
    assert_eq!(bloom.may_hold_many(&[Order, Order]).await, [true; 2]);
    let refused = bloom.add(&[Order]).await;
    assert!(matches!(refused, Err(CacheError::Key(KeyError::Kind("stock")))), "{refused:?}");
    server.end().await;
}

#[tokio::test]
async fn a_filter_that_is_not_surely_complete_lets_everything_pass() {
    let server = World::start().await;
    let database = Database::with(&[("n900", 7), ("n8", 8), ("n9", 9)]);
    // The source stops before its end, so the filter is not complete until there is a permit.
    let (gate, asked) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicBool::new(false)));
    let (waits, half_way) = (Arc::clone(&gate), Arc::clone(&asked));
    let slow = move || {
        let (waits, half_way) = (Arc::clone(&waits), Arc::clone(&half_way));
        ids(0..1000).then(move |key| {
            let (waits, half_way) = (Arc::clone(&waits), Arc::clone(&half_way));
            async move {
                if key.as_ref().is_ok_and(|key| key.0 == "n600") {
                    half_way.store(true, Ordering::SeqCst);
                    waits.acquire().await.unwrap().forget();
                }
                key
            }
        })
    };
    let bloom = attended(Bloom::builder::<Sku>(&redis(&server.url()).await).expected(2000).source(slow).build());
    let stocks = filtered(&server.url(), &bloom, &database).await;
    eventually("half of it is built", || async { asked.load(Ordering::SeqCst) }).await;
    assert_eq!(quantity(&get(&stocks, "n900").await), Some(7), "before its id is in the bits");
    gate.add_permits(PLENTY);
    eventually("the filter is complete", || async { bloom.stats().ready }).await;
    gate.forget_permits(PLENTY);
    assert!(!bloom.may_hold(&sku("none")).await, "complete, and says nothing");

    // If the filter is lost, in part or as a whole, it is ignored until it is built again.
    let bits = server.command(&["KEYS", "*}b1:stock"]).await.unwrap();
    server.command(&["DEL", &bits]).await.unwrap();
    assert_eq!(quantity(&get(&stocks, "n8").await), Some(8), "without its bits");
    server.command(&["FLUSHALL"]).await.unwrap();
    assert_eq!(quantity(&get(&stocks, "n9").await), Some(9), "after a flush");
    gate.add_permits(PLENTY);
    eventually("it is built again", || async { !bloom.may_hold(&sku("none")).await }).await;
    assert!(bloom.may_hold(&sku("n999")).await);
    server.end().await;
}

#[tokio::test]
async fn a_filter_from_an_earlier_run_of_the_server_is_not_believed() {
    let server = World::start().await;
    let (bloom, gate) = rationed(&server.url()).await;
    server.command(&["SAVE"]).await.unwrap();
    // This id is acknowledged, and lost with the server.
    bloom.add(&[sku("new")]).await.unwrap();
    assert!(bloom.may_hold(&sku("new")).await);
    server.restart().await.unwrap();
    eventually("connected again", || async { bloom.add(&[sku("other")]).await.is_ok() }).await;
    assert!(bloom.may_hold(&sku("new")).await, "an acknowledged id is answered as absent");
    gate.add_permits(PLENTY);
    eventually("it is built again", || async { !bloom.may_hold(&sku("none")).await }).await;
    server.end().await;
}

#[tokio::test]
async fn an_id_added_while_the_next_filter_is_built_is_in_it() {
    let server = World::start().await;
    let gate = Arc::new(Semaphore::new(0));
    let (waits, begun) = (Arc::clone(&gate), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&begun);
    let source = move || {
        counted.fetch_add(1, Ordering::SeqCst);
        let waits = Arc::clone(&waits);
        // The source has read all rows but one before the new id comes.
        ids(0..10).chain(stream::once(async move {
            waits.acquire().await.unwrap().forget();
            Ok(sku("last"))
        }))
    };
    let url = server.url();
    let builder = attended(Bloom::builder::<Sku>(&redis(&url).await).expected(2000).source(source).build());
    eventually("it is being built", || async { begun.load(Ordering::SeqCst) == 1 }).await;
    // A process that dies in the middle leaves no bits for ever.
    let bits = server.command(&["KEYS", "*}b[01]:*"]).await.unwrap();
    let expiry: i64 = server.command(&["PTTL", bits.trim()]).await.unwrap().trim().parse().unwrap();
    assert!(expiry > 0, "{bits} stays for {expiry} ms");
    let other = attended(Bloom::builder::<Sku>(&redis(&url).await).expected(2000).source(|| ids(0..10)).build());
    eventually("the other is connected", || async { other.add(&[sku("new")]).await.is_ok() }).await;
    gate.add_permits(1);
    eventually("both can tell", || async { builder.stats().ready && other.stats().ready }).await;
    for bloom in [&builder, &other] {
        assert!(bloom.may_hold(&sku("new")).await && bloom.may_hold(&sku("last")).await);
        assert!(!bloom.may_hold(&sku("none")).await);
    }
    assert_eq!(begun.load(Ordering::SeqCst), 1, "built twice");
    server.end().await;
}

#[tokio::test]
async fn two_versions_that_want_different_sizes_share_one_filter() {
    let server = World::start().await;
    let old = filter(&server.url()).await;
    let larger =
        attended(Bloom::builder::<Sku>(&redis(&server.url()).await).expected(500_000).source(|| ids(0..1000)).build());
    eventually("the newer is connected", || async { larger.stats().ready }).await;
    old.add(&[sku("of the old")]).await.unwrap();
    larger.add(&[sku("of the new")]).await.unwrap();
    for bloom in [&old, &larger] {
        assert!(bloom.may_hold(&sku("of the old")).await, "the other version's id is answered as absent");
        assert!(bloom.may_hold(&sku("of the new")).await, "the other version's id is answered as absent");
        assert!(!bloom.may_hold(&sku("none")).await);
    }
    server.end().await;
}

#[tokio::test]
async fn bits_that_were_evicted_and_begun_anew_are_not_a_filter() {
    let server = World::start().await;
    let (bloom, gate) = rationed(&server.url()).await;
    let bits = server.command(&["KEYS", "*}b1:stock"]).await.unwrap();
    server.command(&["DEL", &bits]).await.unwrap();
    bloom.add(&[sku("new")]).await.unwrap();
    server.command(&["SETBIT", &bits, "7", "1"]).await.unwrap();
    assert!(bloom.may_hold(&sku("n5")).await, "an id that exists is answered as absent");
    gate.add_permits(PLENTY);
    eventually("it is built again", || async { !bloom.may_hold(&sku("none")).await }).await;
    assert!(bloom.may_hold(&sku("n5")).await);
    server.end().await;
}

#[tokio::test]
async fn without_an_answer_everything_may_exist_and_nothing_is_added_silently() {
    let server = World::start().await;
    let proxy = Proxy::start(server.addr()).await.unwrap();
    let quick = Redis::connect(proxy.url_for(&server.url())).await.unwrap().namespace("shop");
    let bloom = attended(Bloom::builder::<Sku>(&quick).expected(2000).source(|| ids(0..1000)).build());
    eventually("the filter is complete", || async { bloom.stats().ready }).await;
    assert!(!bloom.may_hold(&sku("none")).await);
    proxy.set(stockade_testbed::Fault::Hole);
    assert!(bloom.may_hold(&sku("none")).await);
    let refused = bloom.add(&[sku("new")]).await;
    assert!(matches!(refused, Err(CacheError::Filter(_))), "{refused:?}");
    let refused = bloom.clear().await;
    assert!(matches!(refused, Err(CacheError::Filter(_))), "{refused:?}");
    proxy.set(stockade_testbed::Fault::None);
    eventually("it answers again", || async { !bloom.may_hold(&sku("none")).await }).await;
    server.end_behind(proxy).await;
}

/// Of a million absent ids, the filter may let 1.2 times the rate pass that it was made for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::print_stdout, reason = "the rate is a result")]
async fn a_million_absent_ids_pass_at_the_rate_that_was_asked_for() {
    const ABSENT: u64 = 1_000_000;
    let server = World::start().await;
    let held = 50_000;
    // A filter that does not answer in time lets every id pass, which would spoil the rate.
    let redis = Redis::builder(server.url()).command_timeout(Duration::from_secs(10)).connect().await.unwrap();
    let builder = Bloom::builder::<Sku>(&redis).expected(held).false_positives(0.01);
    let bloom = attended(builder.source(move || ids(0..held)).build());
    eventually("the filter is complete", || async { bloom.stats().ready }).await;
    assert_eq!(bloom.stats().keys.div_ceil(1000), 50, "{:?}", bloom.stats());
    let mut passed = 0;
    for first in (0..ABSENT).step_by(5000) {
        let keys: Vec<_> = (first..first + 5000).map(|number| sku(&format!("absent{number}"))).collect();
        passed += bloom.may_hold_many(&keys).await.into_iter().filter(|may| *may).count();
    }
    println!("{ABSENT} absent ids, {passed} passed");
    assert!(passed <= 12_000, "{passed} of a million absent ids passed a filter of 1 %");
    assert!(passed >= 5_000, "{passed} is too few for a filter of this size: is anything asked?");
    let sure: Vec<_> = (0..held).map(|number| sku(&format!("n{number}"))).collect();
    assert!(bloom.may_hold_many(&sure).await.into_iter().all(|may| may), "an id that exists is answered as absent");
    server.end().await;
}
