//! Warm-ups: loads before the first read.

use std::{
    num::{NonZeroU32, NonZeroUsize},
    sync::{Arc, Mutex, atomic::Ordering},
    time::Duration,
};

use futures_util::{Stream, stream};
use stockade::{
    Cache,
    cache::{CacheError, Lookup, Source, WarmReport, WarmState, Warmup},
};
use stockade_testbed::RedisServer;
use tokio::{sync::Semaphore, task::JoinSet, time::Instant};

use super::support::{
    Database, Loading, Sku, Stock, Stocks, caught_up, entry_key, eventually, field, get, held_load, one_read, patient,
    quantity, reading, sku, stored,
};
use crate::world::World;

fn ids(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{prefix}{number}")).collect()
}

fn skus(ids: &[String]) -> Vec<Sku> {
    ids.iter().map(|id| sku(id)).collect()
}

/// A database of these rows.
fn holding(ids: &[String]) -> Arc<Database> {
    Database::with(&ids.iter().map(|id| (id.as_str(), 7)).collect::<Vec<_>>())
}

/// A warm-up on a task of its own.
fn warming(stocks: &Stocks, ids: &[String]) -> JoinSet<WarmReport> {
    running(stocks.warm(stream::iter(skus(ids))).within(Duration::from_secs(60)))
}

fn running<S: Stream<Item = Sku> + Send + 'static>(warmup: Warmup<Sku, Stock, S>) -> JoinSet<WarmReport> {
    let mut task = JoinSet::new();
    task.spawn(warmup.run());
    task
}

/// The report of a warm-up at its end.
async fn ended(mut warmup: JoinSet<WarmReport>) -> WarmReport {
    warmup.join_next().await.unwrap().unwrap()
}

/// Another process, which holds the leases of some keys.
struct Other {
    database: Arc<Database>,
    gate: Arc<Semaphore>,
    _reads: JoinSet<Result<Lookup<Stock>, CacheError>>,
}

impl Other {
    async fn loads(server: &RedisServer, ids: &[String]) -> Self {
        let database = holding(ids);
        let stocks = patient(&server.url()).await.max_loads(ids.len()).on(&database).await;
        let gate = database.shut();
        let mut reads = JoinSet::new();
        ids.iter().for_each(|id| reading(&mut reads, &stocks, id));
        eventually("it loads", || async { database.running.load(Ordering::SeqCst) == ids.len() }).await;
        Self { database, gate, _reads: reads }
    }

    /// Makes all loads of the other process fail.
    fn gives_up(&self) {
        self.database.down(true);
        self.gate.close();
    }
}

/// Waits until a caller was told that another process loads the key.
async fn told_to_wait(server: &RedisServer, id: &str) {
    let told = || async { field(server, &entry_key(server, id).await, "w").await.is_some() };
    eventually("somebody waits for another process", told).await;
}

#[tokio::test]
async fn what_is_not_there_is_loaded_once_and_what_is_there_is_not() {
    let server = World::start().await;
    let rows = ids("n", 250);
    let database = holding(&rows);
    let stocks = patient(&server.url()).await.on(&database).await;
    for id in &rows[..40] {
        get(&stocks, id).await;
    }
    let mut wanted = rows.clone();
    wanted.extend(ids("absent", 10));
    wanted.extend([String::new()]);
    let report = stocks.warm(stream::iter(skus(&wanted))).run().await;
    let counts = (report.keys, report.loaded, report.present, report.absent, report.failed, report.skipped());
    assert_eq!((report.state, counts), (WarmState::Complete, (261, 210, 40, 10, 1, 0)));
    assert_eq!(database.loads(), 260);
    assert!(database.most_running.load(Ordering::SeqCst) <= 4, "more than half of the places");
    for id in ["n0", "n249", "absent3"] {
        assert_eq!(get(&stocks, id).await.info.source, Source::Redis);
    }
    let other = patient(&server.url()).await.on(&database).await;
    let report = other.warm(stream::iter(skus(&wanted))).run().await;
    assert_eq!((report.present, report.failed, database.loads()), (260, 1, 260));
    server.end().await;
}

