//! A sale whose keys in Redis another program wrote to, and sales whose Redis or Postgres takes nothing.

use std::{cell::Cell, time::Duration};

use futures_util::future::{join, join_all};
use reqwest::{Method, StatusCode};
use serde_json::json;

use super::{assert_conserved, hold_sales, open, reserve, reserved, until_closed, until_open, until_stored};
use crate::{
    stage::{Stage, until},
    support::blocked,
};

const SALE: &str = "inventory:flash:{A}:sale";
const CUSTOMERS: &str = "inventory:flash:{A}:customers";
const STREAM: &str = "inventory:flash:{A}:stream";

#[tokio::test]
async fn one_broken_sale_does_not_stop_the_others_and_goes_on_once_its_key_is_deleted() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    for sku in ["A", "B"] {
        instance.put(sku, 10_000).await;
        open(&instance, sku, 10_000, 30).await;
    }
    assert_eq!(reserve(&instance, "A", "ann", 1, None).await.status, StatusCode::CREATED);
    until_stored(&stage, 1).await;

    stage.redis.command(&["SET", STREAM, "of somebody else"]).await.unwrap();
    for _ in 0..10 {
        // More failures than a server that does not answer is given.
        let refused = join_all((0..10).map(|_| reserve(&instance, "A", "bob", 1, None))).await;
        assert!(refused.iter().all(|answer| answer.problem() == "lock-store-unavailable"), "{refused:?}");
        let made = reserve(&instance, "B", "bob", 1, None).await;
        assert_eq!(made.status, StatusCode::CREATED, "{made:?}");
    }
    until("B is stored", async || stage.count("select sum(stored)::bigint from flash_sale").await == 11).await;

    // The sale that is broken is tried four times a second, and the other is stored as fast as ever.
    let before = reads(&stage).await;
    let mut units = 11;
    let (served, failed) = loop {
        let made = reserve(&instance, "B", &format!("c{units}"), 1, None).await;
        units += i64::from(made.status == StatusCode::CREATED);
        let now = reads(&stage).await;
        let (served, failed) = (now.0 - before.0, now.1 - before.1);
        if failed >= 8 {
            break (served, failed);
        }
    };
    assert!(served >= 2 * failed, "{served} reads were answered beside {failed} that were refused");
    assert_eq!(instance.log().matches("a flash sale stands still").count(), 1, "{}", instance.log());
    assert!(
        !instance.log().contains("no answer of a flash sale's counter"),
        "each request is named: {}",
        instance.log()
    );

    stage.redis.command(&["DEL", STREAM]).await.unwrap();
    assert_eq!(reserve(&instance, "A", "bob", 1, None).await.status, StatusCode::CREATED);
    until_stored(&stage, units + 1).await;
    assert_eq!(instance.log().matches("a flash sale goes on again").count(), 1, "{}", instance.log());
    until_closed(&instance).await;
    assert_conserved(&stage).await;
}

#[tokio::test]
async fn a_counter_that_was_replaced_on_another_redis_is_said_to_be_once_and_lets_nobody_in() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    instance.put("A", 9).await;
    open(&instance, "A", 9, 9).await;
    stage.redis.command(&["HSET", SALE, "generation", "0"]).await.unwrap();
    until("it stands still", async || instance.log().contains("is it an old primary?")).await;
    let before = reads(&stage).await.0;
    until("it was looked at again and again", async || reads(&stage).await.0 >= before + 8).await;
    assert_eq!(instance.log().matches("is it an old primary?").count(), 1, "{}", instance.log());
    assert_eq!(reserve(&instance, "A", "ann", 1, None).await.problem(), "load-shed");

    stage.redis.restart().await.unwrap();
    until_open(&instance).await;
    until_closed(&instance).await;
    assert_conserved(&stage).await;
}

/// How many reads of streams Redis has answered, and how many it has refused.
async fn reads(stage: &Stage) -> (u64, u64) {
    let stats = stage.redis.command(&["INFO", "commandstats"]).await.unwrap();
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_xreadgroup:")).unwrap();
    let field = |name| line.split(',').find_map(|field| field.strip_prefix(name)).unwrap().parse::<u64>().unwrap();
    let failed = field("failed_calls=");
    (field("calls=") - failed, failed)
}

#[tokio::test]
async fn a_sale_that_was_opened_is_answered_as_opened_although_its_counter_can_not_be_made() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    instance.put("A", 9).await;
    stage.redis.command(&["SET", SALE, "of somebody else"]).await.unwrap();
    let opened = open(&instance, "A", 5, 2).await;
    assert_eq!(opened.status, StatusCode::CREATED, "{opened:?}");
    let said = opened.json();
    assert_eq!((&said["state"], &said["remaining"]), (&json!("opening"), &json!(5)), "{said}");
    assert_eq!(instance.get("/stock/A").await.json()["quantity"], 4);

    stage.redis.command(&["DEL", SALE]).await.unwrap();
    until_open(&instance).await;
    assert_eq!(reserve(&instance, "A", "ann", 1, None).await.status, StatusCode::CREATED);
    until_closed(&instance).await;
    assert_conserved(&stage).await;
}

