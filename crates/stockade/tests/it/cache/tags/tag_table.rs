//! The table of tags in Redis: its cost, its size, and its loss.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use stockade::cache::{Loaded, Source};
use stockade_testbed::RedisServer;
use tokio::time::Instant;

use super::support::{source, tagged};
use crate::{
    cache::support::{
        Database, Loading, Sku, Stock, ended, entry_key, eventually, get, held_load, one_read, patient, quantity, sku,
        stored,
    },
    redis_traffic::calls,
    world::{World, online},
};

/// The number of members of the table that are not tags.
const OTHERS: usize = 4;

async fn table(server: &RedisServer) -> String {
    server.command(&["KEYS", "shop:v1:{*}t:stock"]).await.unwrap()
}

async fn tags_known(server: &RedisServer) -> usize {
    let members: usize = server.command(&["ZCARD", &table(server).await]).await.unwrap().parse().unwrap();
    members - OTHERS
}

/// How often the server ran each command while `of` ran.
async fn counted(server: &RedisServer, of: impl AsyncFnOnce()) -> BTreeMap<String, u64> {
    server.command(&["CONFIG", "RESETSTAT"]).await.unwrap();
    of().await;
    calls(server).await
}

#[tokio::test]
async fn only_values_with_tags_cost_a_second_command() {
    let server = World::start().await;
    let database = Database::with(&[("a", 7)]);
    let plain = patient(&server.url()).await.on(&database).await;
    let with_tags = tagged(patient(&server.url()).await.name("tagged"), &database).await;
    for (stocks, asked) in [(&plain, None), (&with_tags, Some(&100))] {
        get(stocks, "a").await;
        let hits = counted(&server, async || {
            for _ in 0..100 {
                assert_eq!(source(stocks, "a").await, Source::Redis);
            }
        })
        .await;
        assert_eq!((hits.get("hget"), hits.get("zmscore")), (Some(&100), asked), "{hits:?}");
        // All other commands are those of the heartbeat, which comes once a second.
        for (command, count) in &hits {
            let of_a_beat = ["evalsha", "time", "get", "publish"].contains(&command.as_str()) && *count < 10;
            assert!(of_a_beat || ["hget", "zmscore"].contains(&command.as_str()), "{hits:?}");
        }
        // A load costs no further round trip either: one script for the lease, and one that stores.
        let loads = counted(&server, async || {
            for _ in 0..20 {
                stocks.invalidate(&sku("a")).await.unwrap();
                get(stocks, "a").await;
            }
        })
        .await;
        assert!((60..70).contains(&loads["evalsha"]), "{loads:?}");
    }
    server.end().await;
}

#[tokio::test]
async fn twenty_thousand_values_are_invalidated_by_one_script() {
    const MANY: usize = 20_000;
    let server = World::start().await;
    let written = Arc::new(AtomicU64::new(0));
    let row = Arc::clone(&written);
    let builder = patient(&server.url()).await.early_refresh(0.0).batch_loader(move |keys: Vec<Sku>| {
        let quantity = row.load(Ordering::SeqCst);
        let row = move |key| (key, Loaded::new(Some(Stock { quantity })).tags(["all", "other"]));
        async move { Ok::<_, std::io::Error>(keys.into_iter().map(row).collect()) }
    });
    let stocks = tagged(builder, &Database::with(&[])).await;
    let ids: Vec<_> = (0..MANY).map(|number| sku(&number.to_string())).collect();
    let found = async |ids: &[Sku], expected: u64, from: Source| {
        let mut count = 0;
        for some in ids.chunks(500) {
            for lookup in stocks.get_many(some).await {
                let lookup = lookup.unwrap();
                count += usize::from(quantity(&lookup) == Some(expected) && lookup.info.source == from);
            }
        }
        count
    };
    assert_eq!(found(&ids, 0, Source::Load).await, MANY);
    assert_eq!(found(&ids[..1000], 0, Source::Redis).await, 1000);
    written.store(1, Ordering::SeqCst);
    let asked = counted(&server, async || stocks.invalidate_tag("all").await.unwrap()).await;
    // The invalidation is one script with eight commands. On a busy machine there are heartbeats of a second or two. A
    // command for each value, or for each chunk of values, would make hundreds.
    assert_eq!(asked["zadd"], 1, "{asked:?}");
    assert!(asked.values().sum::<u64>() < 40, "{asked:?}");
    assert_eq!(found(&ids, 1, Source::Load).await, MANY, "some are no misses");
    assert_eq!(found(&ids[..1000], 1, Source::Redis).await, 1000);
    server.end().await;
}

