//! The commands of the cache, as Redis counts them.

use std::{cell::Cell, collections::BTreeMap, time::Duration};

use stockade::cache::Source;
use stockade_testbed::RedisServer;
use tokio::time::Instant;

use super::{
    bloom::filter,
    support::{Database, Loading, Sku, eventually, get, process, sku},
};
use crate::redis_traffic::calls;
use crate::world::World;

/// How many scripts the heartbeat may have run meanwhile, one a second.
const BEATS: u64 = 10;

async fn counted(server: &RedisServer, of: impl AsyncFnOnce()) -> BTreeMap<String, u64> {
    server.command(&["CONFIG", "RESETSTAT"]).await.unwrap();
    of().await;
    calls(server).await
}

fn assert_about(calls: &BTreeMap<String, u64>, command: &str, expected: u64) {
    let seen = calls.get(command).copied().unwrap_or(0);
    assert!((expected..=expected + BEATS).contains(&seen), "{command}: {seen} and not {expected}, of {calls:?}");
}

#[tokio::test]
async fn a_hit_is_one_field_of_one_hash_and_nothing_else() {
    let server = World::start().await;
    let stocks = process(&server).await.on(&Database::with(&[("a", 7)])).await;
    get(&stocks, "a").await;
    let calls = counted(&server, async || {
        for _ in 0..100 {
            assert_eq!(get(&stocks, "a").await.info.source, Source::Redis);
        }
    })
    .await;
    assert_eq!(calls["hget"], 100);
    // All other commands are those of the heartbeat.
    for (command, count) in &calls {
        let of_a_beat = ["evalsha", "time", "get", "publish"].contains(&command.as_str());
        assert!(command == "hget" || of_a_beat && *count <= BEATS, "{calls:?}");
    }
    server.end().await;
}

#[tokio::test]
async fn a_miss_is_a_read_a_lease_and_a_fill_and_an_invalidation_one_script() {
    let server = World::start().await;
    let ids: Vec<_> = (0..100).map(|number| number.to_string()).collect();
    let rows: Vec<_> = ids.iter().map(|id| (id.as_str(), 1)).collect();
    let stocks = process(&server).await.on(&Database::with(&rows)).await;
    let missed = counted(&server, async || {
        for id in &ids {
            assert!(get(&stocks, id).await.info.stored);
        }
    })
    .await;
    // Each miss is one HGET of the read and two of the fill, for its lease. The script of the lease reads the entry by
    // HMGET.
    assert_eq!((missed["hget"], missed["hmget"]), (100 + 200, 100));
    assert_about(&missed, "evalsha", 200);
    let dropped = counted(&server, async || {
        for id in &ids {
            stocks.invalidate(&sku(id)).await.unwrap();
        }
    })
    .await;
    assert!(!dropped.contains_key("hget") && !dropped.contains_key("hmget"), "{dropped:?}");
    assert_about(&dropped, "evalsha", 100);
    let together: Vec<Sku> = ids.iter().map(|id| sku(id)).collect();
    let many = counted(&server, async || {
        for found in stocks.get_many(&together).await {
            assert!(found.unwrap().info.stored);
        }
    })
    .await;
    assert_about(&many, "evalsha", 200);
    server.end().await;
}

#[tokio::test]
async fn the_next_read_where_an_invalidation_dropped_the_value_is_a_lease_and_a_fill() {
    let server = World::start().await;
    let ids: Vec<_> = (0..100).map(|number| format!("n{number}")).collect();
    let rows: Vec<_> = ids.iter().map(|id| (id.as_str(), 1)).collect();
    let filter = filter(&server.url()).await;
    let stocks = process(&server).await.bloom(&filter).on(&Database::with(&rows)).await;
    let first = counted(&server, async || {
        for id in &ids {
            get(&stocks, id).await;
        }
    })
    .await;
    assert_about(&first, "evalsha", 300);
    assert!(first.contains_key("getbit"), "{first:?}");
    let next = counted(&server, async || {
        for id in &ids {
            stocks.invalidate(&sku(id)).await.unwrap();
            assert!(get(&stocks, id).await.info.stored);
        }
    })
    .await;
    // An invalidation, a lease and a fill. Neither the value nor the filter is asked for.
    assert_about(&next, "evalsha", 300);
    assert_eq!((next["hget"], next["hmget"], next.get("getbit")), (200, 100, None));
    server.end().await;
}

#[tokio::test]
async fn a_cache_that_nobody_uses_asks_for_the_run_of_its_server_now_and_then() {
    let server = World::start().await;
    let stocks = process(&server).await.on(&Database::with(&[])).await;
    server.command(&["CONFIG", "RESETSTAT"]).await.unwrap();
    let (since, looks) = (Instant::now(), Cell::new(0_u64));
    eventually("it asks", || async {
        // The looks of this test count, too, but for the present one.
        let asked = server.calls_of("info").await.unwrap() - looks.replace(looks.get() + 1);
        assert!(asked <= 1, "{asked} at once");
        asked == 1
    })
    .await;
    assert!(since.elapsed() > Duration::from_secs(1), "{:?}", since.elapsed());
    drop(stocks);
    server.end().await;
}
