//! A Redis that comes back without its last seconds: restarted from an old file, or replaced by its replica.

use std::{collections::HashSet, time::Duration};

use futures_util::future::join_all;
use reqwest::StatusCode;
use stockade_testbed::RedisServer;

use super::{
    assert_conserved, hold_sales, open, reserve, reserve_when_connected, reserved, until_closed, until_open,
    until_stored,
};
use crate::{
    stage::Stage,
    support::{blocked, within},
};

/// A test holds rows for as long as a Redis takes to start.
const PATIENT: (&str, &str) = ("STATEMENT_TIMEOUT", "6s");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_counter_that_was_restored_from_an_old_file_gives_nothing_away() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[PATIENT]).await;
    instance.put("A", 10).await;
    open(&instance, "A", 10, 10).await;
    reserved(&instance, "ann", 3).await;
    until_stored(&stage, 3).await;
    stage.redis.command(&["SAVE"]).await.unwrap();
    // The file says that seven are left, since these four were reserved after it was written.
    reserved(&instance, "bob", 4).await;
    until_stored(&stage, 7).await;
    // The keeper waits for the row, so no instance makes a new counter before the reservation of dan.
    let held = hold_sales(&stage).await;
    reserved(&instance, "cid", 1).await;
    within(Duration::from_secs(10), "the keeper waits", async || blocked(&stage).await == 1).await;
    stage.redis.kill().await.unwrap();
    stage.redis.restart().await.unwrap();
    let left = stage.redis.command(&["HGET", "inventory:flash:{A}:sale", "left"]).await.unwrap();
    assert_eq!(left, "7", "the counter of the file");

    let refused = reserve_when_connected(&instance, "dan", 3).await;
    assert_eq!((refused.status, refused.problem().as_str()), (StatusCode::SERVICE_UNAVAILABLE, "load-shed"));
    held.rollback().await.unwrap();
    until_open(&instance).await;
    assert_eq!(reserve(&instance, "A", "dan", 3, None).await.problem(), "sold-out");
    reserved(&instance, "dan", 2).await;
    until_closed(&instance).await;
    assert_eq!(stage.count("select stored from flash_sale").await, 10);
    assert_conserved(&stage).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_lacks_the_last_reservations_oversells_nothing_and_stores_all_that_it_has() {
    const UNITS: i64 = 40;
    let stage = Stage::start().await;
    let replica = RedisServer::builder().replica_of(&stage.redis).start().await.unwrap();
    let (quick, durable) = tokio::join!(stage.serve(&[PATIENT]), stage.serve(&[PATIENT, ("FLASH_DURABLE", "on")]));
    quick.put("A", UNITS).await;
    open(&quick, "A", UNITS, UNITS).await;
    // The replica has these three, which are stored, and the next five, which are in the stream.
    let mut kept = vec![reserved(&durable, "ann", 3).await];
    let held = hold_sales(&stage).await;
    for _ in 0..5 {
        kept.push(reserved(&quick, "bob", 1).await);
    }
    within(Duration::from_secs(10), "the replica has them", async || has(&replica, 6, 5).await).await;
    replica.command(&["REPLICAOF", "NO", "ONE"]).await.unwrap();
    held.rollback().await.unwrap();
    // The replica lacks four units that are stored, and six that were acknowledged by Redis alone and may be lost.
    kept.push(reserved(&durable, "cid", 4).await);
    until_stored(&stage, 12).await;
    let held = hold_sales(&stage).await;
    let mut told = Vec::new();
    for _ in 0..6 {
        told.push(reserved(&quick, "dan", 1).await);
    }
    stage.redis.kill().await.unwrap();
    // As if one address always led to the current primary.
    replica.command(&["CONFIG", "SET", "port", &stage.redis.port().to_string()]).await.unwrap();
    held.rollback().await.unwrap();
    until_open(&quick).await;

    let rest = join_all((0..UNITS).map(|_| reserve_when_connected(&quick, "eve", 1))).await;
    assert_eq!(reserve_when_connected(&durable, "fay", 1).await.problem(), "sold-out");
    for answer in rest.iter().filter(|answer| answer.status == StatusCode::CREATED) {
        kept.push(answer.json()["id"].as_str().unwrap().to_owned());
    }
    until_closed(&quick).await;
    let ids: Vec<String> =
        sqlx::query_scalar("select id from flash_reservation where stored").fetch_all(&stage.pool).await.unwrap();
    let stored: HashSet<&String> = ids.iter().collect();
    let missing: Vec<_> = kept.iter().filter(|id| !stored.contains(id)).collect();
    assert!(missing.is_empty(), "acknowledged, kept by Redis, and not stored: {missing:?}");
    assert!(ids.iter().all(|id| kept.contains(id) || told.contains(id)), "nobody was told of {ids:?}");
    assert_eq!(stage.count("select stored from flash_sale").await, UNITS, "all are sold, none twice");
    assert_conserved(&stage).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_returns_with_the_data_of_its_successor_makes_its_counter_again() {
    let stage = Stage::start().await;
    let successor = RedisServer::builder().replica_of(&stage.redis).start().await.unwrap();
    let instance = stage.serve(&[PATIENT]).await;
    instance.put("A", 10).await;
    open(&instance, "A", 10, 10).await;
    reserved(&instance, "ann", 3).await;
    until_stored(&stage, 3).await;
    within(Duration::from_secs(10), "the successor has it", async || has(&successor, 1, 0).await).await;
    successor.command(&["REPLICAOF", "NO", "ONE"]).await.unwrap();
    // The successor lacks these four.
    reserved(&instance, "bob", 4).await;
    until_stored(&stage, 7).await;
    let port = successor.port().to_string();
    stage.redis.command(&["REPLICAOF", "127.0.0.1", &port]).await.unwrap();
    within(Duration::from_secs(10), "it follows its successor", async || has(&stage.redis, 1, 0).await).await;
    stage.redis.command(&["REPLICAOF", "NO", "ONE"]).await.unwrap();

    // The process that made the counter still runs, but its counter is now the older one of its successor.
    within(Duration::from_secs(20), "three are left", async || {
        let answer = instance.get("/flash/A").await;
        answer.status == StatusCode::OK
            && (answer.json()["state"] == "open", answer.json()["remaining"] == 3) == (true, true)
    })
    .await;
    assert_eq!(reserve(&instance, "A", "cid", 4, None).await.problem(), "sold-out");
    reserved(&instance, "cid", 3).await;
    until_closed(&instance).await;
    assert_eq!(stage.count("select stored from flash_sale").await, 10);
    assert_conserved(&stage).await;
}

/// Whether a server has so many reservations of `A`, and so many of them in the stream.
async fn has(server: &RedisServer, reservations: usize, entries: usize) -> bool {
    let known = server.command(&["HLEN", "inventory:flash:{A}:reservations"]).await.unwrap();
    let waiting = server.command(&["XLEN", "inventory:flash:{A}:stream"]).await.unwrap();
    (known, waiting) == (reservations.to_string(), entries.to_string())
}
