//! Values that are invalidated together: every run in which one from before could outlive that.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use stockade::{
    Cache,
    cache::{CacheBuilder, CacheError, Loaded, Source, TagError},
};
use tokio::{task::JoinSet, time::Instant};

use super::support::{
    Database, Sku, Stock, Stocks, caught_up, entry_key, eventually, get, patient, quantity, reading, sku, stored, warm,
};
use crate::world::{World, cached};

const TTL: Duration = Duration::from_secs(100);

/// A cache in which a value has the tag `all`, and one more for each letter of its id but `-`.
pub(super) fn tagging(builder: CacheBuilder<Sku, Stock>, database: &Arc<Database>) -> CacheBuilder<Sku, Stock> {
    let database = Arc::clone(database);
    builder.loader(move |sku: Sku| {
        let database = Arc::clone(&database);
        async move {
            let row = database.query(&sku.0).await?;
            let letters = sku.0.chars().filter(|letter| *letter != '-').map(String::from);
            Ok::<_, std::io::Error>(Loaded::new(row).tags(letters.chain(["all".to_owned()])))
        }
    })
}

pub(super) async fn tagged(builder: CacheBuilder<Sku, Stock>, database: &Arc<Database>) -> Stocks {
    let stocks = cached(tagging(builder, database).build());
    eventually("the cache is on line", || async { !stocks.is_degraded() }).await;
    stocks
}

pub(super) async fn source(stocks: &Stocks, id: &str) -> Source {
    get(stocks, id).await.info.source
}

#[tokio::test]
async fn a_tag_drops_every_value_that_has_it_and_no_other() {
    let server = World::start().await;
    let database = Database::with(&[("ab", 0), ("bc", 0), ("c", 0)]);
    let stocks = tagged(patient(&server.url()).await, &database).await;
    let writer = tagged(patient(&server.url()).await, &database).await;
    for id in ["ab", "bc", "c", "none"] {
        get(&stocks, id).await;
        assert_eq!(source(&stocks, id).await, Source::Redis, "{id}");
    }
    for id in ["ab", "bc", "c", "none"] {
        database.write(id, Some(1));
    }
    writer.invalidate_tag("b").await.unwrap();
    assert_eq!(quantity(&get(&stocks, "ab").await), Some(1));
    assert_eq!(quantity(&get(&stocks, "bc").await), Some(1));
    assert_eq!((quantity(&get(&stocks, "c").await), source(&stocks, "none").await), (Some(0), Source::Redis));
    writer.invalidate_tag(&"n".to_owned()).await.unwrap();
    assert_eq!(quantity(&get(&stocks, "none").await), Some(1), "an absence has tags too");
    let loads = database.loads();
    for id in ["ab", "bc", "c", "none"] {
        assert_eq!(source(&stocks, id).await, Source::Redis, "{id}");
    }
    assert_eq!(database.loads(), loads);
    server.end().await;
}

#[tokio::test]
async fn a_value_loaded_before_its_tag_was_invalidated_is_not_stored_after_it() {
    let server = World::start().await;
    let database = Database::with(&[("a", 0)]);
    let reader = tagged(patient(&server.url()).await, &database).await;
    let writer = tagged(patient(&server.url()).await, &database).await;
    let gate = database.shut();
    let mut slow = JoinSet::new();
    reading(&mut slow, &reader, "a");
    database.queried().await;
    database.write("a", Some(1));
    writer.invalidate_tag("a").await.unwrap();
    database.open();
    gate.add_permits(1);
    // Its call began before the write: either value is right for it.
    slow.join_next().await.unwrap().unwrap().unwrap();
    assert_eq!(reader.stats().fill_rejected, 1);
    assert!(!stored(&server, "a").await, "the old value was stored");
    assert_eq!(quantity(&get(&writer, "a").await), Some(1));
    assert_eq!(quantity(&get(&reader, "a").await), Some(1));
    server.end().await;
}

#[tokio::test]
async fn an_early_load_under_way_does_not_bring_back_what_a_tag_has_dropped() {
    let server = World::start().await;
    let database = Database::with(&[("a", 0)]);
    let ttl = Duration::from_secs(3);
    // So eager that it is due as soon as half its life is over.
    let eager = tagged(patient(&server.url()).await.ttl(ttl..=ttl).early_refresh(1e9), &database).await;
    let writer = tagged(patient(&server.url()).await, &database).await;
    get(&eager, "a").await;
    let gate = database.shut();
    // Another tag, so that the lease of the early load has another stamp than the value.
    writer.invalidate_tag("other").await.unwrap();
    eventually("it is loaded early", || async {
        assert_eq!(source(&eager, "a").await, Source::Redis);
        database.running.load(Ordering::SeqCst) == 1
    })
    .await;
    database.queried().await;
    database.write("a", Some(1));
    writer.invalidate_tag("a").await.unwrap();
    database.open();
    let mut late = JoinSet::new();
    reading(&mut late, &writer, "a");
    eventually("a reader waits for the early load", || async {
        server.command(&["HKEYS", &entry_key(&server, "a").await]).await.unwrap().contains("w:")
    })
    .await;
    gate.add_permits(1);
    assert_eq!(quantity(&late.join_next().await.unwrap().unwrap().unwrap()), Some(1));
    assert_eq!(eager.stats().fill_rejected, 1);
    assert_eq!(quantity(&get(&eager, "a").await), Some(1));
    server.end().await;
}