#[tokio::test]
async fn a_sale_is_counted_again_once_its_broken_key_and_its_counter_are_deleted() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    instance.put("A", 9).await;
    open(&instance, "A", 9, 2).await;
    assert_eq!(reserve(&instance, "A", "ann", 1, None).await.status, StatusCode::CREATED);
    until_stored(&stage, 1).await;
    stage.redis.command(&["SET", CUSTOMERS, "of somebody else"]).await.unwrap();
    assert_eq!(reserve(&instance, "A", "ann", 1, None).await.problem(), "lock-store-unavailable");
    until("the log names it", async || instance.log().contains("a flash sale stands still")).await;

    stage.redis.command(&["DEL", CUSTOMERS, SALE]).await.unwrap();
    until_open(&instance).await;
    assert_eq!(reserve(&instance, "A", "ann", 2, None).await.problem(), "limit-reached");
    assert_eq!(reserve(&instance, "A", "ann", 1, None).await.status, StatusCode::CREATED);
    until_stored(&stage, 2).await;
    until_closed(&instance).await;
    assert_conserved(&stage).await;
}

#[tokio::test]
async fn what_was_accepted_is_stored_although_redis_has_no_memory_and_buyers_go_on_asking() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    instance.put("A", 50).await;
    open(&instance, "A", 50, 50).await;
    let held = hold_sales(&stage).await;
    for _ in 0..5 {
        reserved(&instance, "ann", 1).await;
    }
    until("the consumer waits for the row", async || blocked(&stage).await == 1).await;
    stage.redis.command(&["CONFIG", "SET", "maxmemory", "1"]).await.unwrap();
    let ask = async || {
        let refused = reserve(&instance, "A", "bob", 1, None).await;
        assert_eq!((refused.problem().as_str(), &refused.json()["applied"]), ("lock-store-unavailable", &json!(false)));
    };
    // More than are needed to open the breaker.
    join_all((0..20).map(|_| ask())).await;
    assert_eq!(instance.log().matches("Redis refuses reservations").count(), 1, "{}", instance.log());
    held.rollback().await.unwrap();
    // Each buyer hears the answer to its last request, so that none is decided once there is memory again.
    let stored = Cell::new(false);
    let buyers = join_all((0..8).map(async |_| {
        while !stored.get() {
            ask().await;
        }
    }));
    join(buyers, async {
        until_stored(&stage, 5).await;
        stored.set(true);
    })
    .await;
    stage.redis.command(&["CONFIG", "SET", "maxmemory", "0"]).await.unwrap();
    assert_eq!(instance.get("/flash/A").await.json()["remaining"], 45, "a reservation that is refused takes nothing");
    until_closed(&instance).await;
    assert_conserved(&stage).await;
}

#[tokio::test]
async fn a_sale_that_has_filled_its_redis_is_closed_and_makes_room() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    instance.put("A", 50).await;
    open(&instance, "A", 50, 50).await;
    reserved(&instance, "ann", 1).await;
    until_stored(&stage, 1).await;
    // As many reservations would.
    let filler = "x".repeat(4_000_000);
    stage.redis.command(&["HSET", "inventory:flash:{A}:reservations", "others", &filler]).await.unwrap();
    let memory = stage.redis.command(&["INFO", "memory"]).await.unwrap();
    let used: u64 = memory.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap().parse().unwrap();
    stage.redis.command(&["CONFIG", "SET", "maxmemory", &(used - 2_000_000).to_string()]).await.unwrap();
    assert_eq!(reserve(&instance, "A", "bob", 1, None).await.problem(), "lock-store-unavailable");
    until_closed(&instance).await;
    assert_conserved(&stage).await;
}

#[tokio::test]
async fn sales_whose_rows_are_held_do_not_hold_up_another() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[("FLASH_DURABLE", "on")]).await;
    for sku in ["A", "B", "C", "D"] {
        instance.put(sku, 5).await;
        open(&instance, sku, 5, 5).await;
    }
    let mut held = stage.pool.begin().await.unwrap();
    sqlx::query("select from flash_sale where sku <> 'D' for update").execute(&mut *held).await.unwrap();
    let waiting = join_all(["A", "B", "C"].map(|sku| reserve(&instance, sku, "ann", 1, Some("key"))));
    let other = async {
        until("the consumers wait for the rows", async || blocked(&stage).await == 3).await;
        for _ in 0..5 {
            let stored = reserve(&instance, "D", "bob", 1, None).await;
            assert_eq!(stored.status, StatusCode::CREATED, "{stored:?}");
        }
        held.rollback().await.unwrap();
    };
    let (_, ()) = join(waiting, other).await;
    until_stored(&stage, 8).await;
}

