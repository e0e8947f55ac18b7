//! The end of a sale. Unsold units come back once, even if an instance dies or two instances close the sale.

use std::time::Duration;

use inventory::replay::Verdict;
use reqwest::StatusCode;
use serde_json::json;

use super::{close, open, reserve, reserved, until_closed, until_stored};
use crate::{
    stage::{Stage, until},
    stock_db::line,
    support::{assert_conserved, lock_keys, send, within},
};

/// The rows of a dead holder are free again after so long; a test holds rows for less.
const SETTINGS: [(&str, &str); 5] = [
    ("LOCK_LEASE", "2500ms"),
    ("REQUEST_TIMEOUT", "2500ms"),
    ("LOCK_WAIT", "500ms"),
    ("DATABASE_ACQUIRE_TIMEOUT", "500ms"),
    ("STATEMENT_TIMEOUT", "1s"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unsold_units_come_back_once_after_a_kill_in_the_middle_and_with_two_that_close() {
    let stage = Stage::start().await;
    let mut first = stage.serve(&SETTINGS).await;
    first.put("A", 10).await;
    open(&first, "A", 6, 6).await;
    reserved(&first, "ann", 2).await;
    until_stored(&stage, 2).await;
    // The keeper has closed the sale in its transaction and waits for the row of the stock.
    let held = stage.hold_row().await;
    let ((), _) = tokio::join!(stage.until_one_waits_for_a_row(), close(&first, "A"));
    first.kill().await;
    held.rollback().await.unwrap();
    assert_eq!(unclosed(&stage).await, 1, "the sale is to be closed, and is not");

    let (second, third) = tokio::join!(stage.serve(&SETTINGS), stage.serve(&SETTINGS));
    until_closed(&second).await;
    assert_eq!(third.get("/stock/A").await.json()["quantity"], 8);
    assert_conserved(&stage, &[]).await;

    // Two instances close the next sale: one has the lock and waits for the row, the other waits for the lock.
    open(&second, "A", 5, 5).await;
    let held = stage.hold_row().await;
    let both = async {
        stage.until_one_waits_for_a_row().await;
        within(Duration::from_secs(10), "the other waits for the lock", async || {
            lock_keys(&stage).await.iter().any(|key| key.contains("}q:"))
        })
        .await;
        held.rollback().await.unwrap();
    };
    let ((), _) = tokio::join!(both, close(&third, "A"));
    until_closed(&second).await;
    // The lock is fair, so the other instance has had its turn before this adjustment.
    let after = line(1, "A", -1);
    assert_eq!(send(&second, &after).await.json()["quantity"], 7);
    assert_eq!(stage.count("select count(*) from movement where kind = 'flash'").await, 4);
    assert_conserved(&stage, &[(after, Verdict::Applied)]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sale_that_can_not_be_closed_yet_does_not_hold_up_the_others() {
    let stage = Stage::start().await;
    // The end of `A` waits for its row for longer than `B` needs.
    let instance = stage.serve(&[("STATEMENT_TIMEOUT", "6500ms")]).await;
    for sku in ["A", "B"] {
        instance.put(sku, 10).await;
        open(&instance, sku, 6, 6).await;
    }
    reserved(&instance, "bob", 1).await;
    until_stored(&stage, 1).await;
    let held = stage.hold_row().await;
    let ((), closing) = tokio::join!(stage.until_one_waits_for_a_row(), close(&instance, "A"));
    assert_eq!((closing.status, &closing.json()["state"]), (StatusCode::OK, &json!("closing")), "{closing:?}");
    let waiting = "select coalesce(min(backend_start::text || xact_start), '')
        from pg_stat_activity where wait_event_type = 'Lock'";
    let before: String = sqlx::query_scalar(waiting).fetch_one(&stage.pool).await.unwrap();
    assert_eq!(reserve(&instance, "B", "ann", 1, None).await.status, StatusCode::CREATED);
    until("B is stored", async || stage.count("select sum(stored)::bigint from flash_sale").await == 2).await;
    let first = reserve(&instance, "A", "eve", 1, Some("a-key-of-its-own")).await;
    assert_eq!(first.problem(), "sale-closed", "Redis has lost nothing: {first:?}");
    let after: String = sqlx::query_scalar(waiting).fetch_one(&stage.pool).await.unwrap();
    assert_eq!(after, before, "B was stored only after an attempt to close A had ended");
    // Whatever becomes of the instance now, nothing of the sale stays in Redis for good.
    for (key, kept) in [("sale", 1..=86_400), ("customers", -2..=-2), ("reservations", -2..=-2), ("stream", -2..=-2)] {
        let ttl = stage.redis.command(&["TTL", &format!("inventory:flash:{{A}}:{key}")]).await.unwrap();
        assert!(kept.contains(&ttl.parse::<i64>().unwrap()), "{key}: {ttl}");
    }
    held.rollback().await.unwrap();
    until_closed(&instance).await;
    assert_conserved(&stage, &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sale_that_is_closing_is_said_to_be_although_postgres_is_gone_by_then() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    instance.put("A", 10).await;
    open(&instance, "A", 6, 6).await;
    let held = stage.hold_row().await;
    let kill = async {
        stage.until_one_waits_for_a_row().await;
        stage.postgres.kill().await.unwrap();
    };
    let ((), closing) = tokio::join!(kill, close(&instance, "A"));
    assert_eq!((closing.status, &closing.json()["state"]), (StatusCode::OK, &json!("closing")), "{closing:?}");
    drop(held);
    stage.postgres.restart().await.unwrap();
    until_closed(&instance).await;
    assert_conserved(&stage, &[]).await;
}

#[tokio::test]
async fn the_end_of_a_sale_that_is_sold_out_moves_nothing_and_counts_no_movement() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    instance.put("A", 6).await;
    open(&instance, "A", 6, 6).await;
    reserved(&instance, "ann", 6).await;
    until_closed(&instance).await;
    until("the keeper is done", async || instance.log().contains("a sale was closed")).await;
    let metrics = instance.metrics().await;
    let opened = r#"inventory_movements_total{kind="flash",outcome="applied"} 1"#;
    assert!(metrics.lines().any(|line| line == opened), "{metrics}");
    assert_eq!(stage.count("select count(*) from movement where kind = 'flash'").await, 1);
    assert_conserved(&stage, &[]).await;
}

/// How many sales are to be closed.
async fn unclosed(stage: &Stage) -> i64 {
    stage.count("select count(*) from flash_sale where closing and closed_at is null").await
}
