//! The lease of a load: when the loader may begin, and how the lease is given back.

use std::{
    sync::{Arc, Mutex, atomic::Ordering},
    time::Duration,
};

use stockade::{
    Cache,
    cache::{Loaded, Source},
};
use stockade_testbed::{Fault, Proxy, RedisServer};
use tokio::time::timeout;

use super::support::{
    Database, Loading, Sku, Stock, ended, entry_key, eventually, field, get, held_load, one_read, patient, process,
    process_at, quantity, reading, sku, stored,
};
use crate::world::{World, online};

/// How many milliseconds the key of an entry has left. -1 if it does not expire.
async fn left(server: &RedisServer, id: &str) -> i64 {
    server.command(&["PTTL", &entry_key(server, id).await]).await.unwrap().parse().unwrap()
}

#[tokio::test]
async fn loaders_begin_when_the_leases_are_held() {
    let server = World::start().await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let leased = {
        let (server, seen) = (server.shared(), Arc::clone(&seen));
        move |id: String| {
            let (server, seen) = (Arc::clone(&server), Arc::clone(&seen));
            async move {
                let key = entry_key(&server, &id).await;
                let token = field(&server, &key, "tok").await.unwrap_or_default();
                let token = server.command(&["HGET", &key, &token]).await.unwrap();
                seen.lock().unwrap().push((id, token.len()));
            }
        }
    };
    let one = leased.clone();
    let loader = move |key: Sku| {
        let looked = one(key.0);
        async move {
            looked.await;
            Ok::<_, std::convert::Infallible>(Some(Stock { quantity: 7 }))
        }
    };
    let batch_loader = move |keys: Vec<Sku>| {
        let looked: Vec<_> = keys.into_iter().map(|key| leased(key.0)).collect();
        async move {
            futures_util::future::join_all(looked).await;
            Ok::<_, std::convert::Infallible>(Vec::<(Sku, Option<Stock>)>::new())
        }
    };
    let stocks = online(process(&server).await.loader(loader).batch_loader(batch_loader)).await;
    get(&stocks, "a").await;
    for found in stocks.get_many(&[sku("b"), sku("c")]).await {
        found.unwrap();
    }
    let mut seen = seen.lock().unwrap().clone();
    seen.sort();
    assert_eq!(seen, [("a".to_owned(), 32), ("b".to_owned(), 32), ("c".to_owned(), 32)], "loaded without a token");
    server.end().await;
}

#[tokio::test]
async fn a_lease_leaves_no_key_that_never_ends() {
    let server = World::start().await;
    let database = Database::with(&[("a", 7)]);
    let stocks = process(&server).await.lease(Duration::from_secs(9)).on(&database).await;
    let (gate, mut reads) = held_load(&database, &stocks, "a").await;
    let left = left(&server, "a").await;
    assert!((5_000..=10_000).contains(&left), "a process that dies now leaves its lease for {left} ms");
    gate.add_permits(1);
    reads.join_next().await.unwrap().unwrap().unwrap();
    server.end().await;
}

#[tokio::test]
async fn a_load_that_ends_while_the_store_is_away_keeps_nobody_waiting() {
    let server = World::start().await;
    let proxy = Proxy::start(server.addr()).await.unwrap();
    let database = Database::with(&[("a", 7), ("b", 1)]);
    let long = Duration::from_secs(120);
    let near = patient(&server.url()).await.lease(long).on(&database).await;
    let far = process_at(&proxy.url_for(&server.url())).await.lease(long).on(&database).await;
    for (id, fails) in [("a", false), ("b", true)] {
        let (gate, mut reads) = held_load(&database, &far, id).await;
        proxy.set(Fault::Reset);
        eventually("the connection is lost", async || far.is_degraded()).await;
        database.down(fails);
        gate.add_permits(1);
        let read = reads.join_next().await.unwrap().unwrap();
        assert!(read.as_ref().map_or(fails, |found| found.info.degraded && !fails), "{read:?}");
        database.open();
        database.down(false);
        proxy.set(Fault::None);
        // It waits for the end of that lease, unless the lease is given back.
        let found = timeout(long / 2, get(&near, id)).await.expect("the lease of a load that has ended");
        assert!(quantity(&found).is_some());
        eventually("it is connected again", async || !far.is_degraded()).await;
    }
    server.end_behind(proxy).await;
}

