//! Rows that can't be loaded, next to rows that can.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::{StreamExt, stream};
use stockade::{
    Cache,
    cache::{CacheBuilder, CacheError, RowError, Source},
};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use super::support::{Bad, Database, Loading, Sku, Stock, Stocks, eventually, get, process, quantity, sku};
use crate::world::World;

const WINDOW: Duration = Duration::from_millis(400);
/// How long each test reads: for five windows and a half.
const RUN: Duration = Duration::from_millis(2200);

fn held(builder: CacheBuilder<Sku, Stock>) -> CacheBuilder<Sku, Stock> {
    builder.hold_off(WINDOW).early_refresh(0.0)
}

/// The most loads of a row that keeps failing, within the time `ran`. Two loads in a row must fail before the row is
/// held off, and then one load is tried after each window. `others` are added: 1 for a load at the end of the run, and
/// 2 if there is also a load of several rows, which does not count as a failure of this row.
fn tries(others: usize, ran: Duration) -> usize {
    usize::try_from(ran.as_millis() / WINDOW.as_millis()).unwrap() + 2 + others
}

/// Reads every 5 ms until the other future has ended.
async fn beside<T>(read: impl AsyncFn(), until: impl Future<Output = T>) -> T {
    let mut until = pin!(until);
    loop {
        tokio::select! {
            over = &mut until => return over,
            () = read() => {}
        }
        tokio::select! {
            over = &mut until => return over,
            () = sleep(Duration::from_millis(5)) => {}
        }
    }
}

/// Reads about 20 rows a second, each for the first time. Each read must be answered.
async fn healthy(stocks: &Stocks, what: &str) -> Duration {
    let began = Instant::now();
    let mut number = 0;
    while began.elapsed() < RUN {
        let found = stocks.get(&sku(&format!("{what}{number}"))).await;
        assert!(found.is_ok(), "{number}, after {:?}: {found:?}", began.elapsed());
        number += 1;
        sleep(Duration::from_millis(50)).await;
    }
    assert!(number > 5);
    began.elapsed()
}

#[tokio::test]
async fn a_row_that_can_not_be_loaded_is_held_off_and_the_others_are_loaded() {
    let server = World::start().await;
    let database = Database::with(&[("bad", 7)]);
    let limit = Duration::from_millis(500);
    let quick = held(process(&server).await).load_timeout(limit);
    let [redis, memory] = [quick, held(Cache::memory()).load_timeout(limit)];
    for (name, builder) in [("redis", redis), ("memory", memory)] {
        let stocks = builder.on(&database).await;
        for bad in [Bad::Fails, Bad::Panics, Bad::Hangs] {
            database.spoil("bad", bad);
            let read = async || assert!(stocks.get(&sku("bad")).await.is_err());
            let ran = beside(read, healthy(&stocks, &format!("{name}{bad:?}"))).await;
            let tried = database.mend("bad");
            assert!((2..=tries(1, ran)).contains(&tried), "{name}, {bad:?}: tried {tried} times in {ran:?}");
            eventually("it is loaded", || async { stocks.get(&sku("bad")).await.is_ok() }).await;
            stocks.invalidate(&sku("bad")).await.unwrap();
        }
    }
    server.end().await;
}

#[tokio::test]
async fn it_is_held_off_for_all_processes() {
    let server = World::start().await;
    let database = Database::with(&[("bad", 7)]);
    let build = async || held(process(&server).await).on(&database).await;
    let (one, two) = (build().await, build().await);
    database.spoil("bad", Bad::Fails);
    let read = async || {
        assert!(one.get(&sku("bad")).await.is_err());
        assert!(two.get(&sku("bad")).await.is_err());
    };
    let ran = beside(read, healthy(&one, "fleet")).await;
    assert!(matches!(two.get(&sku("bad")).await, Err(CacheError::HeldOff { .. } | CacheError::Load(_))));
    let tried = database.mend("bad");
    assert!((3..=tries(1, ran)).contains(&tried), "tried {tried} times in {ran:?}");
    server.end().await;
}

