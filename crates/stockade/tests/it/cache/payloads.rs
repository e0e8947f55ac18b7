//! Values in Redis: other versions of the program, damage, codecs, compression, sizes.

use std::{
    convert::Infallible,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};
use stockade::{
    Cache, Redis,
    cache::{CacheBuilder, Codec, Compression, Source},
};
use stockade_testbed::RedisServer;
use tokio::task::JoinSet;

use super::support::{
    Database, Loading, Sku, Stock, Stocks, entry_key, eventually, field, get, held_load, process, quantity, reading,
    signed_up, sku, stored,
};
use crate::{
    log::Log,
    world::{World, online, patient as patient_redis},
};

#[tokio::test]
async fn what_is_damaged_is_loaded_anew_and_overwritten() {
    let server = World::start().await;
    let database = Database::with(&[("a", 7)]);
    let stocks = process(&server).await.on(&database).await;
    get(&stocks, "a").await;
    let key = entry_key(&server, "a").await;
    let v = field(&server, &key, "v").await.unwrap();
    let head = "local v = redis.call('HGET', KEYS[1], ARGV[1]) local _, head = v:find('\\n.-\\n\\n')";
    let set = async |damaged: &str, text: &str| {
        let set = format!("{head} redis.call('HSET', KEYS[1], ARGV[1], {damaged})");
        server.command(&["EVAL", &set, "1", &key, &v, text]).await.unwrap();
    };
    // The whole value is damaged, or only the payload.
    for (refused, (damaged, text)) in [
        ("ARGV[2]", ""),
        ("ARGV[2]", "garbage"),
        ("v:sub(1, head) .. ARGV[2]", ""),
        ("v:sub(1, head) .. ARGV[2]", "garbage"),
        ("v:sub(1, head) .. ARGV[2]", "\u{3}\u{1}\0garbage that is longer than any header"),
    ]
    .into_iter()
    .enumerate()
    {
        set(damaged, text).await;
        let found = get(&stocks, "a").await;
        assert_eq!((quantity(&found), found.info.source), (Some(7), Source::Load), "{damaged} {text:?}");
        assert_eq!(get(&stocks, "a").await.info.source, Source::Redis);
        let stats = stocks.stats();
        assert_eq!((stats.payloads_refused, stats.load, stats.error), (refused as u64 + 1, refused as u64 + 2, 0));
    }
    // The value is cut off within the words in front of the payload, and within and behind the payload's header.
    for length in ["0", "20", "60", "head - 1", "head", "head + 5", "head + 15", "head + 20"] {
        stocks.invalidate(&sku("a")).await.unwrap();
        get(&stocks, "a").await;
        set(&format!("v:sub(1, {length})"), "").await;
        assert_eq!(get(&stocks, "a").await.info.source, Source::Load, "{length} bytes left");
        assert_eq!(get(&stocks, "a").await.info.source, Source::Redis, "{length} bytes left");
    }
    server.end().await;
}

/// The caches of two versions of a program, as during a deployment.
async fn versions(
    server: &RedisServer,
    database: &Arc<Database>,
    newer: impl FnOnce(CacheBuilder<Sku, Stock>) -> CacheBuilder<Sku, Stock>,
) -> [Stocks; 2] {
    [process(server).await.on(database).await, newer(process(server).await).on(database).await]
}

#[tokio::test]
async fn versions_side_by_side_keep_values_of_their_own_and_a_write_drops_both() {
    let server = World::start().await;
    let changes: [fn(CacheBuilder<_, _>) -> CacheBuilder<_, _>; 3] =
        [|new| new.schema(1), |new| new.codec(Codec::MessagePack), |new| new.compress(Compression::lz4())];
    for (id, change) in ["a", "b", "c"].into_iter().zip(changes) {
        let database = Database::with(&[(id, 1)]);
        let both = versions(&server, &database, change).await;
        for _ in 0..10 {
            for version in &both {
                assert_eq!(quantity(&get(version, id).await), Some(1));
            }
        }
        assert_eq!(database.loads(), 2, "each version loads once");
        for (quantity_now, writer) in [(2, &both[0]), (3, &both[1])] {
            database.write(id, Some(quantity_now));
            writer.invalidate(&sku(id)).await.unwrap();
            for version in &both {
                assert_eq!(quantity(&get(version, id).await), Some(quantity_now));
                assert_eq!(get(version, id).await.info.source, Source::Redis);
            }
        }
        assert_eq!(both.each_ref().map(|version| version.stats().payloads_refused), [0, 0]);
    }
    server.end().await;
}

