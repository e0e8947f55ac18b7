//! Values under the keys of a cache that were written by another program.

use stockade::cache::Source;

use super::{
    support::{Database, Loading, entry_key, eventually, field, get, patient, process, quantity, sku, warm},
    tags::tagged,
};
use crate::world::World;

/// Replaces one of the words in front of a payload.
const OTHER_WORD: &str = r"
    local v, place = redis.call('HGET', KEYS[1], ARGV[1]), 0
    local line, rest = string.match(v, '^([^\n]*)(\n.*)$')
    line = string.gsub(line, '%S+', function(word)
        place = place + 1
        return place == tonumber(ARGV[2]) and ARGV[3] or word
    end)
    return redis.call('HSET', KEYS[1], ARGV[1], line .. rest)";

#[tokio::test]
async fn a_foreign_value_under_a_key_of_a_cache_is_deleted_by_who_meets_it() {
    let server = World::start().await;
    let database = Database::with(&[("a", 7)]);
    let stocks = patient(&server.url()).await.on(&database).await;
    let other = patient(&server.url()).await.local(1 << 20).on(&database).await;
    get(&stocks, "a").await;
    let entry = entry_key(&server, "a").await;
    let bucket = &entry[entry.find('{').unwrap()..=entry.find('}').unwrap()];
    let sequence = format!("shop:v1:{bucket}s:stock");
    let hit = async || get(&stocks, "a").await.info.source == Source::Redis;
    let foreign: [&[&str]; 6] = [
        &["SET", &entry, "foreign"],
        &["LPUSH", &entry, "foreign"],
        &["SET", &sequence, "foreign"],
        &["SET", &sequence, "9223372036854775807"],
        &["SET", &sequence, "-5"],
        &["LPUSH", &sequence, "foreign"],
    ];
    for command in foreign {
        server.command(&["DEL", command[1]]).await.unwrap();
        server.command(command).await.unwrap();
        // A reader deletes the foreign value.
        eventually("it is stored over what was there", || async { hit().await }).await;
        warm(&other, "a").await;
        server.command(&["DEL", command[1]]).await.unwrap();
        server.command(command).await.unwrap();
        // A write deletes the foreign value, and from then on messages have numbers that other processes can read.
        for row in [8, 9] {
            warm(&other, "a").await;
            database.write("a", Some(row));
            stocks.invalidate(&sku("a")).await.unwrap();
            assert_eq!(quantity(&get(&stocks, "a").await), Some(row), "{command:?}");
            eventually("others have heard of it", || async { quantity(&get(&other, "a").await) == Some(row) }).await;
        }
        eventually("it is stored again", || async { hit().await }).await;
        database.write("a", Some(7));
        stocks.invalidate(&sku("a")).await.unwrap();
    }
    server.end().await;
}

#[tokio::test]
async fn what_can_not_be_read_of_an_entry_is_a_miss() {
    let server = World::start().await;
    let database = Database::with(&[("a", 7)]);
    let stocks = patient(&server.url()).await.on(&database).await;
    get(&stocks, "a").await;
    let entry = entry_key(&server, "a").await;
    let v = field(&server, &entry, "v").await.unwrap();
    // The words: fresh until, loaded at, epoch, epoch and newest stamp of tags, kind, version, duration of the load.
    for word in 1..=8 {
        for text in ["", "x", "-1", "inf", "1e300"] {
            eventually("it is stored", || async { get(&stocks, "a").await.info.source == Source::Redis }).await;
            server.command(&["EVAL", OTHER_WORD, "1", &entry, &v, &word.to_string(), text]).await.unwrap();
            let found = stocks.get(&sku("a")).await.unwrap();
            assert_eq!(quantity(&found), Some(7), "{text:?} as word {word}");
            assert_eq!(found.info.source, Source::Load, "{text:?} as word {word}");
            assert!(!found.info.degraded, "{text:?} as word {word}: {:?}", found.info);
        }
    }
    server.end().await;
}

#[tokio::test]
async fn a_cache_comes_up_where_its_marker_and_its_table_of_tags_are_foreign() {
    let server = World::start().await;
    let database = Database::with(&[("a", 7)]);
    let first = process(&server).await.on(&database).await;
    first.invalidate_tag("red").await.unwrap();
    let keys = server.command(&["KEYS", "*"]).await.unwrap();
    let of = |kind: &str| keys.lines().find(|key| key.contains(kind)).unwrap().to_owned();
    for key in [of("}j:"), of("}t:")] {
        server.command(&["DEL", &key]).await.unwrap();
        server.command(&["LPUSH", &key, "foreign"]).await.unwrap();
    }
    let second = patient(&server.url()).await.on(&database).await;
    second.invalidate_tag("red").await.unwrap();
    get(&second, "a").await;
    assert_eq!(get(&second, "a").await.info.source, Source::Redis);
    server.end().await;
}

#[tokio::test]
async fn foreign_messages_on_the_channels_of_a_cache_cost_loads_at_most() {
    let server = World::start().await;
    let database = Database::with(&[("a", 7)]);
    let stocks = patient(&server.url()).await.on(&database).await;
    let channels = server.command(&["PUBSUB", "CHANNELS", "shop:v1:*"]).await.unwrap();
    assert!(channels.lines().count() >= 2, "{channels}");
    let largest = u64::MAX.to_string();
    let long = "x".repeat(1 << 20);
    let messages = [
        "",
        "E",
        "E x",
        &format!("E {largest}"),
        "0",
        "256 1 -",
        "0 x -",
        &format!("0 {largest} -"),
        "0 0 -",
        &format!("0 {largest} stock:a"),
        "0 1 stock:a",
        &format!("0 {largest} #red"),
        &format!("0 2 #{long}"),
        &format!("0 3 {long}"),
        &format!("C {long}"),
    ];
    for channel in channels.lines() {
        for message in messages {
            server.command(&["PUBLISH", channel, message]).await.unwrap();
        }
    }
    get(&stocks, "a").await;
    let found = get(&stocks, "a").await;
    assert_eq!((found.info.source, found.info.degraded), (Source::Redis, false));
    assert!(!stocks.is_degraded());
    server.end().await;
}

#[tokio::test]
async fn a_cache_goes_on_where_its_epoch_its_tags_or_its_intents_hold_what_no_cache_writes() {
    let server = World::start().await;
    let database = Database::with(&[("a", 7)]);
    let stocks = tagged(patient(&server.url()).await, &database).await;
    get(&stocks, "a").await;
    let keys = server.command(&["KEYS", "*"]).await.unwrap();
    let of = |kind: &str| keys.lines().find(|key| key.contains(kind)).unwrap().to_owned();
    let (epoch, tags, intents) = (of("}c:"), of("}t:"), of("}e:").replace("}e:", "}i:"));
    for command in [
        ["SET", &epoch, "8e15"].as_slice(),
        &["SET", &epoch, "9007199254740993"],
        &["ZADD", &tags, "1", "f"],
        &["ZADD", &tags, "-4000000000000000.5", "f"],
        &["ZADD", &tags, "-9007199254740994", "f"],
        &["HSET", &intents, "a1", "foreign"],
    ] {
        server.command(command).await.unwrap();
        stocks.invalidate(&sku("a")).await.unwrap();
        get(&stocks, "a").await;
        assert_eq!(get(&stocks, "a").await.info.source, Source::Redis, "{command:?}");
    }
    server.end().await;
}