#[tokio::test]
async fn without_redis_it_is_held_off_by_each_process() {
    let server = World::start().await;
    let database = Database::with(&[]);
    let stocks = held(process(&server).await).on(&database).await;
    server.kill().await.unwrap();
    eventually("the loss is noticed", || async { stocks.is_degraded() }).await;
    database.spoil("bad", Bad::Fails);
    let read = async || assert!(stocks.get(&sku("bad")).await.is_err());
    let ran = beside(read, healthy(&stocks, "degraded")).await;
    let tried = database.mend("bad");
    assert!((3..=tries(1, ran)).contains(&tried), "tried {tried} times in {ran:?}");
    server.end().await;
}

#[tokio::test]
async fn one_of_several_that_can_not_be_loaded_takes_nobody_with_it() {
    let server = World::start().await;
    let database = Database::with(&[]);
    for bad in [Bad::Fails, Bad::Panics] {
        let builder = held(process(&server).await).batching(&database);
        let stocks = builder.name(if bad == Bad::Fails { "fails" } else { "panics" }).on(&database).await;
        database.spoil("bad", bad);
        let began = Instant::now();
        for round in 0.. {
            if began.elapsed() > RUN {
                break;
            }
            let keys: Vec<_> = (0..5).map(|number| sku(&format!("{round} {number}"))).chain([sku("bad")]).collect();
            let mut many = stocks.get_many(&keys).await;
            assert!(many.pop().is_some_and(|found| found.is_err()));
            assert!(many.iter().all(|found| found.as_ref().is_ok_and(|found| found.info.stored)), "{round}: {many:?}");
        }
        let tried = database.mend("bad");
        // One more load is that of the row together with others.
        assert!((3..=tries(2, began.elapsed())).contains(&tried), "{bad:?}: tried {tried} times");
    }
    server.end().await;
}

#[tokio::test]
async fn one_of_several_that_never_ends_spoils_one_load_and_is_then_loaded_by_itself() {
    let server = World::start().await;
    let database = Database::with(&[]);
    let builder = held(process(&server).await).load_timeout(Duration::from_secs(1)).batching(&database);
    let stocks = builder.on(&database).await;
    database.spoil("bad", Bad::Hangs);
    let keys = ["x", "y", "bad"].map(sku);
    assert!(stocks.get_many(&keys).await.iter().all(|found| matches!(found, Err(CacheError::Timeout(_)))));
    let again = stocks.get_many(&keys).await;
    assert!(again[0].is_ok() && again[1].is_ok() && again[2].is_err(), "{again:?}");
    let others = stocks.get_many(&["v", "w", "bad"].map(sku)).await;
    assert!(others[0].is_ok() && others[1].is_ok() && others[2].is_err(), "{others:?}");
    server.end().await;
}

#[tokio::test]
async fn a_warm_up_loads_all_but_the_row_that_can_not_be_loaded() {
    let server = World::start().await;
    let database = Database::with(&[]);
    let stocks = held(process(&server).await).batching(&database).on(&database).await;
    database.spoil("bad", Bad::Fails);
    let keys = (0..50).map(|number| sku(&number.to_string())).chain([sku("bad")]);
    let report = stocks.warm(stream::iter(keys).boxed()).within(Duration::from_secs(60)).run().await;
    assert_eq!((report.absent, report.failed, report.skipped()), (50, 1, 0), "{report:?}");
    server.end().await;
}

