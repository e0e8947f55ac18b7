//! The requests of the console's cache tab.

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    stage::{Answer, Instance, Stage, until},
    support::fleet,
};

async fn look(instance: &Instance, sku: &str) -> Value {
    Answer::to(instance.admin(Method::GET, &format!("/admin/cache/{sku}"))).await.json()
}

#[tokio::test]
async fn a_key_is_looked_up_while_it_is_loaded_kept_and_voided() {
    let stage = Stage::start().await;
    // With the filter, a SKU that never existed would not be loaded.
    let [a, b] = <[_; 2]>::try_from(fleet(&stage, 2, &[("SKU_FILTER", "off")]).await).ok().unwrap();
    let hostile = "%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E";
    assert_eq!(a.put(hostile, 10).await.status, 201);
    let nothing = look(&a, hostile).await;
    assert_eq!(nothing["sku"], "<img src=x onerror=alert(1)>");
    assert_eq!((&nothing["redis"], &nothing["fetching"]), (&json!({ "state": "empty" }), &json!(false)), "{nothing}");
    assert!(nothing["lease_ms"].is_null(), "{nothing}");

    // A load that goes on for as long as the table is locked.
    let mut table = stage.pool.begin().await.unwrap();
    sqlx::query("lock table stock in access exclusive mode").execute(&mut *table).await.unwrap();
    let path = format!("/stock/{hostile}");
    let read = a.get(&path);
    let watch = async {
        stage.until_one_waits_for_a_row().await;
        for (instance, is_here) in [(&a, true), (&b, false)] {
            let loading = look(instance, hostile).await;
            assert!(loading["lease_ms"].as_u64() > Some(0) && loading["fetching"] == is_here, "{loading}");
        }
        table.rollback().await.unwrap();
    };
    let (read, ()) = tokio::join!(read, watch);
    assert_eq!(read.status, 200, "{read:?}");
    let kept = |found: &Value, tier: &str| found[tier]["state"] == "kept";
    for instance in [&a, &b] {
        until("it is in the memory", async || {
            instance.get(&path).await;
            kept(&look(instance, hostile).await, "local")
        })
        .await;
        let found = look(instance, hostile).await;
        let redis = &found["redis"];
        assert_eq!((&redis["state"], &redis["absent"], &redis["tags"]), (&json!("kept"), &json!(false), &json!([])));
        assert!(redis["ttl_ms"].as_u64() > Some(0) && redis["stale_ms"].is_null(), "{found}");
        assert!(redis["age_ms"].as_u64() < Some(60_000) && redis["load_ms"].is_u64(), "{found}");
    }
    assert_eq!(a.get("/stock/none").await.status, 404);
    assert_eq!(look(&b, "none").await["redis"]["absent"], true);
    let voided = Answer::to(a.admin(Method::DELETE, &format!("/admin/cache/{hostile}"))).await;
    assert_eq!(voided.status, 204);
    assert!(!kept(&look(&b, hostile).await, "redis"));
    until("the other instance has heard of it", async || !kept(&look(&b, hostile).await, "local")).await;
    let refused = Answer::to(a.request_at(&a.ops, Method::GET, "/admin/cache/none")).await;
    assert_eq!(refused.problem(), "unauthorized");
}