#[tokio::test]
async fn lifetimes_of_any_length_are_kept_and_end() {
    let server = World::start().await;
    let year = 365 * 86_400_000;
    for (id, ttl, grace) in [
        ("none", Duration::ZERO, Duration::ZERO),
        ("graceful", Duration::ZERO, Duration::from_secs(60)),
        ("short", Duration::from_nanos(1), Duration::from_secs(60)),
        ("years", Duration::from_secs(86_400 * 365 * 50), Duration::from_secs(60)),
        ("endless", Duration::MAX, Duration::from_secs(60)),
        ("endless twice", Duration::MAX, Duration::MAX),
    ] {
        let loader = move |_| async move {
            Ok::<_, std::convert::Infallible>(Loaded::new(Some(Stock { quantity: 7 })).ttl(ttl))
        };
        let stocks = online(process(&server).await.grace(grace).loader(loader)).await;
        for _ in 0..2 {
            let lookup = get(&stocks, id).await;
            assert!(!lookup.info.degraded, "{id}: {:?}", lookup.info);
            assert_eq!(lookup.value.unwrap().quantity, 7, "{id}");
        }
        let left = left(&server, id).await;
        if ttl > Duration::from_secs(1) {
            assert_eq!(get(&stocks, id).await.info.source, Source::Redis, "{id}");
            assert!(stored(&server, id).await && left > 49 * year, "{id}: {left}");
        } else {
            assert!(left < 61_000 && left != -1, "{id}: {left}");
        }
        stocks.invalidate_tag("of all").await.unwrap();
        // The end of the test would find an entry that is kept for decades.
        stocks.invalidate(&sku(id)).await.unwrap();
    }
    server.end().await;
}

#[tokio::test]
async fn in_memory_reads_and_refreshes_of_a_key_load_one_at_a_time() {
    let database = Database::with(&[("a", 7)]);
    let ttl = Duration::from_millis(200);
    // With this eagerness a value is due for a refresh as soon as half of its life is over.
    let stocks = Cache::memory().ttl(ttl..=ttl).early_refresh(1e9).on(&database).await;
    let mut reads = one_read(&stocks, "a");
    ended(&mut reads).await;
    let gate = database.shut();
    eventually("it is loaded early", async || {
        reading(&mut reads, &stocks, "a");
        database.loads() == 2
    })
    .await;
    eventually("it has expired, and a read waits for that load", async || {
        let waits = stocks.stats().fetching == 1;
        reading(&mut reads, &stocks, "a");
        waits
    })
    .await;
    database.open();
    gate.add_permits(1);
    while let Some(found) = reads.join_next().await {
        assert_eq!(quantity(&found.unwrap().unwrap()), Some(7));
    }
    assert_eq!(database.most_running.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn in_memory_a_write_voids_the_lease_of_a_load_that_runs() {
    let database = Database::with(&[("a", 7)]);
    let stocks = Cache::memory().load_timeout(Duration::from_secs(60)).on(&database).await;
    let (gate, mut reads) = held_load(&database, &stocks, "a").await;
    database.open();
    database.write("a", Some(8));
    stocks.invalidate(&sku("a")).await.unwrap();
    // The read does not wait for a load that began before the write.
    assert_eq!(quantity(&get(&stocks, "a").await), Some(8));
    gate.add_permits(1);
    let early = reads.join_next().await.unwrap().unwrap().unwrap();
    assert_eq!((quantity(&early), early.info.stored), (Some(7), false));
    assert_eq!((quantity(&get(&stocks, "a").await), database.loads()), (Some(8), 2));
}