#[tokio::test]
async fn a_table_that_is_lost_outdates_every_value_with_tags_and_no_other() {
    let server = World::start().await;
    let database = Database::with(&[("a", 0), ("b", 0), ("c", 0)]);
    let stocks = tagged(patient(&server.url()).await, &database).await;
    let plain = patient(&server.url()).await.name("plain").on(&database).await;
    for id in ["a", "b"] {
        get(&stocks, id).await;
        assert_eq!(source(&stocks, id).await, Source::Redis);
    }
    get(&plain, "a").await;
    database.write("a", Some(1));
    stocks.invalidate_tag("a").await.unwrap();
    // An eviction would delete the tables like this. The invalidation of the tag is lost with its table.
    for table in ["shop:v1:{*}t:stock", "shop:v1:{*}t:plain"] {
        let table = server.command(&["KEYS", table]).await.unwrap();
        server.command(&["DEL", &table]).await.unwrap();
    }
    assert_eq!(source(&stocks, "b").await, Source::Load, "nobody knows whether it holds");
    assert_eq!(source(&plain, "a").await, Source::Redis);
    // That load created the table again. Older values still do not count.
    assert_ne!(table(&server).await, "");
    assert_eq!(quantity(&get(&stocks, "a").await), Some(1));
    assert_eq!((source(&stocks, "a").await, source(&stocks, "b").await), (Source::Redis, Source::Redis));
    server.end().await;
}

#[tokio::test]
async fn a_table_that_is_lost_during_a_load_keeps_its_value_from_being_stored() {
    let server = World::start().await;
    let database = Database::with(&[("a", 0), ("b", 0)]);
    let stocks = tagged(patient(&server.url()).await, &database).await;
    for begun_anew in [false, true] {
        database.write("a", Some(0));
        stocks.invalidate(&sku("a")).await.unwrap();
        let (gate, mut slow) = held_load(&database, &stocks, "a").await;
        database.open();
        database.write("a", Some(1));
        stocks.invalidate_tag("a").await.unwrap();
        server.command(&["DEL", &table(&server).await]).await.unwrap();
        if begun_anew {
            stocks.invalidate_tag("unrelated").await.unwrap();
        }
        gate.add_permits(1);
        ended(&mut slow).await;
        assert!(!stored(&server, "a").await, "stored without knowing of its tags");
        assert_eq!(quantity(&get(&stocks, "a").await), Some(1));
    }
    server.end().await;
}

#[tokio::test]
async fn a_run_of_the_server_that_lost_the_news_of_a_tag_serves_no_value_that_has_it() {
    let server = World::start().await;
    let database = Database::with(&[("a", 0), ("b", 0)]);
    let stocks = tagged(patient(&server.url()).await, &database).await;
    get(&stocks, "a").await;
    get(&stocks, "b").await;
    server.command(&["SAVE"]).await.unwrap();
    database.write("a", Some(1));
    stocks.invalidate_tag("a").await.unwrap();
    // The server reads the snapshot: the value and the table, without the invalidation. A replica that was promoted too
    // early has the same data.
    server.restart().await.unwrap();
    eventually("it is on line again", || async { !stocks.is_degraded() }).await;
    assert!(stored(&server, "a").await && !table(&server).await.is_empty(), "the snapshot was not read");
    assert_eq!(quantity(&get(&stocks, "a").await), Some(1));
    assert_eq!(source(&stocks, "b").await, Source::Load);
    assert_eq!((source(&stocks, "a").await, source(&stocks, "b").await), (Source::Redis, Source::Redis));
    server.end().await;
}

#[tokio::test]
async fn stamps_are_forgotten_once_no_value_can_be_older() {
    let server = World::start().await;
    let database = Database::with(&[("a", 0)]);
    let ttl = Duration::from_millis(300);
    let builder = patient(&server.url()).await.load_timeout(Duration::from_millis(100)).ttl(ttl..=ttl).null_ttl(ttl);
    let stocks = tagged(builder.grace(Duration::from_millis(100)), &database).await;
    for number in 0..50 {
        stocks.invalidate_tag(&number.to_string()).await.unwrap();
    }
    assert!((1..=50).contains(&tags_known(&server).await));
    // Together the lease, lifetime and grace of a value are 600 ms.
    eventually("the stamps are old", || async {
        stocks.invalidate_tag("again").await.unwrap();
        tags_known(&server).await == 1
    })
    .await;
    let began = Instant::now();
    get(&stocks, "a").await;
    while began.elapsed() < ttl / 2 {
        stocks.invalidate_tag("again").await.unwrap();
        let is_kept = source(&stocks, "a").await == Source::Redis;
        // On a machine that stood still for so long, the value may have expired.
        assert!(is_kept || began.elapsed() >= ttl, "what was forgotten cost a value that is younger");
    }
    server.end().await;
}