#[tokio::test]
async fn with_a_batch_loader_a_chunk_is_one_load() {
    let server = World::start().await;
    let rows = ids("n", 250);
    let database = holding(&rows);
    let (batch, sizes) = (Arc::clone(&database), Arc::new(Mutex::new(Vec::new())));
    let noted = Arc::clone(&sizes);
    let builder = patient(&server.url()).await.batch_loader(move |keys: Vec<Sku>| {
        noted.lock().unwrap().push(keys.len());
        let database = Arc::clone(&batch);
        async move { database.query_many(&keys).await }
    });
    let stocks = builder.on(&database).await;
    let chunk = NonZeroUsize::new(100).unwrap();
    let report = stocks.warm(stream::iter(skus(&rows))).chunk(chunk).run().await;
    assert_eq!((report.loaded, report.skipped()), (250, 0));
    let mut sizes = sizes.lock().unwrap().clone();
    sizes.sort_unstable();
    assert_eq!(sizes, [50, 100, 100]);
    assert!(stored(&server, "n7").await && stored(&server, "n249").await);
    server.end().await;
}

#[tokio::test]
async fn in_memory_the_same_rules_hold() {
    let rows = ids("n", 20);
    let database = holding(&rows);
    let stocks = Cache::memory().loading(&database).build();
    get(&stocks, "n3").await;
    let report = stocks.warm(stream::iter(skus(&rows))).run().await;
    assert_eq!((report.loaded, report.present, database.loads()), (19, 1, 20));
    assert_eq!(get(&stocks, "n4").await.info.source, Source::Local);
}

#[tokio::test]
async fn a_value_loaded_before_a_write_is_not_stored_after_it() {
    let server = World::start().await;
    let database = Database::with(&[("a", 7)]);
    let stocks = patient(&server.url()).await.on(&database).await;
    let gate = database.shut();
    let warmup = warming(&stocks, &["a".to_owned()]);
    database.queried().await;
    database.write("a", Some(8));
    stocks.invalidate(&sku("a")).await.unwrap();
    database.open();
    gate.add_permits(1);
    let report = ended(warmup).await;
    assert_eq!((report.state, report.loaded, report.skipped()), (WarmState::Complete, 0, 1));
    assert!(!stored(&server, "a").await, "a value from before the write was stored");
    assert_eq!(quantity(&get(&stocks, "a").await), Some(8));
    server.end().await;
}

#[tokio::test]
async fn a_key_that_somebody_loads_is_not_loaded_twice() {
    let server = World::start().await;
    let database = Database::with(&[("a", 1), ("b", 2)]);
    let other = patient(&server.url()).await.on(&database).await;
    let stocks = patient(&server.url()).await.on(&database).await;
    // The warm-up comes while another process loads `a`.
    let (gate, mut reads) = held_load(&database, &other, "a").await;
    let warmup = warming(&stocks, &["a".to_owned(), "b".to_owned()]);
    database.queried().await;
    // Reads come while the warm-up loads `b`.
    reading(&mut reads, &stocks, "b");
    reading(&mut reads, &other, "b");
    told_to_wait(&server, "a").await;
    eventually("they wait", || async { stocks.stats().fetching == 1 && other.stats().fetching == 2 }).await;
    database.open();
    gate.add_permits(2);
    while let Some(found) = reads.join_next().await {
        found.unwrap().unwrap();
    }
    let report = ended(warmup).await;
    assert_eq!((report.loaded, report.present, database.loads()), (1, 1, 2));
    server.end().await;
}

#[tokio::test]
async fn half_of_the_places_stay_free_for_reads() {
    let server = World::start().await;
    let mut rows = ids("warm", 200);
    rows.push("live".to_owned());
    let database = holding(&rows);
    let stocks = patient(&server.url()).await.max_loads(4).on(&database).await;
    let gate = database.shut();
    let warmup = warming(&stocks, &rows[..200]);
    eventually("it has its share", || async { database.running.load(Ordering::SeqCst) == 2 }).await;
    // Two loads of the warm-up are stuck and 198 more wait. A read passes them.
    database.open();
    let began = Instant::now();
    assert_eq!(quantity(&get(&stocks, "live").await), Some(7));
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    assert_eq!(database.loads(), 3, "it took more than its share");
    gate.add_permits(2);
    let report = ended(warmup).await;
    assert_eq!((report.loaded, database.most_running.load(Ordering::SeqCst)), (200, 3));
    server.end().await;
}