#[tokio::test]
async fn rows_at_fault_never_count_against_the_database_and_other_failures_do() {
    for (is_known, refused) in [(true, 0), (false, 15)] {
        let stocks = Cache::<Sku, u64>::memory().loader(move |sku: Sku| async move {
            match (sku.0.strip_prefix("bad"), is_known) {
                (None, _) => Ok(Some(7)),
                (Some(_), true) => Err(Box::<dyn std::error::Error + Send + Sync>::from(RowError::new("garbage"))),
                (Some(_), false) => Err("garbage".into()),
            }
        });
        let stocks = stocks.build();
        let mut shed = 0;
        for number in 0..20 {
            match stocks.get(&sku(&format!("bad{number}"))).await {
                Err(CacheError::Shed { .. }) => shed += 1,
                found => assert!(matches!(found, Err(CacheError::Load(_))), "{found:?}"),
            }
        }
        assert_eq!((shed, stocks.get(&sku("good")).await.is_ok()), (refused, is_known));
    }
}

#[tokio::test]
async fn a_row_that_keeps_failing_does_not_keep_an_open_breaker_open() {
    let database = Database::with(&[]);
    // The row is held off so briefly that the load which the breaker lets through is mostly of the bad row.
    let stocks = Cache::memory().hold_off(Duration::from_millis(1)).loading(&database).build();
    database.spoil("bad", Bad::Fails);
    for _ in 0..3 {
        assert!(stocks.get(&sku("bad")).await.is_err());
        sleep(Duration::from_millis(2)).await;
    }
    get(&stocks, "fine").await;
    database.down(true);
    for number in 0..5 {
        assert!(matches!(stocks.get(&sku(&format!("down{number}"))).await, Err(CacheError::Load(_))));
    }
    assert!(matches!(stocks.get(&sku("good")).await, Err(CacheError::Shed { .. })), "it is not open");
    database.down(false);
    let tried = AtomicUsize::new(0);
    let read = async || {
        let failed = stocks.get(&sku("bad")).await;
        tried.fetch_add(usize::from(matches!(failed, Err(CacheError::Load(_)))), Ordering::SeqCst);
    };
    // No other row is read before the breaker has let the bad row through a few times.
    let probed = async || tried.load(Ordering::SeqCst) >= 3;
    beside(read, timeout(Duration::from_secs(10), eventually("it has tried", probed))).await.unwrap();
    get(&stocks, "good").await;
}

#[tokio::test]
async fn a_thousand_keys_at_once_wait_for_their_turn_and_leave_one_to_others() {
    let server = World::start().await;
    let ids: Vec<_> = (0..1000).map(|number| number.to_string()).collect();
    let database = Database::with(&ids.iter().map(|id| (id.as_str(), 7)).collect::<Vec<_>>());
    database.slow(Duration::from_millis(20));
    let stocks = process(&server).await.on(&database).await;
    let keys: Vec<_> = ids.iter().map(|id| sku(id)).collect();
    let mut calls = JoinSet::new();
    let (cache, many) = (stocks.clone(), keys.clone());
    calls.spawn(async move { cache.get_many(&many).await });
    database.queried().await;
    // Meanwhile others read, also keys that this call has yet to load.
    for id in ["other", "one more", "999", "998"] {
        get(&stocks, id).await;
    }
    assert!(calls.try_join_next().is_none(), "those had to wait for all others");
    let many = calls.join_next().await.unwrap().unwrap();
    let refused = many.iter().filter(|found| found.as_ref().map(quantity).ok() != Some(Some(7))).count();
    assert_eq!((refused, database.loads()), (0, 1002));
    assert!(database.most_running.load(Ordering::SeqCst) <= 8);
    server.end().await;
}

#[tokio::test]
async fn several_keys_wait_for_the_rate_of_loads_too() {
    let database = Arc::new(Database::default());
    let rate = std::num::NonZeroU32::new(50).unwrap();
    let stocks = Cache::memory().load_rate(rate).loading(&database).build();
    let keys: Vec<_> = (0..120).map(|number| sku(&number.to_string())).collect();
    let began = Instant::now();
    let many = stocks.get_many(&keys).await;
    assert!(many.iter().all(|found| found.as_ref().is_ok_and(|found| found.info.source == Source::Load)), "{many:?}");
    assert!(began.elapsed() > Duration::from_secs(1), "the rate was not kept");
}
