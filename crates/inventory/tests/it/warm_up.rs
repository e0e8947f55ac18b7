//! The cache is loaded before an instance is ready.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    stage::{Answer, Instance, Stage, until},
    support::{figure, within},
};

/// A stage with rows `n0` to `n59`, in the order of their last changes.
async fn stocked() -> Stage {
    let stage = Stage::start().await;
    let insert = "with filled as (
            insert into stock (sku, quantity) select 'n' || number, 7 from generate_series(0, 59) number returning *
        )
        insert into movement (sku, kind, delta, quantity, version)
        select sku, 'seed', quantity, quantity, version from filled order by version";
    sqlx::query(insert).execute(&stage.pool).await.unwrap();
    stage
}

async fn warm_up(instance: &Instance) -> Value {
    Answer::to(instance.admin(Method::GET, "/admin/cache")).await.json()["warm_up"].clone()
}

#[tokio::test]
async fn an_instance_is_ready_when_its_cache_is_warm() {
    let stage = stocked().await;
    // Nobody can read the table until this ends.
    let mut locked = stage.pool.begin().await.unwrap();
    sqlx::query("lock table stock in access exclusive mode").execute(&mut *locked).await.unwrap();
    let settings = [("CACHE_WARM_KEYS", "50"), ("CACHE_WARM_LIMIT", "5min"), ("STATEMENT_TIMEOUT", "6s")];
    let instance = stage.serve(&settings).await;
    let early = instance.get("/readyz").await;
    assert_eq!((early.status.as_u16(), early.problem().as_str()), (503, "warming-up"), "{early:?}");
    assert_eq!(instance.get("/healthz").await.status, 200);
    locked.rollback().await.unwrap();
    until("it is ready", async || instance.get("/readyz").await.status == 200).await;
    let report = warm_up(&instance).await;
    assert_eq!((&report["state"], &report["loaded"], &report["skipped"]), (&json!("complete"), &json!(50), &json!(0)));
    let warm = instance.get("/stock/n59").await;
    assert!(warm.header("cache-status").contains("; hit"), "{warm:?}");
    let cold = instance.get("/stock/n9").await;
    assert!(cold.header("cache-status").contains("fwd=uri-miss"), "{cold:?}");
    // The next instance loads only the nine rows that are not in the cache yet.
    let other = stage.serve(&[]).await;
    until("it is ready", async || other.get("/readyz").await.status == 200).await;
    let report = warm_up(&other).await;
    assert_eq!((&report["loaded"], &report["present"]), (&json!(9), &json!(51)));
}

#[tokio::test]
async fn a_warm_up_that_takes_too_long_keeps_nobody_from_being_ready() {
    let stage = stocked().await;
    let mut locked = stage.pool.begin().await.unwrap();
    sqlx::query("lock table stock in access exclusive mode").execute(&mut *locked).await.unwrap();
    let instance = stage.serve(&[("CACHE_WARM_LIMIT", "300ms"), ("STATEMENT_TIMEOUT", "6s")]).await;
    until("its time is over", async || instance.get("/readyz").await.status == 200).await;
    assert_eq!(warm_up(&instance).await["state"], "time_up");
    locked.rollback().await.unwrap();
    let off = stage.serve(&[("CACHE_WARM_KEYS", "0")]).await;
    until("it is ready", async || off.get("/readyz").await.status == 200).await;
    assert_eq!(warm_up(&off).await["keys"], 0);
}

#[tokio::test]
async fn without_redis_nobody_waits_for_a_warm_up() {
    let stage = stocked().await;
    stage.redis.kill().await.unwrap();
    let instance = stage.serve(&[]).await;
    let ready = async || instance.get("/readyz").await.status == 200;
    let took = within(Duration::from_secs(3), "it is ready", ready).await;
    figure(&format!("without Redis ready {took:?} after it listens"));
    assert_eq!(instance.get("/stock/n1").await.status, 200);
    assert_eq!(warm_up(&instance).await["state"], "unavailable");
    assert!(instance.log().contains("its Redis is away"), "{}", instance.log());
}
