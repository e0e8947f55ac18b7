//! A Redis that lost its data, a database that is down, and entries that nobody can store.

use std::time::Duration;

use reqwest::StatusCode;
use serde_json::json;

use super::{LIMIT, assert_conserved, hold_sales, open, reserve, reserved, until_closed, until_open, until_stored};
use crate::{
    stage::Stage,
    stock_db::execute,
    support::{alone, blocked, within},
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

    // A new sale of the same SKU stores no entry of the previous sale.
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
    // While the row is held nothing can be stored, as if the database did not answer.
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
    // An index of Postgres takes no such id.
    let long: String =
        (1_u64..1_000).map(|number| format!("{:x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
    let fields = ["sale", "1", "generation", "1", "id", &long, "customer", "who", "quantity", "1"];
    stage.redis.command(&[&["XADD", stream, "*"][..], &fields[..]].concat()).await.unwrap();
    within(Duration::from_secs(20), "dead letters", async || {
        stage.count("select count(*) from flash_dead_letter").await == 3
    })
    .await;
    assert_eq!(reserve(&instance, "A", "bob", 1, None).await.status, StatusCode::CREATED, "the next ones are stored");
    until_closed(&instance).await;
    assert_eq!(instance.get("/stock/A").await.json()["quantity"], 16);
    assert_conserved(&stage).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reservation_made_again_is_stored_although_that_of_a_lost_counter_is_rejected() {
    let _alone = alone().await;
    let stage = Stage::start().await;
    let (eventual, durable) = tokio::join!(stage.serve(&[]), stage.serve(&[("FLASH_DURABLE", "on")]));
    eventual.put("A", 9).await;
    open(&eventual, "A", 9, 9).await;
    until_open(&durable).await;
    // Adds an entry of the previous counter, as if a consumer had read it from a Redis that then lost it.
    let lost = async |key: &'static str| {
        let id = "select '1-' || encode(substring(sha256(convert_to($1, 'UTF8')) from 1 for 16), 'hex')";
        let id: String = sqlx::query_scalar(id).bind(key).fetch_one(&stage.pool).await.unwrap();
        let generation = (stage.count("select generation from flash_sale").await - 1).to_string();
        let fields = ["sale", "1", "generation", &generation, "id", &id, "customer", "ann", "quantity", "1"];
        stage.redis.command(&[&["XADD", "inventory:flash:{A}:stream", "*"][..], &fields].concat()).await.unwrap();
    };
    let rows = async |of: &'static str| stage.count(of).await;
    let rejected = "select count(*) from flash_reservation where not stored";

    lost("before").await;
    within(Duration::from_secs(20), "rejected", async || rows(rejected).await == 1).await;
    let held = hold_sales(&stage).await;
    let again = reserve(&eventual, "A", "ann", 1, Some("before")).await;
    assert_eq!(again.status, StatusCode::CREATED, "{again:?}");
    let shown = eventual.get(again.headers["location"].to_str().unwrap()).await;
    assert_eq!(shown.json()["state"], "pending", "it was let in again: {shown:?}");
    held.rollback().await.unwrap();
    until_stored(&stage, 1).await;
    let repeated = reserve(&eventual, "A", "ann", 1, Some("before")).await;
    assert_eq!((repeated.status, repeated.json()["state"].as_str()), (StatusCode::CREATED, Some("stored")));

    // The lost and the new entries are in one batch. The answer of the durable instance waits for that batch.
    let held = hold_sales(&stage).await;
    for key in ["eventual", "durable"] {
        lost(key).await;
    }
    assert_eq!(reserve(&eventual, "A", "ann", 1, Some("eventual")).await.status, StatusCode::CREATED);
    let release = async {
        let stream = ["XLEN", "inventory:flash:{A}:stream"];
        within(Duration::from_secs(10), "all wait", async || stage.redis.command(&stream).await.unwrap() == "4").await;
        held.rollback().await.unwrap();
    };
    let (waited, ()) = tokio::join!(reserve(&durable, "A", "ann", 1, Some("durable")), release);
    assert_eq!(waited.status, StatusCode::CREATED, "{waited:?}");
    until_stored(&stage, 3).await;

    // This entry is rejected before the next counter is made from the stored reservations.
    lost("after").await;
    within(Duration::from_secs(20), "rejected", async || rows(rejected).await == 1).await;
    stage.redis.restart().await.unwrap();
    until_open(&eventual).await;
    let again = reserve(&eventual, "A", "ann", 1, Some("after")).await;
    assert_eq!(again.status, StatusCode::CREATED, "{again:?}");
    until_stored(&stage, 4).await;
    assert_eq!(rows(rejected).await, 0);
    until_closed(&eventual).await;
    assert_eq!(eventual.get("/stock/A").await.json()["quantity"], 5);
    assert_conserved(&stage).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_says_that_nothing_was_applied_while_a_consumer_holds_what_redis_has_lost() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    instance.put("A", 9).await;
    open(&instance, "A", 9, 9).await;
    let held = hold_sales(&stage).await;
    assert_eq!(reserve(&instance, "A", "ann", 1, Some("key")).await.status, StatusCode::CREATED);
    within(LIMIT, "the consumer waits for the row", async || blocked(&stage).await == 1).await;
    stage.redis.command(&["FLUSHALL"]).await.unwrap();
    let repeated = reserve(&instance, "A", "ann", 1, Some("key")).await;
    assert_eq!((repeated.problem().as_str(), &repeated.json()["applied"]), ("outcome-unknown", &json!(null)));
    held.rollback().await.unwrap();
    within(LIMIT, "it is made", async || {
        reserve(&instance, "A", "ann", 1, Some("key")).await.status == StatusCode::CREATED
    })
    .await;
    until_stored(&stage, 1).await;
    until_closed(&instance).await;
    assert_conserved(&stage).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sale_goes_on_after_postgres_has_lost_its_newest_counter() {
    let _alone = alone().await;
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    instance.put("A", 50).await;
    open(&instance, "A", 50, 50).await;
    reserved(&instance, "ann", 1).await;
    until_stored(&stage, 1).await;
    stage.redis.restart().await.unwrap();
    until_open(&instance).await;
    // As after a failover to a replica that lacks the last commits.
    for lost in [1, 2] {
        let before = stage.count("select stored from flash_sale").await;
        execute(&stage.pool, &format!("update flash_sale set generation = generation - {lost}")).await;
        within(Duration::from_secs(20), "what is reserved is stored", async || {
            reserve(&instance, "A", "bob", 1, None).await;
            stage.count("select stored from flash_sale").await > before
        })
        .await;
    }
    until_closed(&instance).await;
    assert_conserved(&stage).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_lost_the_end_of_a_sale_lets_nobody_in_and_keeps_nothing_of_it() {
    let stage = Stage::start().await;
    let mut instance = stage.serve(&[]).await;
    instance.put("A", 5).await;
    open(&instance, "A", 5, 5).await;
    reserved(&instance, "ann", 2).await;
    until_stored(&stage, 2).await;
    let command = async |words: [&str; 3]| stage.redis.command(&words).await.unwrap();
    let names = ["sale", "customers", "reservations"].map(|name| format!("inventory:flash:{{A}}:{name}"));
    for name in &names {
        command(["COPY", name, &format!("older:{name}")]).await;
    }
    until_closed(&instance).await;
    // Its keeper remembers the sale for a moment.
    instance.kill().await;
    // As after a restart from what was saved before. An entry that was stored is in the stream again.
    for name in &names {
        command(["RENAME", &format!("older:{name}"), name]).await;
    }
    stage.redis.command(&["XADD", "inventory:flash:{A}:stream", "*", "sale", "1", "id", "1-old"]).await.unwrap();
    let other = stage.serve(&[]).await;
    assert_eq!(reserve(&other, "A", "bob", 1, None).await.problem(), "sale-closed");
    for (name, kept) in [("sale", 1..=86_400), ("customers", -2..=-2), ("reservations", -2..=-2), ("stream", -2..=-2)] {
        let ttl = stage.redis.command(&["TTL", &format!("inventory:flash:{{A}}:{name}")]).await.unwrap();
        assert!(kept.contains(&ttl.parse::<i64>().unwrap()), "{name}: {ttl}");
    }
    assert_conserved(&stage).await;
}
