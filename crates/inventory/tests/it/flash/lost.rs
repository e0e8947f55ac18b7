//! A Redis that lost what it knew, a database that is away, and entries that nobody can store.

use std::time::Duration;

use reqwest::StatusCode;
use serde_json::json;

use super::{assert_conserved, open, reserve, until_closed, until_open};
use crate::{
    stage::Stage,
    support::{alone, within},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_durable_reservation_survives_a_redis_that_comes_back_empty() {
    let _alone = alone().await;
    let stage = Stage::start().await;
    let instance = stage.serve(&[("FLASH_DURABLE", "on")]).await;
    instance.put("A", 10).await;
    open(&instance, "A", 10, 4).await;
    for customer in ["ann", "bob"] {
        assert_eq!(reserve(&instance, "A", customer, 3, Some(customer)).await.status, StatusCode::CREATED);
    }
    assert_eq!(stage.count("select stored from flash_sale").await, 6, "before the answers");

    stage.redis.restart().await.unwrap();
    until_open(&instance).await;
    assert_eq!(instance.get("/flash/A").await.json()["remaining"], 4, "made from Postgres");
    let again = reserve(&instance, "A", "ann", 3, Some("ann")).await;
    assert_eq!((again.status, again.header("idempotent-replayed")), (StatusCode::CREATED, "true"), "{again:?}");
    assert_eq!(reserve(&instance, "A", "bob", 2, None).await.problem(), "limit-reached");
    assert_eq!(reserve(&instance, "A", "cid", 5, None).await.problem(), "sold-out");
    assert_eq!(reserve(&instance, "A", "cid", 4, None).await.status, StatusCode::CREATED);
    until_closed(&instance).await;
    assert_eq!(stage.count("select stored from flash_sale").await, 10);
    assert_eq!(instance.get("/stock/A").await.json()["quantity"], 0);
    assert_conserved(&stage).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_made_under_an_earlier_counter_is_rejected() {
    let _alone = alone().await;
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    instance.put("A", 5).await;
    open(&instance, "A", 5, 5).await;
    let generation = stage.count("select generation from flash_sale").await;
    let entry = |id: &'static str, sale: &'static str, generation: i64| {
        let generation = generation.to_string();
        let redis = &stage.redis;
        async move {
            let fields = ["sale", sale, "generation", &generation, "id", id, "customer", "old", "quantity", "1"];
            let command = [&["XADD", "inventory:flash:{A}:stream", "*"][..], &fields[..]].concat();
            redis.command(&command).await.unwrap();
        }
    };
    entry("1-old", "1", generation - 1).await;
    within(Duration::from_secs(10), "rejected", async || {
        stage.count("select count(*) from flash_reservation where id = '1-old' and not stored").await == 1
    })
    .await;
    assert_eq!(stage.count("select stored from flash_sale").await, 0);

    // A sale opened anew takes nothing of the one before.
    until_closed(&instance).await;
    open(&instance, "A", 5, 5).await;
    entry("1-late", "1", generation).await;
    within(Duration::from_secs(10), "rejected", async || {
        stage.count("select count(*) from flash_reservation where id = '1-late' and not stored").await == 1
    })
    .await;
    assert_eq!(stage.count("select sum(stored)::bigint from flash_sale").await, 0);
    assert_conserved(&stage).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_for_the_database_is_bounded_and_only_what_it_refuses_is_a_dead_letter() {
    let _alone = alone().await;
    let stage = Stage::start().await;
    let instance = stage.serve(&[("FLASH_BACKLOG", "3")]).await;
    instance.put("A", 20).await;
    open(&instance, "A", 20, 20).await;
    // The row is held: nothing can be stored, as with a database that does not answer.
    let mut held = stage.pool.begin().await.unwrap();
    sqlx::query("select from flash_sale for update").execute(&mut *held).await.unwrap();
    for _ in 0..3 {
        assert_eq!(reserve(&instance, "A", "ann", 1, None).await.status, StatusCode::CREATED);
    }
    let shed = reserve(&instance, "A", "ann", 1, None).await;
    assert_eq!((shed.status, shed.problem().as_str()), (StatusCode::SERVICE_UNAVAILABLE, "load-shed"));
    assert_eq!(shed.json()["applied"], json!(false));
    held.rollback().await.unwrap();
    within(Duration::from_secs(20), "stored", async || stage.count("select stored from flash_sale").await == 3).await;
    assert_eq!(stage.count("select count(*) from flash_dead_letter").await, 0);

    let stream = "inventory:flash:{A}:stream";
    stage.redis.command(&["XADD", stream, "*", "nothing", "known"]).await.unwrap();
    let fields = ["sale", "99", "generation", "1", "id", "99-x", "customer", "who", "quantity", "1"];
    stage.redis.command(&[&["XADD", stream, "*"][..], &fields[..]].concat()).await.unwrap();
    within(Duration::from_secs(20), "dead letters", async || {
        stage.count("select count(*) from flash_dead_letter").await == 2
    })
    .await;
    assert_eq!(reserve(&instance, "A", "bob", 1, None).await.status, StatusCode::CREATED, "the next ones are stored");
    until_closed(&instance).await;
    assert_eq!(instance.get("/stock/A").await.json()["quantity"], 16);
    assert_conserved(&stage).await;
}