#[tokio::test]
async fn the_lease_of_an_early_load_does_not_make_an_outdated_value_young() {
    let server = World::start().await;
    let database = Database::with(&[("a", 0)]);
    let stocks = tagged(patient(&server.url()).await, &database).await;
    get(&stocks, "a").await;
    database.write("a", Some(1));
    stocks.invalidate_tag("a").await.unwrap();
    // A load that is held: it has the lease, and the old value is still there.
    let gate = database.shut();
    let mut first = JoinSet::new();
    reading(&mut first, &stocks, "a");
    database.queried().await;
    assert!(stored(&server, "a").await);
    let other = tagged(patient(&server.url()).await, &database).await;
    let mut second = JoinSet::new();
    reading(&mut second, &other, "a");
    eventually("it waits", || async {
        server.command(&["HKEYS", &entry_key(&server, "a").await]).await.unwrap().contains("w:")
    })
    .await;
    database.open();
    gate.add_permits(1);
    assert_eq!(quantity(&first.join_next().await.unwrap().unwrap().unwrap()), Some(1));
    assert_eq!(quantity(&second.join_next().await.unwrap().unwrap().unwrap()), Some(1));
    server.end().await;
}

#[tokio::test]
async fn an_expired_value_is_not_served_once_its_tag_was_invalidated() {
    let server = World::start().await;
    let database = Database::with(&[("a", 0)]);
    let ttl = Duration::from_millis(20);
    let builder = patient(&server.url()).await.ttl(ttl..=ttl).stale_while_revalidate(Duration::from_secs(60));
    let stocks = tagged(builder, &database).await;
    let writer = tagged(patient(&server.url()).await, &database).await;
    get(&stocks, "a").await;
    let gate = database.shut();
    eventually("it expires", || async { get(&stocks, "a").await.info.stale.is_some() }).await;
    // The load in the background has read the old row.
    database.queried().await;
    database.write("a", Some(1));
    writer.invalidate_tag("a").await.unwrap();
    database.open();
    gate.add_permits(1);
    let found = get(&stocks, "a").await;
    assert_eq!((quantity(&found), found.info.stale), (Some(1), None));
    // Neither does it take the place of an error.
    stocks.invalidate_tag("a").await.unwrap();
    database.down(true);
    assert!(matches!(stocks.get(&sku("a")).await, Err(CacheError::Load(_))));
    server.end().await;
}

#[tokio::test]
async fn a_reader_that_came_after_a_tag_was_invalidated_does_not_take_the_load_from_before_it() {
    let server = World::start().await;
    let database = Database::with(&[("a", 0)]);
    let stocks = tagged(patient(&server.url()).await, &database).await;
    let other = tagged(patient(&server.url()).await, &database).await;
    for writer in [&stocks, &other] {
        database.write("a", Some(0));
        stocks.invalidate(&sku("a")).await.unwrap();
        let loads = database.loads();
        let gate = database.shut();
        let mut early = JoinSet::new();
        reading(&mut early, &stocks, "a");
        database.queried().await;
        database.write("a", Some(1));
        writer.invalidate_tag("a").await.unwrap();
        let mut late = JoinSet::new();
        for _ in 0..50 {
            reading(&mut late, &stocks, "a");
        }
        database.open();
        caught_up(&stocks).await;
        gate.add_permits(1);
        early.join_next().await.unwrap().unwrap().unwrap();
        while let Some(found) = late.join_next().await {
            assert_eq!(quantity(&found.unwrap().unwrap()), Some(1));
        }
        assert_eq!(
            database.loads() - loads,
            3,
            "one of theirs beside the first, and that of what was read to catch up"
        );
    }
    server.end().await;
}