#[tokio::test]
async fn while_reads_use_their_half_a_warm_up_begins_nothing() {
    let server = World::start().await;
    let mut rows = ids("warm", 50);
    rows.extend(ids("live", 30));
    let database = holding(&rows);
    let stocks = patient(&server.url()).await.max_loads(4).on(&database).await;
    let gate = database.shut();
    let mut reads = one_read(&stocks, "live0");
    reading(&mut reads, &stocks, "live1");
    eventually("both run", || async { database.running.load(Ordering::SeqCst) == 2 }).await;
    database.open();
    let warmup = warming(&stocks, &rows[..50]);
    for number in 2..30 {
        get(&stocks, &format!("live{number}")).await;
        assert_eq!(database.loads(), number + 1, "a load of the warm-up among those of reads");
    }
    gate.add_permits(2);
    assert_eq!(ended(warmup).await.loaded, 50);
    server.end().await;
}

#[tokio::test]
async fn half_of_the_rate_stays_for_reads() {
    let server = World::start().await;
    let mut rows = ids("warm", 1000);
    rows.extend(ids("live", 10));
    let database = holding(&rows);
    let stocks = patient(&server.url()).await.load_rate(NonZeroU32::new(20).unwrap()).on(&database).await;
    let began = Instant::now();
    let warmup = warming(&stocks, &rows[..1000]);
    eventually("it is under way", || async { database.loads() >= 5 }).await;
    let begun = database.loads();
    assert!(begun <= 1 + began.elapsed().as_millis() as usize / 100, "{begun} in {:?}", began.elapsed());
    let mut reads = JoinSet::new();
    for number in 0..10 {
        reading(&mut reads, &stocks, &format!("live{number}"));
    }
    while let Some(found) = reads.join_next().await {
        let found = found.unwrap();
        assert!(found.is_ok(), "a read was refused for it: {found:?}");
    }
    drop(warmup);
    server.end().await;
}

#[tokio::test]
async fn what_another_process_gave_up_is_loaded_in_its_half_of_the_places() {
    let server = World::start().await;
    let rows = ids("n", 12);
    let database = holding(&rows);
    let stocks = patient(&server.url()).await.max_loads(4).on(&database).await;
    let other = Other::loads(&server, &rows).await;
    let warmup = warming(&stocks, &rows);
    for id in &rows {
        told_to_wait(&server, id).await;
    }
    database.slow(Duration::from_millis(50));
    other.gives_up();
    let report = ended(warmup).await;
    assert_eq!((report.state, report.loaded, report.failed, report.skipped()), (WarmState::Complete, 12, 0, 0));
    assert_eq!(database.most_running.load(Ordering::SeqCst), 2);
    server.end().await;
}

#[tokio::test]
async fn what_another_process_gave_up_is_loaded_at_half_of_the_rate() {
    let server = World::start().await;
    let rows = ids("n", 12);
    let database = holding(&rows);
    let stocks = patient(&server.url()).await.load_rate(NonZeroU32::new(20).unwrap()).on(&database).await;
    let other = Other::loads(&server, &rows).await;
    let warmup = warming(&stocks, &rows);
    for id in &rows {
        told_to_wait(&server, id).await;
    }
    let began = Instant::now();
    other.gives_up();
    assert_eq!(ended(warmup).await.loaded, 12);
    // A tenth of a second is between two loads.
    assert!(began.elapsed() > Duration::from_secs(1), "12 loads in {:?}", began.elapsed());
    server.end().await;
}

