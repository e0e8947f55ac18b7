use futures_util::future::join_all;
use reqwest::{Method, RequestBuilder};
use serde_json::json;

use crate::stage::{Answer, Instance, Stage};

fn keyed(instance: &Instance, sku: &str, key: &str, delta: i64) -> RequestBuilder {
    instance.adjustment(sku, delta).header("idempotency-key", key)
}

fn is_replay(answer: &Answer) -> bool {
    match answer.header("idempotent-replayed") {
        "" => false,
        value => value == "true",
    }
}

#[tokio::test]
async fn a_repeated_request_is_answered_again_and_done_once() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    instance.put("A", 10).await;
    let first = Answer::to(keyed(&instance, "A", "k", -3)).await;
    instance.adjust("A", 1).await;
    let second = Answer::to(keyed(&instance, "A", "k", -3)).await;
    assert!(!is_replay(&first) && is_replay(&second), "{first:?} {second:?}");
    assert_eq!((first.status, &first.text), (second.status, &second.text));
    assert_eq!(second.header("fencing-token"), "", "a replay was made under no lock of its own");
    assert_eq!(instance.get("/stock/A").await.json()["quantity"], 8);
    let metrics = instance.metrics().await;
    for line in [
        r#"inventory_movements_total{kind="adjustment",outcome="applied"} 2"#,
        r#"inventory_movements_total{kind="adjustment",outcome="replayed"} 1"#,
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
}

#[tokio::test]
async fn a_refusal_is_remembered_to_the_byte() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    instance.put("A", 2).await;
    let first = Answer::to(keyed(&instance, "A", "k", -3)).await;
    instance.put("A", 10).await;
    let second = Answer::to(keyed(&instance, "A", "k", -3)).await;
    assert_eq!((first.problem().as_str(), second.problem().as_str()), ("insufficient-stock", "insufficient-stock"));
    assert_eq!(first.text, second.text);
    assert_eq!((first.header("cache-control"), second.header("cache-control")), ("no-store", "no-store"));
    assert!(!is_replay(&first) && is_replay(&second));
    assert_eq!(instance.get("/stock/A").await.json()["quantity"], 10);
}

#[tokio::test]
async fn a_key_belongs_to_one_request() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    instance.put("A", 10).await;
    instance.put("B", 10).await;
    assert_eq!(Answer::to(keyed(&instance, "A", "k", -3)).await.status, 200);
    assert_eq!(Answer::to(keyed(&instance, "A", "k", -4)).await.problem(), "idempotency-mismatch");
    assert_eq!(Answer::to(keyed(&instance, "B", "k", -3)).await.problem(), "idempotency-mismatch");
    let spaced = instance.request(Method::POST, "/stock/A/adjustments").header("idempotency-key", "k");
    let spaced = spaced.header("content-type", "application/json").body(r#"{ "delta": -3 }"#);
    assert_eq!(Answer::to(spaced).await.problem(), "idempotency-mismatch", "the body counts to the byte");
    assert_eq!(stage.count("select sum(quantity)::bigint from stock").await, 17);
}

#[tokio::test]
async fn what_failed_is_not_remembered() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    assert_eq!(Answer::to(keyed(&instance, "A", "k", -3)).await.problem(), "not-found");
    assert_eq!(Answer::to(keyed(&instance, "A", "k", 0)).await.problem(), "unprocessable");
    instance.put("A", 10).await;
    assert_eq!(Answer::to(keyed(&instance, "A", "k", -3)).await.status, 200);
}

#[tokio::test]
async fn of_duplicates_at_the_same_time_one_is_done() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    instance.put("A", 100).await;
    let answers = join_all((0..20).map(|_| Answer::to(keyed(&instance, "A", "k", -3)))).await;
    assert!(answers.iter().all(|answer| answer.status == 200 && answer.text == answers[0].text), "{answers:?}");
    assert_eq!(answers.iter().filter(|answer| is_replay(answer)).count(), 19);
    assert_eq!(instance.get("/stock/A").await.json()["quantity"], 97);
    assert_eq!(stage.count("select count(*) from movement where kind = 'adjustment'").await, 1);
}

#[tokio::test]
async fn one_key_for_two_skus_at_the_same_time_moves_one_of_them() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    for round in 0..10 {
        instance.put("A", 100).await;
        instance.put("B", 100).await;
        let key = format!("k{round}");
        let (a, b) =
            tokio::join!(Answer::to(keyed(&instance, "A", &key, -3)), Answer::to(keyed(&instance, "B", &key, -3)));
        let statuses = [a.status.as_u16(), b.status.as_u16()];
        assert!(statuses == [200, 422] || statuses == [422, 200], "{a:?} {b:?}");
        assert_eq!(stage.count("select sum(quantity)::bigint from stock").await, 197);
    }
}

#[tokio::test]
async fn an_expired_answer_counts_as_none() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    instance.put("A", 10).await;
    Answer::to(keyed(&instance, "A", "k", -3)).await;
    let kept =
        "select count(*) from idempotency where expires_at between now() + interval '23 h' and now() + interval '24 h'";
    assert_eq!(stage.count(kept).await, 1, "24 hours by default");
    sqlx::query("update idempotency set expires_at = now() - interval '1 second'").execute(&stage.pool).await.unwrap();
    let body = json!({ "delta": -4 });
    let request = instance.request(Method::POST, "/stock/A/adjustments").header("idempotency-key", "k").json(&body);
    let again = Answer::to(request).await;
    assert_eq!((again.status.as_u16(), is_replay(&again)), (200, false), "{again:?}");
    assert_eq!(stage.count("select count(*) from idempotency where expires_at > now()").await, 1);
}
