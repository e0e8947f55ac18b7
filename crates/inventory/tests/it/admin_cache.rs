//! An administrator invalidates values and clears caches.

use reqwest::Method;
use serde_json::Value;
use stockade_testbed::RedisServer;

use crate::{
    stage::{Answer, Instance, Stage, until},
    support::fleet,
};

async fn void(instance: &Instance, path: &str) -> Answer {
    Answer::to(instance.admin(Method::DELETE, path)).await
}

/// The quantity of a read, and its source.
async fn read(instance: &Instance, sku: &str) -> (i64, String) {
    let answer = instance.get(&format!("/stock/{sku}")).await;
    (answer.json()["quantity"].as_i64().unwrap(), answer.header("cache-status").to_owned())
}

async fn until_in_memory(instance: &Instance, sku: &str) {
    until("it is in the memory", async || read(instance, sku).await.1.ends_with("detail=local")).await;
}

/// Changes stock without telling the service.
async fn behind_its_back(stage: &Stage, quantity: i64) {
    sqlx::query("update stock set quantity = $1").bind(quantity).execute(&stage.pool).await.unwrap();
}

/// Reads until the new value comes. The value must come from a load, and stay.
async fn loads_again(instance: &Instance, sku: &str, new: i64) {
    until("it is loaded again", async || {
        let (quantity, from) = read(instance, sku).await;
        assert!(quantity == new || from.contains("detail=local"), "Redis has the old value: {from}");
        quantity == new
    })
    .await;
    for _ in 0..20 {
        assert_eq!(read(instance, sku).await.0, new);
    }
}

async fn loads(instance: &Instance) -> Value {
    Answer::to(instance.admin(Method::GET, "/admin/cache")).await.json()["loads_ok"].clone()
}

#[tokio::test]
async fn what_an_administrator_voids_is_loaded_again_by_every_instance() {
    let stage = Stage::start().await;
    let [a, b] = <[_; 2]>::try_from(fleet(&stage, 2, &[]).await).ok().unwrap();
    for sku in ["one", "other"] {
        a.put(sku, 10).await;
        until_in_memory(&a, sku).await;
        until_in_memory(&b, sku).await;
    }

    behind_its_back(&stage, 5).await;
    let answer = void(&a, "/admin/cache/one").await;
    assert_eq!((answer.status.as_u16(), answer.text.as_str()), (204, ""), "{answer:?}");
    for instance in [&b, &a] {
        loads_again(instance, "one", 5).await;
        let (quantity, from) = read(instance, "other").await;
        assert!(quantity == 10 && from.contains("; hit"), "a key that was not named stays: {quantity} {from}");
    }

    for instance in [&a, &b] {
        until_in_memory(instance, "one").await;
    }
    behind_its_back(&stage, 7).await;
    let before = [loads(&a).await, loads(&b).await];
    assert_eq!(void(&a, "/admin/cache").await.status, 204);
    for sku in ["one", "other"] {
        loads_again(&b, sku, 7).await;
        loads_again(&a, sku, 7).await;
    }
    let since = |now: Value, before: &Value| now.as_i64().unwrap() - before.as_i64().unwrap();
    let [of_a, of_b] = [since(loads(&a).await, &before[0]), since(loads(&b).await, &before[1])];
    assert_eq!(of_a + of_b, 2, "one load of each SKU, for both instances");
    assert!(a.log().contains("an administrator cleared the cache"), "{}", a.log());
}

#[tokio::test]
async fn what_was_not_voided_is_a_503_that_says_so() {
    let stage = Stage::start().await;
    let cache = RedisServer::start().await.unwrap();
    let settings = [("CACHE_REDIS_URL", cache.url())];
    let settings = settings.each_ref().map(|(name, value)| (*name, value.as_str()));
    let [a, b] = <[_; 2]>::try_from(fleet(&stage, 2, &settings).await).ok().unwrap();
    a.put("one", 10).await;
    until_in_memory(&b, "one").await;
    behind_its_back(&stage, 5).await;

    cache.pause().unwrap();
    for path in ["/admin/cache", "/admin/cache/one"] {
        let refused = void(&a, path).await;
        assert_eq!((refused.status.as_u16(), refused.problem().as_str()), (503, "cache-store-unavailable"), "{path}");
        assert_eq!(refused.header("retry-after"), "1", "{refused:?}");
        let document = refused.json();
        assert!(document["applied"].is_null() && document["detail"].as_str().unwrap().contains("repeat"), "{document}");
    }
    cache.resume().unwrap();
    until("it is voided", async || void(&a, "/admin/cache").await.status == 204).await;
    loads_again(&b, "one", 5).await;
}

#[tokio::test]
async fn only_a_sku_is_voided_and_only_by_an_administrator() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    for path in ["/admin/cache", "/admin/cache/one"] {
        let request = instance.request_at(&instance.ops, Method::DELETE, path);
        assert_eq!(Answer::to(request).await.problem(), "unauthorized", "{path}");
        let request = instance.request(Method::DELETE, path);
        assert_eq!(Answer::to(request).await.problem(), "not-found", "{path} is not on the public port");
    }
    for segment in ["%20".to_owned(), "a%00".to_owned(), "x".repeat(65), "%ff".to_owned()] {
        let refused = void(&instance, &format!("/admin/cache/{segment}")).await;
        assert_eq!((refused.status.as_u16(), refused.problem().as_str()), (400, "bad-request"), "{segment}");
    }
    let unknown = void(&instance, "/admin/cache/BANK%20CHARGES").await;
    assert_eq!(unknown.status, 204, "an absence is voided, too: {unknown:?}");
    assert_eq!(void(&instance, "/admin/cache/a/b").await.problem(), "not-found");
    let put = Answer::to(instance.admin(Method::PUT, "/admin/cache/one")).await;
    assert_eq!(put.problem(), "method-not-allowed");
}
