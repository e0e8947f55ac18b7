//! A Postgres that failed over to a replica without its last commits. Its rows are set back as such a replica has them.

use std::time::Duration;

use reqwest::StatusCode;

use super::{assert_conserved, hold_sales, late, open, reserve, reserved, until_closed, until_open, until_stored};
use crate::{
    stage::{Stage, until},
    stock_db::execute,
    support::within,
};

const ENTER: &str =
    concat!(include_str!("../../../src/flash/lua/run.lua"), include_str!("../../../src/flash/lua/enter.lua"));

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reservation_that_was_rejected_with_a_lost_counter_is_stored_when_it_is_repeated() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    instance.put("A", 9).await;
    open(&instance, "A", 9, 9).await;
    let mut held = hold_sales(&stage).await;
    assert_eq!(reserve(&instance, "A", "ann", 1, Some("key")).await.status, StatusCode::CREATED);
    sqlx::query("update flash_sale set generation = generation - 1").execute(&mut *held).await.unwrap();
    held.commit().await.unwrap();
    let rejected = "select count(*) from flash_reservation where not stored";
    until("it is rejected", async || stage.count(rejected).await == 1).await;
    within(Duration::from_secs(20), "its repetition is stored", async || {
        reserve(&instance, "A", "ann", 1, Some("key")).await;
        stage.count("select stored from flash_sale").await == 1
    })
    .await;
    assert_eq!(stage.count(rejected).await, 0);
    until_closed(&instance).await;
    assert_eq!(instance.get("/stock/A").await.json()["quantity"], 8);
    assert_conserved(&stage).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_number_of_a_lost_counter_is_never_given_again() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    instance.put("A", 9).await;
    open(&instance, "A", 9, 9).await;
    reserved(&instance, "ann", 1).await;
    until_stored(&stage, 1).await;
    instance.freeze();
    let lost = stage.count("select generation from flash_sale").await;
    execute(&stage.pool, "update flash_sale set generation = generation - 1").await;
    // As an instance that finds the loss does.
    let (generation, number) = ((lost - 1).to_string(), lost.to_string());
    let enter = [&["EVAL", ENTER, "4"], &late::KEYS[..], &["1", &generation, "nonce", &number]].concat();
    stage.redis.command(&enter).await.unwrap();
    // That instance is dead, and another one makes the counter in its place.
    instance.thaw();
    until_open(&instance).await;
    assert!(stage.count("select generation from flash_sale").await > lost);

    let before = late::counter(&stage).await;
    stage.redis.command(&enter).await.unwrap();
    assert_eq!(late::counter(&stage).await, before, "another instance that found the loss comes late");
    reserved(&instance, "bob", 1).await;
    until_stored(&stage, 2).await;
    until_closed(&instance).await;
    assert_conserved(&stage).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sale_whose_end_postgres_has_lost_is_closed_again() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    // The second time Redis knows a later sale, and the third time one that is open.
    let opened = vec!["HSET", late::KEYS[0], "id", "9"];
    for (ended, quantity) in [(close("1"), 7), (close("3"), 5), (opened, 3)] {
        instance.put("A", quantity + 2).await;
        open(&instance, "A", 3, 3).await;
        reserved(&instance, "ann", 2).await;
        until("it is stored", async || stage.count(OPEN).await == 2).await;
        stage.redis.command(&ended).await.unwrap();
        until("it is closed", async || instance.get("/flash/A").await.json()["state"] == "closed").await;
        assert_eq!(instance.get("/stock/A").await.json()["quantity"], quantity);
        assert_eq!(reserve(&instance, "A", "bob", 1, None).await.problem(), "sale-closed");
        stage.redis.command(&["DEL", late::KEYS[0]]).await.unwrap();
    }
    assert_eq!(instance.log().matches("Postgres has lost the end of a sale").count(), 3, "{}", instance.log());
    assert_conserved(&stage).await;

    open(&instance, "A", 3, 3).await;
    execute(&stage.pool, "delete from flash_sale where closed_at is null").await;
    within(Duration::from_secs(20), "a sale that Postgres has lost is closed", async || {
        let answer = reserve(&instance, "A", "bob", 1, None).await;
        answer.status == StatusCode::CONFLICT && answer.problem() == "sale-closed"
    })
    .await;
}

/// As a server has it that never knew the counter of the later sale: others may hold what that one let in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_earlier_sale_has_left_vouches_for_no_later_one() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    instance.put("A", 9).await;
    let said = async || stage.redis.command(&["HMGET", late::KEYS[0], "run", "whole"]).await.unwrap();
    open(&instance, "A", 3, 3).await;
    until_closed(&instance).await;
    assert_eq!(said().await.trim(), "1", "Postgres has all of it");
    stage.redis.command(&close("2")).await.unwrap();
    assert_eq!(said().await.trim(), "");

    open(&instance, "A", 3, 3).await;
    stage.redis.command(&["XADD", late::KEYS[3], "*", "an", "entry"]).await.unwrap();
    stage.redis.command(&close("9")).await.unwrap();
    assert_eq!(said().await.trim(), "", "it is closed, with an entry left");
}

/// The script that closes the sale of this id.
fn close(sale: &'static str) -> Vec<&'static str> {
    const CLOSE: &str =
        concat!(include_str!("../../../src/flash/lua/run.lua"), include_str!("../../../src/flash/lua/close.lua"));
    [&["EVAL", CLOSE, "4"], &late::KEYS[..], &[sale]].concat()
}

/// The units that are stored for the sale that is open.
const OPEN: &str = "select coalesce(sum(stored), 0)::bigint from flash_sale where closed_at is null";