/// Version 0.1 stored a value in several fields, one for each of its parts.
#[tokio::test]
async fn a_value_in_several_fields_and_one_in_a_single_field_are_kept_beside_each_other() {
    let server = World::start().await;
    let database = Database::with(&[("a", 1)]);
    let stocks = process(&server).await.on(&database).await;
    get(&stocks, "a").await;
    let key = entry_key(&server, "a").await;
    // Version 0.1 reads this field of other versions' values, and deletes values that are out of use by it.
    let expires = field(&server, &key, "exp").await.unwrap();
    let expires: u64 = server.command(&["HGET", &key, &expires]).await.unwrap().parse().unwrap();
    let seconds: u64 = server.command(&["TIME"]).await.unwrap().lines().next().unwrap().parse().unwrap();
    assert!(expires > seconds * 1_000_000, "{expires} at {seconds} s");

    server.command(&["DEL", &key]).await.unwrap();
    let (fresh, now) = (((seconds + 60) * 1_000_000).to_string(), (seconds * 1_000_000).to_string());
    let other = ["v:5a", "an envelope", "kind:5a", "value", "exp:5a", &fresh, "at:5a", &now, "ver:5a", "", "d:5a", "7"];
    server.command(&[&["HSET", &key], &other[..]].concat()).await.unwrap();
    server.command(&["HSET", &key, "c:5a", &now]).await.unwrap();
    assert_eq!(get(&stocks, "a").await.info.source, Source::Load);
    assert_eq!(get(&stocks, "a").await.info.source, Source::Redis);
    assert_eq!(server.command(&["HGET", &key, "v:5a"]).await.unwrap(), "an envelope");
    stocks.invalidate(&sku("a")).await.unwrap();
    assert_eq!(server.command(&["EXISTS", &key]).await.unwrap(), "0", "a write drops both");
    server.end().await;
}

#[tokio::test]
async fn a_write_by_one_version_voids_the_load_of_the_other() {
    let server = World::start().await;
    let database = Database::with(&[("a", 1)]);
    let [old, new] = versions(&server, &database, |new| new.schema(1)).await;
    let (gate, mut loading) = held_load(&database, &new, "a").await;
    database.open();
    database.write("a", Some(2));
    old.invalidate(&sku("a")).await.unwrap();
    assert_eq!(quantity(&get(&old, "a").await), Some(2));
    gate.add_permits(1);
    loading.join_next().await.unwrap().unwrap().unwrap();
    assert_eq!(new.stats().fill_rejected, 1);
    assert_eq!(quantity(&get(&new, "a").await), Some(2));
    assert_eq!(get(&old, "a").await.info.source, Source::Redis, "the load of the one took nothing from the other");
    server.end().await;
}

#[tokio::test]
async fn readers_of_two_versions_are_woken_each_by_its_own_load() {
    let server = World::start().await;
    let database = Database::with(&[("a", 1)]);
    let [old, new] = versions(&server, &database, |new| new.schema(1)).await;
    let others = versions(&server, &database, |new| new.schema(1)).await;
    let gate = database.shut();
    let mut readers = JoinSet::new();
    for version in [&old, &new] {
        reading(&mut readers, version, "a");
        database.queried().await;
    }
    for version in &others {
        reading(&mut readers, version, "a");
    }
    let key = entry_key(&server, "a").await;
    eventually("both wait for another process", || async {
        let fields = server.command(&["HKEYS", &key]).await.unwrap();
        fields.lines().filter(|field| field.starts_with("w:")).count() == 2
    })
    .await;
    gate.add_permits(2);
    while let Some(found) = readers.join_next().await {
        assert_eq!(quantity(&found.unwrap().unwrap()), Some(1));
    }
    assert_eq!(database.loads(), 2);
    server.end().await;
}