#[tokio::test]
async fn a_read_that_came_to_a_load_of_a_warm_up_that_can_not_begin_goes_on_without_it() {
    let server = World::start().await;
    let rows = ["a", "first", "second"].map(str::to_owned);
    let database = holding(&rows);
    let stocks = patient(&server.url()).await.max_loads(2).on(&database).await;
    let other = Other::loads(&server, &rows[..1]).await;
    // A read has the load slot that the warm-up needs after it has looked for its key.
    let (gate, mut reads) = held_load(&database, &stocks, "first").await;
    let warmup = stocks.warm(stream::iter([sku("a")])).within(Duration::from_secs(60));
    let progress = warmup.progress();
    let warmup = running(warmup);
    eventually("it looks", || async { progress.report().keys == 1 }).await;
    stocks.invalidate(&sku("of which the answer comes behind")).await.unwrap();
    // A read asks the store for the same key. Before the answer comes, the warm-up gets the slot and asks for a lease.
    server.pause().unwrap();
    let mut read = one_read(&stocks, "a");
    database.open();
    gate.add_permits(1);
    let asked = || async { database.running.load(Ordering::SeqCst) == 0 && stocks.stats().fetching == 1 };
    eventually("the warm-up has the place", asked).await;
    server.resume().unwrap();
    told_to_wait(&server, "a").await;
    reads.join_next().await.unwrap().unwrap().unwrap();
    // From here on another read has the slot.
    let gate = database.shut();
    reading(&mut reads, &stocks, "second");
    database.queried().await;
    database.open();
    other.gives_up();
    let found = read.join_next().await.unwrap().unwrap();
    assert_eq!(quantity(&found.unwrap()), Some(7));
    assert!(progress.is_running());
    gate.add_permits(1);
    let report = ended(warmup).await;
    assert_eq!((report.present, report.skipped(), database.loads()), (1, 0, 3), "{report:?}");
    server.end().await;
}

#[tokio::test]
async fn one_that_waits_for_another_process_ends_when_it_is_dropped() {
    let server = World::start().await;
    let rows = ids("n", 3);
    let database = holding(&rows);
    let stocks = patient(&server.url()).await.on(&database).await;
    let other = Other::loads(&server, &rows).await;
    let warmup = warming(&stocks, &rows);
    for id in &rows {
        told_to_wait(&server, id).await;
    }
    drop(warmup);
    let began = Instant::now();
    stocks.shutdown(Duration::from_secs(60)).await;
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    assert_eq!(database.loads(), 0);
    other.gives_up();
    server.end().await;
}

#[tokio::test]
async fn when_its_time_is_over_it_begins_no_more_and_what_runs_is_stored() {
    let server = World::start().await;
    let rows = ids("n", 30);
    let database = holding(&rows);
    let stocks = patient(&server.url()).await.max_loads(2).on(&database).await;
    let gate = database.shut();
    let report = stocks.warm(stream::iter(skus(&rows))).within(Duration::from_millis(300)).run().await;
    assert_eq!((report.state, report.keys, report.loaded, report.skipped()), (WarmState::TimeUp, 30, 0, 30));
    ends_what_it_began(&server, &stocks, &database, &gate).await;
    server.end().await;
}

#[tokio::test]
async fn one_that_is_dropped_begins_no_more_and_what_runs_is_stored() {
    let server = World::start().await;
    let rows = ids("n", 30);
    let database = holding(&rows);
    let stocks = patient(&server.url()).await.max_loads(2).on(&database).await;
    let gate = database.shut();
    let warmup = stocks.warm(stream::iter(skus(&rows)));
    let progress = warmup.progress();
    assert!(progress.is_running());
    let warmup = running(warmup);
    database.queried().await;
    drop(warmup);
    eventually("it is dropped", || async { !progress.is_running() }).await;
    assert_eq!(progress.report().state, WarmState::Cancelled);
    ends_what_it_began(&server, &stocks, &database, &gate).await;
    server.end().await;
}