#[tokio::test]
async fn who_waits_for_a_load_that_a_tag_has_voided_is_told() {
    let server = World::start().await;
    let database = Database::with(&[("a", 0)]);
    let leader = tagged(patient(&server.url()).await.load_timeout(Duration::from_secs(10)), &database).await;
    let waiter = tagged(patient(&server.url()).await.load_timeout(Duration::from_secs(10)), &database).await;
    let gate = database.shut();
    let mut tasks = JoinSet::new();
    reading(&mut tasks, &leader, "a");
    database.queried().await;
    database.write("a", Some(1));
    leader.invalidate_tag("a").await.unwrap();
    database.open();
    let mut late = JoinSet::new();
    reading(&mut late, &waiter, "a");
    let key = entry_key(&server, "a").await;
    eventually("it has signed up", || async { server.command(&["HKEYS", &key]).await.unwrap().contains("w:") }).await;
    let began = Instant::now();
    gate.add_permits(1);
    assert_eq!(quantity(&late.join_next().await.unwrap().unwrap().unwrap()), Some(1));
    assert!(began.elapsed() < Duration::from_secs(5), "waited for the end of the lease: {:?}", began.elapsed());
    tasks.join_next().await.unwrap().unwrap().unwrap();
    server.end().await;
}

#[tokio::test]
async fn several_keys_at_once_honour_tags() {
    let server = World::start().await;
    let database = Database::with(&[("ax", 0), ("bx", 0), ("c", 0)]);
    let rows = Arc::clone(&database);
    let builder = patient(&server.url()).await.batch_loader(move |keys: Vec<Sku>| {
        let rows = Arc::clone(&rows);
        async move {
            let found = rows.query_many(&keys).await?;
            let loaded = |(key, row): (Sku, Option<Stock>)| {
                let bad = key.0 == "bad";
                let tags: Vec<_> = key.0.chars().map(|letter| if bad { '\n' } else { letter }.to_string()).collect();
                (key, Loaded::new(row).tags(tags))
            };
            Ok::<_, std::io::Error>(found.into_iter().map(loaded).collect())
        }
    });
    let stocks = tagged(builder, &database).await;
    let ids = [sku("ax"), sku("bx"), sku("c")];
    let found = async || {
        let many = stocks.get_many(&ids).await.into_iter().map(Result::unwrap);
        many.map(|lookup| (quantity(&lookup).unwrap(), lookup.info.source)).collect::<Vec<_>>()
    };
    assert_eq!(found().await, [(0, Source::Load); 3]);
    assert_eq!(found().await, [(0, Source::Redis); 3]);
    for id in ["ax", "bx", "c"] {
        database.write(id, Some(1));
    }
    stocks.invalidate_tag("x").await.unwrap();
    assert_eq!(found().await, [(1, Source::Load), (1, Source::Load), (0, Source::Redis)]);

    // One invalidated while all are loaded spoils its own only.
    for id in ["ax", "bx", "c"] {
        stocks.invalidate(&sku(id)).await.unwrap();
    }
    let gate = database.shut();
    let (_, ()) = tokio::join!(found(), async {
        database.queried().await;
        stocks.invalidate_tag("a").await.unwrap();
        database.open();
        gate.add_permits(1);
    });
    assert!(!stored(&server, "ax").await && stored(&server, "bx").await && stored(&server, "c").await);

    // So does one whose tag is refused.
    database.write("bad", Some(1));
    let many = stocks.get_many(&[sku("bad"), sku("ax")]).await;
    assert!(matches!(many[0], Err(CacheError::Tag(TagError::Control))), "{:?}", many[0]);
    assert_eq!(many[1].as_ref().map(quantity).unwrap(), Some(1));
    server.end().await;
}

#[tokio::test]
async fn a_tag_that_is_refused_fails_the_load_and_gives_the_lease_back() {
    let server = World::start().await;
    let bad = Arc::new(AtomicBool::new(true));
    let told = Arc::clone(&bad);
    let builder = patient(&server.url()).await.loader(move |_| {
        let tags = if told.load(Ordering::SeqCst) { vec!["x".repeat(129)] } else { vec!["x".repeat(128)] };
        async move { Ok::<_, std::convert::Infallible>(Loaded::new(Some(Stock { quantity: 7 })).tags(tags)) }
    });
    let stocks = cached(builder.build());
    eventually("the cache is on line", || async { !stocks.is_degraded() }).await;
    let refused = stocks.get(&sku("a")).await.unwrap_err();
    assert!(matches!(refused, CacheError::Tag(TagError::TooLong { len: 129 })), "{refused:?}");
    bad.store(false, Ordering::SeqCst);
    let began = Instant::now();
    assert!(get(&stocks, "a").await.info.stored);
    assert!(began.elapsed() < Duration::from_secs(1), "the lease was not given back");
    let refused = stocks.invalidate_tag("").await.unwrap_err();
    assert!(matches!(refused, CacheError::Tag(TagError::Empty)), "{refused:?}");
    assert!(matches!(stocks.invalidate_tag("a\tb").await, Err(CacheError::Tag(TagError::Control))));
    server.end().await;
}