#[tokio::test]
async fn what_a_version_that_is_gone_left_behind_is_cleared_away() {
    let server = World::start().await;
    let database = Database::with(&[("a", 1)]);
    let short = Duration::from_millis(50);
    let [new, gone] =
        versions(&server, &database, |gone| gone.schema(1).ttl(short..=short).grace(Duration::ZERO)).await;
    get(&new, "a").await;
    let key = entry_key(&server, "a").await;
    let own = server.command(&["HKEYS", &key]).await.unwrap();
    let v = field(&server, &key, "v").await.unwrap();
    let lives = |text: String| text.parse::<u64>().unwrap();
    let before = lives(server.command(&["PTTL", &key]).await.unwrap());
    get(&gone, "a").await;
    let both = (2 * own.lines().count()).to_string();
    assert_eq!(server.command(&["HLEN", &key]).await.unwrap(), both, "both are there");
    assert!(lives(server.command(&["PTTL", &key]).await.unwrap()) + 5_000 > before, "the longer lifetime counts");
    let fields = server.command(&["HKEYS", &key]).await.unwrap();
    let expires = fields.lines().find(|field| field.starts_with("exp:") && !own.contains(*field)).unwrap();
    let stored_again = async |expired: u64| {
        server.command(&["HSET", &key, expires, &expired.to_string()]).await.unwrap();
        server.command(&["HSET", &key, &v, "damaged"]).await.unwrap();
        get(&new, "a").await;
    };
    // The new version assumes sixty seconds of grace, which are not over.
    let seconds: u64 = server.command(&["TIME"]).await.unwrap().lines().next().unwrap().parse().unwrap();
    stored_again((seconds - 10) * 1_000_000).await;
    assert_eq!(server.command(&["HLEN", &key]).await.unwrap(), both, "both are there");
    stored_again(1).await;
    let left = server.command(&["HKEYS", &key]).await.unwrap();
    assert_eq!(left.lines().count(), own.lines().count(), "{left}");
    assert!(left.lines().all(|field| own.contains(field)), "{left}");
    server.end().await;
}

/// A cache of texts. The text of the id `x3` is `xxx`.
async fn texts(server: &RedisServer) -> CacheBuilder<Sku, String> {
    let redis = Redis::connect(server.url()).await.unwrap().namespace("shop");
    Cache::builder(&redis).loader(|sku: Sku| async move {
        let (letter, times) = sku.0.split_at(1);
        Ok::<_, Infallible>(Some(letter.repeat(times.parse().unwrap())))
    })
}

#[tokio::test]
async fn values_above_the_threshold_are_compressed_and_weigh_what_they_are() {
    let server = World::start().await;
    let build = async || online(texts(&server).await.compress(Compression::lz4().above(1000)).local(1 << 20)).await;
    let (writer, reader) = (build().await, build().await);
    for (id, compressed) in [("x900", false), ("y50000", true)] {
        let written = writer.get(&sku(id)).await.unwrap();
        assert!(written.info.stored);
        let read = reader.get(&sku(id)).await.unwrap();
        assert_eq!((read.info.source, &read.value), (Source::Redis, &written.value));
        let key = entry_key(&server, id).await;
        let v = field(&server, &key, "v").await.unwrap();
        let length: usize = server.command(&["HSTRLEN", &key, &v]).await.unwrap().parse().unwrap();
        assert_eq!(length < 900, compressed, "{id}: {length} bytes");
    }
    let weights = [&writer, &reader].map(|cache| cache.stats().local_weight);
    assert!(weights[0] > 50_000, "{weights:?}");
    assert_eq!(weights[0], weights[1], "loaded or read, it weighs the same");
    server.end().await;
}

#[tokio::test]
async fn of_a_value_that_can_not_be_stored_nobody_waits_for_the_load_of_another() {
    const PROCESSES: usize = 6;
    let server = World::start().await;
    let database = Database::with(&[("a", 7)]);
    let gate = database.shut();
    let mut reads = JoinSet::new();
    for _ in 0..PROCESSES {
        let stocks = process(&server).await.max_value(10).on(&database).await;
        reading(&mut reads, &stocks, "a");
    }
    database.queried().await;
    let key = entry_key(&server, "a").await;
    eventually("all but one wait", || async {
        server.command(&["HKEYS", &key]).await.unwrap().matches("w:").count() == PROCESSES - 1
    })
    .await;
    gate.add_permits(1);
    eventually("the others load at once", || async { database.running.load(Ordering::SeqCst) == PROCESSES - 1 }).await;
    gate.add_permits(PROCESSES);
    while let Some(found) = reads.join_next().await {
        let found = found.unwrap().unwrap();
        assert_eq!((quantity(&found), found.info.stored), (Some(7), false));
    }
    assert_eq!(database.loads(), PROCESSES);
    server.end().await;
}

#[tokio::test]
async fn a_value_over_the_limit_is_returned_and_not_stored() {
    let (log, _logging) = Log::start();
    let server = World::start().await;
    let database = Database::with(&[("private", 7)]);
    let stocks = process(&server).await.max_value(10).local(1 << 20).on(&database).await;
    for loads in 1..=2 {
        let found = get(&stocks, "private").await;
        assert_eq!((quantity(&found), found.info.stored, database.loads()), (Some(7), false, loads));
    }
    let text = log.text();
    assert!(text.contains("value not stored") && !text.contains("private"), "{text}");
    assert!(!stored(&server, "private").await);
    // The second read came at once, and asked for no lease.
    assert_eq!((stocks.stats().payloads_refused, stocks.stats().local_entries), (1, 0));
    // Compression does not help, since the limit is for the inflated value.
    let long = texts(&server).await.name("texts").max_value(1000).compress(Compression::lz4().above(10));
    let long = online(long).await;
    assert!(!long.get(&sku("x5000")).await.unwrap().info.stored);
    server.end().await;
}