#[tokio::test]
async fn an_entry_that_can_not_be_removed_is_counted_once_as_what_became_of_it() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    instance.put("A", 9).await;
    open(&instance, "A", 9, 9).await;
    let shows = async |series: &str| instance.metrics().await.lines().any(|line| line == series);
    let counts = async |outcome: &str, count: u32| {
        shows(&format!("inventory_flash_entries_total{{outcome=\"{outcome}\"}} {count}")).await
    };
    let removal = async |rule: &str| stage.redis.command(&["ACL", "SETUSER", "default", rule]).await.unwrap();
    let until_read_again = async || {
        let before = reads(&stage).await.0;
        until("it was read several times", async || reads(&stage).await.0 >= before + 4).await;
    };
    removal("-xack").await;
    reserved(&instance, "ann", 1).await;
    until("it is stored", async || counts("stored", 1).await).await;
    until_read_again().await;
    assert!(counts("stored", 1).await && counts("repeated", 0).await, "{}", instance.metrics().await);
    removal("+xack").await;
    until("it was there before", async || counts("repeated", 1).await).await;
    assert!(counts("stored", 1).await && shows("inventory_flash_lag_seconds_count 1").await);

    removal("-xack").await;
    stage.redis.command(&["XADD", STREAM, "*", "made", "by hand"]).await.unwrap();
    until("it is a dead letter", async || !counts("dead", 0).await).await;
    until_read_again().await;
    assert!(counts("dead", 1).await, "{}", instance.metrics().await);
    removal("+xack").await;
    until_stored(&stage, 1).await;
    assert!(counts("dead", 1).await);
}

#[tokio::test]
async fn the_metrics_say_how_many_reservations_wait_while_postgres_is_away() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    instance.put("A", 9).await;
    open(&instance, "A", 9, 9).await;
    let waiting = async |entries: u32| {
        let shown = format!("inventory_flash_stream_entries {entries}");
        until(&shown, async || instance.metrics().await.lines().any(|line| line == shown)).await;
    };
    reserved(&instance, "ann", 1).await;
    until_stored(&stage, 1).await;
    stage.postgres.kill().await.unwrap();
    for made in 1..=3 {
        reserved(&instance, "ann", 1).await;
        waiting(made).await;
    }
    let later = stage.serve(&[("DATABASE_ACQUIRE_TIMEOUT", "500ms")]).await;
    let later_shows = async |line: &str| later.metrics().await.contains(&format!("\n{line}\n"));
    until("it asked in vain", async || later.log().contains("the flash sales are not known")).await;
    assert!(later_shows("inventory_flash_known 0").await);
    assert!(!later.metrics().await.contains("\ninventory_flash_stream_entries "), "it does not know how many wait");
    stage.postgres.restart().await.unwrap();
    until("it knows", async || later_shows("inventory_flash_known 1").await).await;
    until("it shows that none wait", async || later_shows("inventory_flash_stream_entries 0").await).await;
    waiting(0).await;
    until_stored(&stage, 4).await;
}

#[tokio::test]
async fn a_reservation_whose_client_goes_away_is_counted() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[("REDIS_TIMEOUT", "5s"), ("LOCK_LEASE", "15s")]).await;
    instance.put("A", 9).await;
    open(&instance, "A", 9, 9).await;
    stage.redis.pause().unwrap();
    let body = json!({ "customer": "ann", "quantity": 1 });
    let asked = instance.request(Method::POST, "/flash/A/reservations").json(&body).timeout(Duration::from_millis(200));
    assert!(asked.send().await.is_err_and(|error| error.is_timeout()));
    let counted = "inventory_flash_reservations_total{outcome=\"cancelled\"} 1";
    until("it is counted", async || instance.metrics().await.lines().any(|line| line == counted)).await;
    stage.redis.resume().unwrap();
}

#[tokio::test]
async fn a_read_that_redis_does_not_answer_has_no_outcome_that_is_unknown() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    instance.put("A", 9).await;
    open(&instance, "A", 9, 9).await;
    stage.redis.pause().unwrap();
    let made = reserve(&instance, "A", "ann", 1, None);
    let sale = instance.get("/flash/A");
    let reservation = instance.get("/flash/A/reservations/1-9f86d081884c7d659a2feaa0c55ad015");
    let (made, sale, reservation) = tokio::join!(made, sale, reservation);
    until("the log names it", async || instance.log().contains("a flash sale stands still")).await;
    stage.redis.resume().unwrap();
    assert_eq!(made.problem(), "outcome-unknown", "Redis was asked: {made:?}");
    for read in [sale, reservation] {
        assert_eq!(read.problem(), "lock-store-unavailable", "{read:?}");
    }
    assert!(!instance.log().contains("no answer of a flash sale's counter"), "{}", instance.log());
}
