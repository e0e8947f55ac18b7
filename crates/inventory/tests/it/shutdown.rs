use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::join_all;
use reqwest::Method;

use crate::stage::{Answer, Stage, until};

#[tokio::test]
async fn a_shutdown_under_load_loses_no_acknowledged_write_and_leaves_no_lock() {
    let stage = Stage::start().await;
    let mut instance = stage.serve(&[("RUST_LOG", "warn")]).await;
    for sku in ["A", "B", "C"] {
        instance.put(sku, 1_000_000).await;
    }
    let acknowledged = AtomicU64::new(0);
    let refused = AtomicU64::new(0);
    {
        let write = async |n: usize| {
            let sku = ["A", "B", "C"][n % 3];
            // Send requests until the port is closed.
            while let Ok(response) = instance.adjustment(sku, -1).send().await {
                let answer = Answer::of(response).await;
                match answer.status.as_u16() {
                    200 => acknowledged.fetch_add(1, Ordering::Relaxed),
                    503 if answer.json()["applied"] == false => refused.fetch_add(1, Ordering::Relaxed),
                    _ => panic!("{answer:?}"),
                };
            }
        };
        let stop = async {
            until("the load runs", async || acknowledged.load(Ordering::Relaxed) > 100).await;
            instance.terminate();
        };
        tokio::join!(join_all((0..24).map(write)), stop);
    }
    let status = instance.ended().await;
    assert_eq!(status.code(), Some(0), "{}", instance.log());
    let applied = stage.count("select count(*) from movement where kind = 'adjustment'").await;
    assert_eq!(u64::try_from(applied).unwrap(), acknowledged.load(Ordering::Relaxed), "{refused:?} refused");
    assert_eq!(stage.count("select 3000000 - sum(quantity)::bigint from stock").await, applied);
    let keys = stage.redis.command(&["KEYS", "*"]).await.unwrap();
    let locks: Vec<_> =
        keys.lines().filter(|key| ["}l:", "}q:", "}w:", "}m:"].iter().any(|k| key.contains(k))).collect();
    assert!(locks.is_empty(), "{locks:?}");
}

#[tokio::test]
async fn while_it_drains_it_is_not_ready_and_a_second_signal_ends_it() {
    let stage = Stage::start().await;
    let mut instance = stage.serve(&[("STATEMENT_TIMEOUT", "5s"), ("LOCK_WAIT", "3s")]).await;
    instance.put("A", 10).await;
    let blocker = stage.hold_row().await;
    {
        let write = instance.adjustment("A", -1).send();
        let signals = async {
            stage.until_one_waits_for_a_row().await;
            instance.terminate();
            until("it is not ready", async || {
                let ready = Answer::to(instance.admin(Method::GET, "/readyz")).await;
                ready.status == 503 && ready.problem() == "shutting-down"
            })
            .await;
            instance.terminate();
        };
        let (written, ()) = tokio::join!(write, signals);
        assert!(written.is_err(), "{written:?}");
    }
    let status = instance.ended().await;
    assert_eq!(status.code(), Some(143), "{}", instance.log());
    blocker.rollback().await.unwrap();
    until("the write is rolled back", async || {
        stage.count("select count(*) from pg_stat_activity where state like 'idle in%'").await == 0
    })
    .await;
    assert_eq!(stage.count("select quantity from stock").await, 10);
}

#[tokio::test]
async fn a_write_that_has_begun_is_answered_after_the_signal() {
    let stage = Stage::start().await;
    let mut instance = stage.serve(&[]).await;
    instance.put("A", 10).await;
    let blocker = stage.hold_row().await;
    {
        let write = instance.adjust("A", -1);
        let stop = async {
            stage.until_one_waits_for_a_row().await;
            instance.terminate();
            until("the port is closed", async || instance.request(Method::GET, "/healthz").send().await.is_err()).await;
            blocker.rollback().await.unwrap();
        };
        let (written, ()) = tokio::join!(write, stop);
        assert_eq!(written.status, 200, "{written:?}");
    }
    assert_eq!(instance.ended().await.code(), Some(0));
    assert_eq!(stage.count("select quantity from stock").await, 9);
}