#[tokio::test]
async fn a_tag_outdates_what_other_processes_hold_in_memory() {
    let server = World::start().await;
    let database = Database::with(&[("a", 0), ("b", 0)]);
    let writer = tagged(patient(&server.url()).await.local(1 << 20), &database).await;
    let reader = tagged(patient(&server.url()).await.local(1 << 20), &database).await;
    for stocks in [&writer, &reader] {
        warm(stocks, "a").await;
        warm(stocks, "b").await;
    }
    database.write("a", Some(1));
    writer.invalidate_tag("a").await.unwrap();
    assert_eq!(quantity(&get(&writer, "a").await), Some(1), "the writer reads what it wrote");
    eventually("the reader sees it", || async { quantity(&get(&reader, "a").await) == Some(1) }).await;
    assert_eq!(source(&reader, "b").await, Source::Local, "another value was dropped");
    warm(&reader, "a").await;
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_that_races_a_tag_leaves_nothing_stale_behind() {
    let server = World::start().await;
    let database = Database::with(&[("a", 0)]);
    let writer = tagged(patient(&server.url()).await, &database).await;
    let reader = tagged(patient(&server.url()).await.local(1 << 20), &database).await;
    let stop = Arc::new(AtomicBool::new(false));
    let mut readers = JoinSet::new();
    for _ in 0..8 {
        let (reader, stop) = (reader.clone(), Arc::clone(&stop));
        readers.spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                get(&reader, "a").await;
                tokio::task::yield_now().await;
            }
        });
    }
    for version in 1..=300 {
        database.write("a", Some(version));
        writer.invalidate_tag("a").await.unwrap();
        let limit = Instant::now() + Duration::from_secs(2);
        while quantity(&get(&reader, "a").await) != Some(version) {
            assert!(Instant::now() < limit, "write {version} is not seen");
        }
    }
    stop.store(true, Ordering::Relaxed);
    while let Some(ended) = readers.join_next().await {
        ended.unwrap();
    }
    assert!(reader.stats().hits_local > 100, "{:?}", reader.stats());
    server.end().await;
}

#[tokio::test]
async fn without_redis_a_tag_drops_the_last_copies_of_this_process() {
    let server = World::start().await;
    let database = Database::with(&[("a", 0), ("b", 0)]);
    let stocks = tagged(patient(&server.url()).await, &database).await;
    get(&stocks, "a").await;
    get(&stocks, "b").await;
    server.kill().await.unwrap();
    eventually("the loss is noticed", || async { stocks.is_degraded() }).await;
    database.write("a", Some(1));
    assert!(matches!(stocks.invalidate_tag("a").await, Err(CacheError::Unavailable(_))));
    let (dropped, kept) = (get(&stocks, "a").await, get(&stocks, "b").await);
    assert_eq!((quantity(&dropped), dropped.info.source), (Some(1), Source::Load));
    assert_eq!((quantity(&kept), kept.info.source, kept.info.degraded), (Some(0), Source::Local, true));

    // A load under way is for those only who came before.
    let gate = database.shut();
    let mut early = JoinSet::new();
    reading(&mut early, &stocks, "a");
    database.queried().await;
    database.write("a", Some(2));
    assert!(stocks.invalidate_tag("a").await.is_err());
    database.open();
    let mut late = JoinSet::new();
    reading(&mut late, &stocks, "a");
    caught_up(&stocks).await;
    gate.add_permits(1);
    assert_eq!(quantity(&late.join_next().await.unwrap().unwrap().unwrap()), Some(2));
    server.end().await;
}

#[tokio::test]
async fn in_memory_tags_follow_the_same_rules() {
    let database = Database::with(&[("a", 0), ("b", 0)]);
    let stocks = tagging(Cache::memory().ttl(TTL..=TTL), &database).build();
    get(&stocks, "a").await;
    get(&stocks, "b").await;
    database.write("a", Some(1));
    stocks.invalidate_tag("a").await.unwrap();
    assert_eq!(quantity(&get(&stocks, "a").await), Some(1));
    assert_eq!((source(&stocks, "a").await, source(&stocks, "b").await), (Source::Local, Source::Local));

    let gate = database.shut();
    stocks.invalidate_tag("a").await.unwrap();
    let mut tasks = JoinSet::new();
    reading(&mut tasks, &stocks, "a");
    database.queried().await;
    database.write("a", Some(2));
    stocks.invalidate_tag("all").await.unwrap();
    database.open();
    reading(&mut tasks, &stocks, "a");
    caught_up(&stocks).await;
    gate.add_permits(1);
    let mut found = tasks.join_all().await.into_iter().map(|found| quantity(&found.unwrap())).collect::<Vec<_>>();
    found.sort();
    assert_eq!(found, [Some(1), Some(2)], "who came after the tag took the load from before it");
    assert_eq!(quantity(&get(&stocks, "a").await), Some(2));
    assert_eq!(stocks.stats().fill_rejected, 1);
}