#[tokio::test]
async fn a_value_that_outlives_what_the_cache_was_built_with_has_its_stamps_kept() {
    let server = World::start().await;
    let ttl = Duration::from_millis(20);
    let builder = patient(&server.url()).await.load_timeout(Duration::from_millis(20)).ttl(ttl..=ttl).null_ttl(ttl);
    let stocks = builder.grace(Duration::ZERO).loader(|_| async {
        let hour = Loaded::new(Some(Stock { quantity: 7 })).ttl(Duration::from_secs(3600));
        Ok::<_, std::convert::Infallible>(hour.tags(["a"]))
    });
    let stocks = online(stocks).await;
    get(&stocks, "a").await;
    for number in 0..10 {
        stocks.invalidate_tag(&number.to_string()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(tags_known(&server).await, 10);
    assert_eq!(source(&stocks, "a").await, Source::Redis, "a stamp was forgotten that it is judged by");
    server.end().await;
}

#[tokio::test]
async fn a_stamp_that_is_forgotten_too_early_costs_loads_and_no_stale_answer() {
    let server = World::start().await;
    let database = Database::with(&[("a", 0), ("b", 0)]);
    let stocks = tagged(patient(&server.url()).await, &database).await;
    get(&stocks, "a").await;
    get(&stocks, "b").await;
    let (gate, mut slow) = held_load(&database, &stocks, "ab").await;
    database.open();
    database.write("a", Some(1));
    stocks.invalidate_tag("a").await.unwrap();
    // More tags than the table keeps.
    let crowd = "for i = 1, 66000 do redis.call('ZADD', KEYS[1], ARGV[1] + i, 't:n' .. i) end";
    let table = table(&server).await;
    let newest = server.command(&["ZSCORE", &table, "t:a"]).await.unwrap();
    server.command(&["EVAL", crowd, "1", &table, &newest]).await.unwrap();
    stocks.invalidate_tag("last").await.unwrap();
    assert!(tags_known(&server).await <= 65_536);
    assert_eq!(server.command(&["ZSCORE", &table, "t:a"]).await.unwrap(), "", "the stamp is still there");
    gate.add_permits(1);
    ended(&mut slow).await;
    assert!(!stored(&server, "ab").await, "stored from before a stamp that was forgotten");
    assert_eq!(quantity(&get(&stocks, "a").await), Some(1));
    assert_eq!(source(&stocks, "b").await, Source::Load, "too old to be judged");
    assert_eq!((source(&stocks, "a").await, source(&stocks, "b").await), (Source::Redis, Source::Redis));
    server.end().await;
}

/// Ends without [`World::end`](crate::world::World::end): the inspection takes times from before a step for broken.
#[tokio::test]
async fn a_clock_that_is_set_back_or_forwards_brings_nothing_back() {
    const HOUR: Duration = Duration::from_secs(3600);
    let server = RedisServer::builder().own_clock().start().await.unwrap();
    let database = Database::with(&[("a", 0)]);
    let ttl = Duration::from_secs(36_000);
    let stocks = tagged(patient(&server.url()).await.ttl(ttl..=ttl).early_refresh(0.0), &database).await;
    stocks.invalidate_tag("a").await.unwrap();
    for version in 1..=6 {
        get(&stocks, "a").await;
        assert_eq!(source(&stocks, "a").await, Source::Redis);
        match version % 3 {
            0 => server.step_clock_forwards(HOUR * 2).unwrap(),
            _ => server.step_clock_backwards(HOUR).unwrap(),
        }
        database.write("a", Some(version));
        stocks.invalidate_tag("a").await.unwrap();
        assert_eq!(quantity(&get(&stocks, "a").await), Some(version));
    }
    // The clock is also stepped while a load runs.
    let gate = database.shut();
    stocks.invalidate(&sku("a")).await.unwrap();
    let mut slow = one_read(&stocks, "a");
    database.queried().await;
    server.step_clock_backwards(HOUR).unwrap();
    database.write("a", Some(7));
    stocks.invalidate_tag("a").await.unwrap();
    database.open();
    gate.add_permits(1);
    ended(&mut slow).await;
    assert!(entry_key(&server, "a").await.is_empty() || !stored(&server, "a").await);
    assert_eq!(quantity(&get(&stocks, "a").await), Some(7));
}

/// Ends without [`World::end`](crate::world::World::end), as above.
#[tokio::test]
async fn no_value_lives_longer_because_the_clock_was_set_back() {
    const HOUR: Duration = Duration::from_secs(3600);
    let server = RedisServer::builder().own_clock().start().await.unwrap();
    let database = Database::with(&[("a", 0), ("b", 0)]);
    let ttl = Duration::from_secs(30);
    let stocks = tagged(patient(&server.url()).await.ttl(ttl..=ttl).early_refresh(0.0), &database).await;
    get(&stocks, "a").await;
    assert_eq!(source(&stocks, "a").await, Source::Redis);
    server.step_clock_backwards(HOUR).unwrap();
    // The reply to a script tells the time.
    get(&stocks, "b").await;
    assert_eq!(source(&stocks, "a").await, Source::Load);
    assert_eq!(source(&stocks, "a").await, Source::Redis);
}
