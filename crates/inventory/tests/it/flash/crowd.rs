//! A crowd of buyers that comes when nothing is to be had: after the end of a sale, or while its counter is away.

use futures_util::future::{join, join_all};
use reqwest::StatusCode;

use super::{assert_conserved, close, hold_sales, open, reserve, until_closed, until_open, until_stored};
use crate::{
    stage::{Answer, Instance, Stage, until},
    support::blocked,
};

/// Tells the log of each statement.
const STATEMENTS: (&str, &str) = ("RUST_LOG", "info,sqlx::query=debug");

async fn crowd(instance: &Instance, sku: &str) -> Vec<Answer> {
    join_all((0..50).map(async |_| reserve(instance, sku, "ann", 1, None).await)).await
}

/// How often an instance has asked Postgres for the newest sale of a SKU.
fn asked(instance: &Instance) -> usize {
    instance.log().matches("order by id desc limit 1").count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn buyers_without_keys_are_refused_without_a_statement() {
    let stage = Stage::start().await;
    let first = stage.serve(&[STATEMENTS]).await;
    for sku in ["A", "B", "C"] {
        first.put(sku, 5).await;
        open(&first, sku, 5, 5).await;
    }
    // By the clock of Redis the first sale is over. By that of the instance it has centuries left.
    stage.redis.command(&["HSET", "inventory:flash:{A}:sale", "ends_ms", "1"]).await.unwrap();
    until("it is closed", async || close(&first, "B").await.json()["state"] == "closed").await;
    // This counter can't be used, and is not made again on this Redis.
    stage.redis.command(&["HSET", "inventory:flash:{C}:sale", "generation", "0"]).await.unwrap();
    until("it stands still", async || first.log().contains("is it an old primary?")).await;

    // The second instance never knew of the sale that is closed.
    let second = stage.serve(&[STATEMENTS]).await;
    until("it knows the others", async || second.log().contains("is it an old primary?")).await;
    let before = asked(&second);
    for (sku, problem) in [("A", "sale-closed"), ("B", "sale-closed"), ("C", "load-shed")] {
        let refused = crowd(&second, sku).await;
        assert!(refused.iter().all(|answer| answer.problem() == problem), "{sku}: {refused:?}");
        assert_eq!(asked(&second), before, "{sku}");
    }
    assert_eq!(reserve(&second, "B", "ann", 1, Some("key")).await.problem(), "sale-closed");
    assert_eq!(asked(&second), before + 1, "the statement for a request that may be a repetition is in the log");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_who_repeat_their_requests_after_the_end_leave_connections_for_writes() {
    let stage = Stage::start().await;
    let settings = [
        ("DATABASE_MAX_CONNECTIONS", "8"),
        ("STATEMENT_TIMEOUT", "12s"),
        ("LOCK_WAIT", "10s"),
        ("REQUEST_TIMEOUT", "25s"),
        ("LOCK_LEASE", "25s"),
        ("SHUTDOWN_GRACE", "30s"),
    ];
    let instance = stage.serve(&settings).await;
    instance.put("A", 5).await;
    open(&instance, "A", 5, 5).await;
    until_closed(&instance).await;
    let mut held = stage.pool.begin().await.unwrap();
    sqlx::query("lock table flash_sale in access exclusive mode").execute(&mut *held).await.unwrap();
    until("the keeper waits", async || blocked(&stage).await == 1).await;
    // From now on the instance remembers that the sale is closed, and each request runs one script.
    assert_eq!(reserve(&instance, "A", "ann", 1, None).await.problem(), "sale-closed");
    let before = scripts(&stage).await;
    let repeated = join_all((0..30).map(async |number| {
        let key = format!("key-{number}");
        reserve(&instance, "A", "ann", 1, Some(&key)).await
    }));
    let others = async {
        until("all have asked Redis", async || scripts(&stage).await >= before + 30).await;
        until("some wait for Postgres", async || blocked(&stage).await >= 5).await;
        let written = instance.put("B", 1).await;
        let waiting = blocked(&stage).await;
        held.rollback().await.unwrap();
        assert_eq!((written.status, waiting), (StatusCode::CREATED, 5), "the keeper and four requests: {written:?}");
    };
    let (repeated, ()) = join(repeated, others).await;
    assert!(repeated.iter().all(|answer| answer.problem() == "sale-closed"), "{repeated:?}");
    assert_conserved(&stage).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_who_repeat_their_requests_during_a_sale_leave_connections_for_writes() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[("DATABASE_MAX_CONNECTIONS", "8"), ("STATEMENT_TIMEOUT", "6s")]).await;
    instance.put("A", 30).await;
    open(&instance, "A", 30, 30).await;
    let all = async || {
        join_all((0..30).map(async |number| {
            let key = format!("key-{number}");
            reserve(&instance, "A", "ann", 1, Some(&key)).await
        }))
        .await
    };
    all().await;
    until_stored(&stage, 30).await;
    let mut held = stage.pool.begin().await.unwrap();
    sqlx::query("lock table flash_reservation in access exclusive mode").execute(&mut *held).await.unwrap();
    let before = scripts(&stage).await;
    let others = async {
        until("all have asked Redis", async || scripts(&stage).await >= before + 30).await;
        until("some wait for Postgres", async || blocked(&stage).await >= 4).await;
        let written = instance.put("B", 1).await;
        let waiting = blocked(&stage).await;
        held.rollback().await.unwrap();
        assert_eq!((written.status, waiting), (StatusCode::CREATED, 4), "{written:?}");
    };
    let (repeated, ()) = join(all(), others).await;
    assert!(repeated.iter().all(|answer| answer.status == StatusCode::CREATED), "{repeated:?}");
}

/// How many scripts Redis has run.
async fn scripts(stage: &Stage) -> u64 {
    stage.redis.calls_of("evalsha").await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sale_that_redis_has_closed_is_closed_although_postgres_still_shows_it_open() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[("STATEMENT_TIMEOUT", "6s")]).await;
    instance.put("A", 5).await;
    open(&instance, "A", 5, 5).await;
    let held = hold_sales(&stage).await;
    stage.redis.command(&["HSET", "inventory:flash:{A}:sale", "state", "closed"]).await.unwrap();
    for key in [None, Some("key")] {
        assert_eq!(reserve(&instance, "A", "ann", 1, key).await.problem(), "sale-closed", "{key:?}");
    }
    held.rollback().await.unwrap();
    until_closed(&instance).await;
    assert_conserved(&stage).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counters_that_are_made_again_leave_connections_for_writes() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[("DATABASE_MAX_CONNECTIONS", "8"), ("STATEMENT_TIMEOUT", "6s")]).await;
    let skus: Vec<_> = (0..12).map(|number| format!("sale-{number}")).collect();
    for sku in &skus {
        instance.put(sku, 5).await;
        open(&instance, sku, 5, 5).await;
    }
    let held = hold_sales(&stage).await;
    stage.redis.command(&["FLUSHALL"]).await.unwrap();
    until("some counters wait for their rows", async || blocked(&stage).await >= 4).await;
    let written = instance.put("B", 1).await;
    assert_eq!((written.status, blocked(&stage).await), (StatusCode::CREATED, 4), "{written:?}");
    held.rollback().await.unwrap();
    for sku in &skus {
        let is_open = async || reserve(&instance, sku, "ann", 1, None).await.status == StatusCode::CREATED;
        until("each is made", is_open).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sale_whose_counter_is_yet_to_be_made_is_not_closed_because_the_one_before_it_is() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[("STATEMENT_TIMEOUT", "6s")]).await;
    instance.put("A", 5).await;
    open(&instance, "A", 5, 5).await;
    let mut held = stage.pool.begin().await.unwrap();
    sqlx::query("lock table flash_sale in access exclusive mode").execute(&mut *held).await.unwrap();
    until("the keeper waits", async || blocked(&stage).await == 1).await;
    // As Redis is between the COMMIT that opens a sale and the first counter of that sale.
    stage.redis.command(&["HSET", "inventory:flash:{A}:sale", "id", "0", "state", "closed"]).await.unwrap();
    assert_eq!(reserve(&instance, "A", "ann", 1, None).await.problem(), "load-shed");
    held.rollback().await.unwrap();
    until_open(&instance).await;
    until_closed(&instance).await;
    assert_conserved(&stage).await;
}
