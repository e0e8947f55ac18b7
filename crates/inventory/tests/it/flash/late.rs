//! Scripts that arrive late: from an earlier sale, and from an instance that made a counter too slowly.

use std::time::Duration;

use reqwest::StatusCode;
use stockade_testbed::{Fault, Proxy};

use super::{assert_conserved, open, reserve, reserved, until_closed, until_open, until_stored};
use crate::{
    stage::Stage,
    support::{blocked, within},
};

pub(super) const KEYS: [&str; 4] = [
    "inventory:flash:{A}:sale",
    "inventory:flash:{A}:customers",
    "inventory:flash:{A}:reservations",
    "inventory:flash:{A}:stream",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_script_of_an_earlier_sale_leaves_a_later_one_alone() {
    let stage = Stage::start().await;
    let proxy = Proxy::start(stage.redis.addr()).await.unwrap();
    let near = stage.serve(&[]).await;
    let far = stage.serve(&[("LOCK_REDIS_URL", &proxy.url_for(&stage.redis.url()))]).await;
    near.put("A", 5).await;
    open(&near, "A", 5, 5).await;
    reserved(&far, "ann", 1).await;
    until_stored(&stage, 1).await;
    // This request is sent during the first sale and delivered during the second.
    proxy.set(Fault::Hole);
    let unknown = reserve(&far, "A", "late", 2, None).await;
    assert_eq!(unknown.problem(), "outcome-unknown");
    until_closed(&near).await;
    open(&near, "A", 4, 4).await;
    stage.redis.command(&["CONFIG", "SET", "slowlog-log-slower-than", "0", "slowlog-max-len", "100000"]).await.unwrap();
    proxy.set(Fault::None);
    within(Duration::from_secs(10), "it was delivered", async || {
        stage.redis.command(&["SLOWLOG", "GET", "-1"]).await.unwrap().lines().any(|line| line == "late")
    })
    .await;
    assert_eq!(near.get("/flash/A").await.json()["remaining"], 4);

    let before = counter(&stage).await;
    for script in [
        include_str!("../../../src/flash/lua/close.lua"),
        concat!(include_str!("../../../src/flash/lua/run.lua"), include_str!("../../../src/flash/lua/enter.lua")),
    ] {
        let command = [&["EVAL", script, "4"], &KEYS[..], &["1", "1", "nonce", ""]].concat();
        stage.redis.command(&command).await.unwrap();
        assert_eq!(counter(&stage).await, before, "{script}");
    }
    reserved(&near, "bob", 4).await;
    until_closed(&near).await;
    assert_eq!(stage.count("select sum(stored)::bigint from flash_sale").await, 5);
    assert_conserved(&stage).await;
}

/// The contents of the keys in Redis of the sale of `A`.
pub(super) async fn counter(stage: &Stage) -> Vec<String> {
    let mut all = Vec::new();
    for key in &KEYS[..3] {
        all.push(stage.redis.command(&["HGETALL", key]).await.unwrap());
    }
    all
}

/// The id of the second reservation sorts before that of the first. A counter is made in the order of ids, so an
/// instance that has read the first does not see the second any more.
const KEYS_OF_ANN: [&str; 2] = ["first", "second"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_that_makes_a_counter_too_slowly_changes_nothing() {
    let stage = Stage::start().await;
    let settings = [("STATEMENT_TIMEOUT", "6s"), ("DATABASE_MAX_CONNECTIONS", "1")];
    let (mut first, second) = tokio::join!(stage.serve(&settings[..1]), stage.serve(&settings));
    first.put("A", 20).await;
    open(&first, "A", 20, 5).await;
    assert_eq!(reserve(&first, "A", "ann", 3, Some(KEYS_OF_ANN[0])).await.status, StatusCode::CREATED);
    until_stored(&stage, 3).await;
    // The second instance makes a counter once, which prepares the statements on its one connection.
    first.freeze();
    stage.redis.restart().await.unwrap();
    until_open(&second).await;
    second.freeze();
    first.thaw();
    // Each instance begins a generation and waits for the locked table of stored reservations.
    let mut held = stage.pool.begin().await.unwrap();
    sqlx::query("lock table flash_reservation in access exclusive mode").execute(&mut *held).await.unwrap();
    stage.redis.restart().await.unwrap();
    within(Duration::from_secs(10), "the first makes it", async || blocked(&stage).await == 1).await;
    let age = ["HSET", KEYS[0], "since", "0"];
    second.thaw();
    within(Duration::from_secs(10), "the second makes it", async || {
        // As if the instance that makes the counter had taken two seconds.
        stage.redis.command(&age).await.unwrap();
        blocked(&stage).await == 2
    })
    .await;
    second.freeze();
    stage.redis.command(&age).await.unwrap();
    held.rollback().await.unwrap();

    // The first instance goes on with a counter that the second took over, and must not open that counter.
    until_open(&first).await;
    let second_of_ann = reserve(&first, "A", "ann", 2, Some(KEYS_OF_ANN[1])).await;
    assert_eq!(second_of_ann.status, StatusCode::CREATED, "{second_of_ann:?}");
    let id = second_of_ann.json()["id"].as_str().unwrap().to_owned();
    crate::stage::until("decided", async || state(&first, &id).await != "pending").await;
    assert_eq!(state(&first, &id).await, "stored");
    until_stored(&stage, 5).await;
    first.kill().await;
    // The second instance goes on with old rows, and must not replace the counter that is in use.
    second.thaw();
    reserved(&second, "bob", 1).await;
    until_stored(&stage, 6).await;
    let limit = reserve(&second, "A", "ann", 1, None).await;
    assert_eq!((limit.status, limit.problem().as_str()), (StatusCode::CONFLICT, "limit-reached"));
    until_closed(&second).await;
    assert_eq!(second.get("/stock/A").await.json()["quantity"], 14);
    assert_conserved(&stage).await;
}

async fn state(instance: &crate::stage::Instance, reservation: &str) -> String {
    let shown = instance.get(&format!("/flash/A/reservations/{reservation}")).await;
    shown.json()["state"].as_str().unwrap().to_owned()
}