/// One load, of the first key, is held at this gate. The warm-up must end with it and begin no other.
async fn ends_what_it_began(server: &RedisServer, stocks: &Stocks, database: &Database, gate: &Semaphore) {
    assert_eq!((database.loads(), stocks.stats().fetching), (1, 1));
    database.open();
    gate.add_permits(1);
    eventually("it ends", || async { stocks.stats().fetching == 0 && stored(server, "n0").await }).await;
    // Reads work as before.
    assert_eq!(quantity(&get(stocks, "n1").await), Some(7));
    assert_eq!(database.loads(), 2, "a load began after the end");
}

#[tokio::test]
async fn while_the_database_fails_it_waits_and_then_goes_on() {
    let server = World::start().await;
    let rows = ids("n", 40);
    let database = holding(&rows);
    let stocks = patient(&server.url()).await.on(&database).await;
    database.down(true);
    let warmup = stocks.warm(stream::iter(skus(&rows)));
    let progress = warmup.progress();
    let warmup = running(warmup);
    eventually("the breaker is open", || async {
        matches!(stocks.get(&sku("other")).await, Err(CacheError::Shed { .. }))
    })
    .await;
    assert!(database.loads() <= 12, "{} loads of a database that fails", database.loads());
    database.down(false);
    let report = ended(warmup).await;
    assert_eq!((report.state, report.loaded + report.failed), (WarmState::Complete, 40));
    assert!(report.failed >= 1 && report.failed <= 12, "{report:?}");
    assert_eq!(progress.report(), report);
    server.end().await;
}

#[tokio::test]
async fn without_redis_it_ends_soon_and_loads_nothing() {
    let server = World::start().await;
    let rows = ids("n", 1000);
    let database = holding(&rows);
    let stocks = patient(&server.url()).await.on(&database).await;
    server.kill().await.unwrap();
    let began = Instant::now();
    let report = stocks.warm(stream::iter(skus(&rows))).run().await;
    assert_eq!((report.state, report.loaded, database.loads()), (WarmState::Unavailable, 0, 0), "{report:?}");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    server.end().await;
}

#[tokio::test]
async fn a_redis_that_is_away_for_a_moment_costs_it_nothing() {
    let server = World::start().await;
    let rows = ids("n", 300);
    let database = holding(&rows);
    let stocks = patient(&server.url()).await.on(&database).await;
    server.kill().await.unwrap();
    eventually("the loss is noticed", || async { stocks.is_degraded() }).await;
    let warmup = warming(&stocks, &rows);
    server.restart().await.unwrap();
    let report = ended(warmup).await;
    assert_eq!((report.state, report.loaded, report.failed), (WarmState::Complete, 300, 0), "{report:?}");
    server.end().await;
}

#[tokio::test]
async fn a_shutdown_ends_it() {
    let server = World::start().await;
    let rows = ids("n", 30);
    let database = holding(&rows);
    let stocks = patient(&server.url()).await.max_loads(2).on(&database).await;
    let gate = database.shut();
    let warmup = warming(&stocks, &rows);
    database.queried().await;
    let mut closing = JoinSet::new();
    let closed = stocks.clone();
    closing.spawn(async move { closed.shutdown(Duration::from_secs(60)).await });
    assert_eq!(ended(warmup).await.state, WarmState::ShuttingDown);
    database.open();
    gate.add_permits(1);
    closing.join_next().await.unwrap().unwrap();
    assert_eq!(database.loads(), 1);
    server.end().await;
}

#[tokio::test]
async fn a_read_and_a_warm_up_of_one_process_share_a_load() {
    let database = Database::with(&[("a", 7)]);
    let stocks = Cache::memory().loading(&database).build();
    let gate = database.shut();
    let warmup = warming(&stocks, &["a".to_owned()]);
    database.queried().await;
    assert_eq!(stocks.stats().fetching, 1, "no read can join it");
    let mut reads = one_read(&stocks, "a");
    database.open();
    caught_up(&stocks).await;
    gate.add_permits(1);
    let found = reads.join_next().await.unwrap().unwrap().unwrap();
    assert_eq!((quantity(&found), found.info.collapsed), (Some(7), true));
    assert_eq!((ended(warmup).await.loaded, database.loads()), (1, 2), "one beside that of what was read to catch up");
}