/// A number that can't be written if it is 1 or 2, nor read if it is 3 or 4. 1 and 4 are errors, 2 and 3 panic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Brittle(u64);

impl Serialize for Brittle {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            1 => Err(ser::Error::custom("asked to")),
            2 => panic!("asked to"),
            number => serializer.serialize_u64(number),
        }
    }
}

impl<'de> Deserialize<'de> for Brittle {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = u64::deserialize(deserializer)?;
        assert_ne!(number, 3, "asked to");
        if number == 4 { Err(de::Error::custom("asked to")) } else { Ok(Self(number)) }
    }
}

/// A cache of brittle numbers. Its leases last so long that a test would fail before a lease that is kept expires.
async fn brittle(server: &RedisServer, database: &Arc<Database>) -> Cache<Sku, Brittle> {
    let redis = patient_redis(&server.url()).await.namespace("shop");
    let (one, many) = (Arc::clone(database), Arc::clone(database));
    let number = |stock: Option<Stock>| stock.map(|stock| Brittle(stock.quantity));
    let builder = Cache::builder(&redis).load_timeout(Duration::from_secs(60)).loader(move |sku: Sku| {
        let database = Arc::clone(&one);
        async move { database.query(&sku.0).await.map(number) }
    });
    let builder = builder.batch_loader(move |keys: Vec<Sku>| {
        let database = Arc::clone(&many);
        async move {
            let rows = database.query_many(&keys).await?;
            Ok::<_, std::io::Error>(rows.into_iter().map(|(key, row)| (key, number(row))).collect())
        }
    });
    online(builder).await
}

#[tokio::test]
async fn a_value_that_can_not_be_written_is_returned_and_its_lease_given_back_at_once() {
    let server = World::start().await;
    let database = Database::with(&[("fails", 1), ("panics", 2), ("good", 7)]);
    let one = brittle(&server, &database).await;
    let two = brittle(&server, &database).await;
    for (id, number) in [("fails", 1), ("panics", 2)] {
        let gate = database.shut();
        let mut reads = JoinSet::new();
        let (stocks, key) = (one.clone(), sku(id));
        reads.spawn(async move { stocks.get(&key).await });
        database.queried().await;
        let (stocks, key) = (two.clone(), sku(id));
        reads.spawn(async move { stocks.get(&key).await });
        signed_up(&server, id).await;
        gate.add_permits(2);
        let both = tokio::time::timeout(Duration::from_secs(30), reads.join_all()).await.expect("its lease was kept");
        for found in both {
            let found = found.unwrap();
            assert_eq!((found.value.as_deref(), found.info.stored), (Some(&Brittle(number)), false), "{id}");
        }
        database.open();
        assert!(!stored(&server, id).await);
    }
    // Of several keys each one is stored or not by itself, and no caller waits for a value that was not stored.
    for _ in 0..2 {
        let keys = ["panics", "good", "fails"].map(sku);
        let many = tokio::time::timeout(Duration::from_secs(30), one.get_many(&keys)).await.expect("a lease was kept");
        let many: Vec<_> = many.into_iter().map(|found| found.unwrap().value.as_deref().copied()).collect();
        assert_eq!(many, [2, 7, 1].map(|number| Some(Brittle(number))));
    }
    assert!(stored(&server, "good").await);
    server.end().await;
}

#[tokio::test]
async fn a_value_whose_reading_panics_is_loaded_anew_like_any_that_can_not_be_read() {
    let server = World::start().await;
    let database = Database::with(&[("panics", 3), ("fails", 4)]);
    let cache = brittle(&server, &database).await;
    for (id, number) in [("panics", 3), ("fails", 4)] {
        for _ in 0..2 {
            let read = tokio::time::timeout(Duration::from_secs(30), cache.get(&sku(id))).await;
            let found = read.expect("a lease was kept").unwrap();
            assert_eq!((found.value.as_deref(), found.info.source), (Some(&Brittle(number)), Source::Load));
        }
        assert!(stored(&server, id).await);
    }
    assert_eq!((database.loads(), cache.stats().payloads_refused), (4, 2));
    server.end().await;
}
