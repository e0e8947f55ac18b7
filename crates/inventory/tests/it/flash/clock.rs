//! A Redis whose clock is set back.

use std::time::Duration;

use stockade_testbed::{Fault, Proxy, RedisServer};

use super::{assert_conserved, hold_sales, open, reserved, until_closed, until_open, until_stored};
use crate::{
    stage::Stage,
    support::{blocked, within},
};

const HOUR: Duration = Duration::from_secs(3600);

const STREAM: &str = "inventory:flash:{A}:stream";

/// A test holds rows for as long as an instance takes to start.
const PATIENT: (&str, &str) = ("STATEMENT_TIMEOUT", "6s");

async fn stage_with_a_clock() -> Stage {
    let mut stage = Stage::start().await;
    stage.redis = RedisServer::builder().own_clock().start().await.unwrap();
    stage
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_counter_that_was_left_half_made_before_the_clock_was_set_back_is_made() {
    let stage = stage_with_a_clock().await;
    let mut first = stage.serve(&[PATIENT]).await;
    first.put("A", 5).await;
    open(&first, "A", 5, 5).await;
    reserved(&first, "ann", 3).await;
    until_stored(&stage, 3).await;
    // The instance begins a new counter and waits for the locked table of stored reservations.
    let mut held = stage.pool.begin().await.unwrap();
    sqlx::query("lock table flash_reservation in access exclusive mode").execute(&mut *held).await.unwrap();
    stage.redis.restart().await.unwrap();
    within(Duration::from_secs(10), "it makes the counter", async || blocked(&stage).await == 1).await;
    first.kill().await;
    stage.redis.step_clock_backwards(HOUR).unwrap();
    held.rollback().await.unwrap();

    let second = stage.serve(&[]).await;
    until_open(&second).await;
    reserved(&second, "bob", 2).await;
    until_stored(&stage, 5).await;
    until_closed(&second).await;
    assert_conserved(&stage).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_consumer_held_that_died_before_the_clock_was_set_back_is_stored() {
    let stage = stage_with_a_clock().await;
    let mut first = stage.serve(&[PATIENT]).await;
    first.put("A", 5).await;
    open(&first, "A", 5, 5).await;
    let held = hold_sales(&stage).await;
    reserved(&first, "ann", 3).await;
    within(Duration::from_secs(10), "it waits for the row", async || blocked(&stage).await == 1).await;
    first.kill().await;
    stage.redis.step_clock_backwards(HOUR).unwrap();
    held.rollback().await.unwrap();

    let second = stage.serve(&[]).await;
    until_stored(&stage, 3).await;
    until_closed(&second).await;
    assert_conserved(&stage).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_removal_spares_a_reservation_that_has_the_id_of_a_lost_one() {
    let stage = stage_with_a_clock().await;
    let proxy = Proxy::start(stage.redis.addr()).await.unwrap();
    let far = stage.serve(&[PATIENT, ("LOCK_REDIS_URL", &proxy.url_for(&stage.redis.url()))]).await;
    far.put("A", 10).await;
    open(&far, "A", 10, 10).await;
    // From now on the server knows the script that removes entries.
    reserved(&far, "ann", 1).await;
    until_stored(&stage, 1).await;
    // The next reservation is stored, and the command that removes its entry is held back.
    let held = hold_sales(&stage).await;
    reserved(&far, "bob", 2).await;
    within(Duration::from_secs(10), "it waits for the row", async || blocked(&stage).await == 1).await;
    let lost = entry(&stage).await;
    proxy.set(Fault::Hole);
    held.rollback().await.unwrap();
    within(Duration::from_secs(10), "it was sent", async || far.log().contains("a flash sale stands still")).await;
    assert_eq!(stage.count("select stored from flash_sale").await, 3);

    stage.redis.command(&["FLUSHALL"]).await.unwrap();
    stage.redis.step_clock_backwards(HOUR).unwrap();
    let mut near = stage.serve(&[PATIENT]).await;
    until_open(&near).await;
    // The stream's last id is just before that of the lost entry. Since the clock was set back, the server counts on
    // from there and gives the next entry the same id.
    let millis: u64 = lost.split_once('-').unwrap().0.parse().unwrap();
    stage.redis.command(&["XSETID", STREAM, &format!("{}-{}", millis - 1, u64::MAX)]).await.unwrap();
    let held = hold_sales(&stage).await;
    let id = reserved(&near, "cid", 3).await;
    assert_eq!(entry(&stage).await, lost, "the same id");
    within(Duration::from_secs(10), "it waits for the row", async || blocked(&stage).await == 1).await;
    stage.redis.command(&["CONFIG", "SET", "slowlog-log-slower-than", "0", "slowlog-max-len", "100000"]).await.unwrap();
    proxy.set(Fault::None);
    within(Duration::from_secs(10), "the removal was delivered", async || {
        stage.redis.command(&["SLOWLOG", "GET", "-1"]).await.unwrap().lines().any(|line| line == lost)
    })
    .await;
    near.kill().await;
    held.rollback().await.unwrap();

    until_stored(&stage, 6).await;
    assert_eq!(far.get(&format!("/flash/A/reservations/{id}")).await.json()["state"], "stored");
    until_closed(&far).await;
    assert_eq!(far.get("/stock/A").await.json()["quantity"], 4);
    assert_conserved(&stage).await;
}

/// The id of the one entry in the stream.
async fn entry(stage: &Stage) -> String {
    assert_eq!(stage.redis.command(&["XLEN", STREAM]).await.unwrap(), "1");
    stage.redis.command(&["XRANGE", STREAM, "-", "+"]).await.unwrap().lines().next().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_letter_is_kept_though_a_lost_stream_had_one_under_its_id() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    instance.put("A", 5).await;
    open(&instance, "A", 5, 5).await;
    for word in ["old", "new"] {
        until_open(&instance).await;
        // The fields also have bytes that are no text. An entry is removed only if its bytes are those that were read.
        let add = "return redis.call('XADD', KEYS[1], '9999999999999-7', ARGV[1], '\\255\\0')";
        stage.redis.command(&["EVAL", add, "1", STREAM, word]).await.unwrap();
        within(Duration::from_secs(10), "a dead letter", async || {
            let newest: Option<String> =
                sqlx::query_scalar("select fields from flash_dead_letter").fetch_optional(&stage.pool).await.unwrap();
            newest.is_some_and(|fields| fields.starts_with(word))
        })
        .await;
        until_removed(&stage).await;
        stage.redis.command(&["FLUSHALL"]).await.unwrap();
        within(Duration::from_secs(10), "another counter", async || {
            stage.redis.command(&["EXISTS", STREAM]).await.unwrap() == "1"
        })
        .await;
    }
    until_closed(&instance).await;
    assert_conserved(&stage).await;
}

async fn until_removed(stage: &Stage) {
    within(Duration::from_secs(10), "it was removed", async || {
        stage.redis.command(&["XLEN", STREAM]).await.unwrap() == "0"
    })
    .await;
}
