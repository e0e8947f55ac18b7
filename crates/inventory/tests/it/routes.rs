use reqwest::Method;
use serde_json::{Value, json};

use crate::stage::{Answer, Instance, Stage, until};

async fn put_if(instance: &Instance, header: (&str, &str), quantity: i64) -> Answer {
    let request = instance.request(Method::PUT, "/stock/A").header(header.0, header.1);
    Answer::to(request.json(&json!({ "quantity": quantity }))).await
}

fn version(answer: &Answer) -> u64 {
    answer.json()["version"].as_u64().unwrap()
}

fn token(answer: &Answer) -> u64 {
    answer.header("fencing-token").parse().unwrap()
}

#[tokio::test]
async fn stock_is_created_set_adjusted_read_and_removed() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;

    let created = instance.put("A", 10).await;
    assert_eq!((created.status.as_u16(), created.header("location")), (201, "/stock/A"), "{created:?}");
    let shown = instance.get("/stock/A").await;
    assert_eq!(shown.status, 200, "{shown:?}");
    assert_eq!(shown.json(), created.json(), "PUT answers what GET answers");
    assert_eq!((created.header("content-location"), shown.header("content-location")), ("/stock/A", ""));
    assert_eq!(shown.json()["sku"], "A");
    assert!(shown.header("etag").starts_with(&format!("\"{}-", version(&created))), "{shown:?}");
    for header in ["etag", "cache-control"] {
        assert_eq!(shown.header(header), created.header(header));
    }
    assert_eq!(shown.header("cache-control"), "no-cache", "the stock is the same for everybody");
    assert!(shown.header("cache-status").starts_with("stockade;"), "{shown:?}");

    let set = instance.put("A", 12).await;
    for set in [&set, &instance.put("A", 12).await] {
        assert_eq!((set.status.as_u16(), set.header("location")), (200, ""), "{set:?}");
        assert_eq!(set.header("content-location"), "/stock/A", "{set:?}");
    }
    let adjusted = instance.adjust("A", -5).await;
    assert_eq!(adjusted.status, 200, "{adjusted:?}");
    let body = adjusted.json();
    assert_eq!((&body["sku"], &body["quantity"]), (&json!("A"), &json!(7)), "{body}");
    assert_eq!(body["fencing_token"], token(&adjusted));
    assert_eq!(instance.get("/stock/A").await.json()["quantity"], 7, "the write is seen at once");

    let refused = instance.adjust("A", -8).await;
    assert_eq!((refused.status.as_u16(), refused.problem().as_str()), (409, "insufficient-stock"), "{refused:?}");
    assert_eq!((&refused.json()["available"], &refused.json()["applied"]), (&json!(7), &json!(false)));
    assert_eq!((refused.header("cache-control"), adjusted.header("cache-control")), ("no-store", "no-store"));

    let removed = instance.delete("A").await;
    assert_eq!((removed.status.as_u16(), removed.text.as_str()), (204, ""), "{removed:?}");
    assert_eq!(instance.get("/stock/A").await.problem(), "not-found");
    let versions = [version(&created), version(&set), version(&adjusted)];
    assert!(versions.is_sorted_by(|a, b| a < b), "{versions:?}");
    let tokens = [token(&created), token(&set), token(&adjusted), token(&removed)];
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
}

#[tokio::test]
async fn every_change_is_in_the_ledger_and_the_sum_is_what_is_there() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    instance.put("A", 10).await;
    let body = json!({ "delta": -4, "reference": "536365/1" });
    Answer::to(instance.request(Method::POST, "/stock/A/adjustments").json(&body)).await;
    instance.delete("A").await;
    let again = instance.put("A", 3).await;
    instance.put("A", 3).await;
    instance.adjust("A", -9).await;

    let movements = instance.get("/stock/A/movements").await.json();
    let items = movements["items"].as_array().unwrap();
    let lines: Vec<_> =
        items.iter().map(|item| (item["kind"].as_str().unwrap(), item["delta"].as_i64().unwrap())).collect();
    assert_eq!(lines, [("set", 3), ("delete", -6), ("adjustment", -4), ("set", 10)], "newest first");
    assert_eq!(items[2]["reference"], "536365/1");
    assert_eq!(items[2]["quantity"], 6);
    assert_eq!(items[0]["fencing_token"], token(&again));
    assert_eq!(movements["next"], Value::Null);
    assert_eq!(stage.count("select sum(delta)::bigint from movement").await, 3);
    let versions = stage.count("select count(distinct version) from movement").await;
    assert_eq!(versions, 4, "a version never comes back, also after deletion");
}

#[tokio::test]
async fn setting_what_is_there_changes_nothing() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    let first = instance.put("A", 10).await;
    let before = stage.fingerprint().await;
    let second = instance.put("A", 10).await;
    assert_eq!((second.status.as_u16(), &second.text), (200, &first.text));
    assert_eq!(stage.fingerprint().await, before);
    assert_eq!(instance.put("EMPTY", 0).await.status, 201);
    assert_eq!(instance.get("/stock/EMPTY/movements").await.json()["items"], json!([]), "no step, no line");
}

#[tokio::test]
async fn preconditions_decide_which_write_happens() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    let created = put_if(&instance, ("if-none-match", "*"), 10).await;
    assert_eq!(created.status, 201);
    let tag = created.header("etag").to_owned();
    assert_eq!(put_if(&instance, ("if-none-match", "*"), 11).await.problem(), "precondition-failed");
    let set = put_if(&instance, ("if-match", &format!("\"0\", {tag}")), 11).await;
    assert_eq!(set.status, 200, "{set:?}");
    for other in [tag.clone(), format!("W/{}", set.header("etag")), format!("\"{}\"", version(&set))] {
        assert_eq!(put_if(&instance, ("if-match", &other), 12).await.problem(), "precondition-failed", "{other}");
    }
    let stale = Answer::to(instance.request(Method::DELETE, "/stock/A").header("if-match", &tag)).await;
    assert_eq!(stale.problem(), "precondition-failed");
    assert_eq!(instance.get("/stock/A").await.json()["quantity"], 11);

    instance.delete("A").await;
    assert_eq!(put_if(&instance, ("if-match", set.header("etag")), 12).await.problem(), "precondition-failed");
    let anew = instance.put("A", 11).await;
    assert_ne!(anew.header("etag"), set.header("etag"), "same quantity, another version");
}

#[tokio::test]
async fn the_tag_of_one_sku_is_none_of_another_also_at_the_same_version() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    let tag = instance.put("A", 10).await.header("etag").to_owned();
    instance.put("B", 10).await;
    sqlx::query("update stock set version = (select min(version) from stock)").execute(&stage.pool).await.unwrap();
    let other = Answer::to(instance.request(Method::GET, "/stock/B").header("if-none-match", &tag)).await;
    assert_eq!(other.status, 200, "{other:?}");
    assert_eq!(version(&other), version(&instance.get("/stock/A").await));
    let write = instance.request(Method::PUT, "/stock/B").header("if-match", &tag).json(&json!({ "quantity": 11 }));
    assert_eq!(Answer::to(write).await.problem(), "precondition-failed");
}

#[tokio::test]
async fn every_instance_gives_the_same_tag_also_after_a_restart() {
    let stage = Stage::start().await;
    let (mut first, second) = (stage.serve(&[]).await, stage.serve(&[]).await);
    let tag = first.put("A", 10).await.header("etag").to_owned();
    // The instance is not killed, since the release of its lock may still be on its way after the answer.
    first.terminate();
    first.ended().await;
    let third = stage.serve(&[]).await;
    for instance in [&second, &third] {
        let known = Answer::to(instance.request(Method::HEAD, "/stock/A").header("if-none-match", &tag)).await;
        assert_eq!((known.status.as_u16(), known.header("content-length")), (304, ""), "{known:?}");
    }
    let write = second.request(Method::PUT, "/stock/A").header("if-match", &tag).json(&json!({ "quantity": 11 }));
    assert_eq!(Answer::to(write).await.status, 200);
}

#[tokio::test]
async fn a_client_that_has_the_version_is_told_so() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    let tag = instance.put("A", 10).await.header("etag").to_owned();
    let get = |tag: String| Answer::to(instance.request(Method::GET, "/stock/A").header("if-none-match", tag));
    let same = get(format!("W/{tag}")).await;
    assert_eq!((same.status.as_u16(), same.text.as_str(), same.header("etag")), (304, "", tag.as_str()));
    let forcing = instance.request(Method::GET, "/stock/A").header("cache-control", "no-cache");
    let served = Answer::to(forcing).await;
    assert!(served.header("cache-status").starts_with("stockade; hit; ttl="), "nobody may force a load: {served:?}");
    instance.adjust("A", 1).await;
    assert_eq!(get(tag).await.status, 200);
}

#[tokio::test]
async fn lists_are_walked_page_by_page_in_code_point_order() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    let skus = ["Z", "a", "B", "10", "9", "caf\u{e9}", "m"];
    for sku in skus {
        assert_eq!(instance.put(sku, 1).await.status, 201);
    }
    let mut seen = Vec::new();
    let mut path = "/stock?limit=3".to_owned();
    loop {
        let page = instance.get(&path).await;
        assert_eq!(page.header("cache-control"), "no-store", "{page:?}");
        let page = page.json();
        seen.extend(page["items"].as_array().unwrap().iter().map(|item| item["sku"].as_str().unwrap().to_owned()));
        match page["next"].as_str() {
            Some(next) => path = format!("/stock?limit=3&after={next}"),
            None => break,
        }
    }
    let mut expected = skus;
    expected.sort_unstable();
    assert_eq!(seen, expected);

    for _ in 0..5 {
        instance.adjust("m", 1).await;
    }
    let first = instance.get("/stock/m/movements?limit=4").await.json();
    let next = first["next"].as_str().unwrap();
    let rest = instance.get(&format!("/stock/m/movements?limit=4&after={next}")).await.json();
    let deltas = |page: &Value| page["items"].as_array().unwrap().len();
    assert_eq!((deltas(&first), deltas(&rest), &rest["next"]), (4, 2, &Value::Null));
    instance.delete("m").await;
    let ledger = instance.get("/stock/m/movements").await;
    assert_eq!((ledger.status.as_u16(), ledger.header("cache-control")), (200, "no-store"), "it outlives the stock");
}

#[tokio::test]
async fn a_request_keeps_its_name_in_answer_and_log() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[("LOG_FORMAT", "json")]).await;
    let named = |id: &'static str| {
        let request = instance.request(Method::GET, "/stock/none").header("x-request-id", id);
        Answer::to(request.header("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"))
    };
    let answer = named("order-17").await;
    assert_eq!(answer.header("x-request-id"), "order-17");
    assert_eq!(answer.json()["request_id"], "order-17");
    let made = named("not a name").await;
    assert_eq!(made.header("x-request-id").len(), 32);
    assert_eq!(made.json()["request_id"], made.header("x-request-id"));
    let log = instance.log();
    let line = log.lines().find(|line| line.contains("order-17")).unwrap_or_else(|| panic!("{log}"));
    let line: Value = serde_json::from_str(line).unwrap();
    assert_eq!(line["span"]["trace_id"], "4bf92f3577b34da6a3ce929d0e0e4736", "{line}");
    assert!(!log.contains("not a name"), "{log}");
}

#[tokio::test]
async fn head_answers_what_get_answers_without_its_body() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    instance.put("A", 10).await;
    let (get, head) = (instance.get("/stock/A").await, Answer::to(instance.request(Method::HEAD, "/stock/A")).await);
    assert_eq!((head.status, head.text.as_str()), (get.status, ""));
    assert_eq!(head.header("etag"), get.header("etag"));
    assert_eq!(head.header("content-length"), get.header("content-length"));
    let absent = Answer::to(instance.request(Method::HEAD, "/stock/none")).await;
    assert_eq!((absent.status.as_u16(), absent.header("content-type")), (404, "application/problem+json"));
}

/// While nobody writes, a read sends no command for the lock or for the value.
#[tokio::test]
async fn what_is_read_often_comes_from_memory_and_holds_every_write() {
    let stage = Stage::start().await;
    let (reader, writer) = (stage.serve(&[]).await, stage.serve(&[]).await);
    for quantity in 0..20 {
        assert!(writer.put("A", quantity).await.status.is_success());
        let shown = reader.get("/stock/A").await;
        assert_eq!(shown.json()["quantity"], quantity, "{shown:?}");
        if quantity % 5 == 0 {
            until("it comes from memory", async || {
                let shown = reader.get("/stock/A").await;
                assert_eq!(shown.json()["quantity"], quantity, "{shown:?}");
                // A read that waited too long for its lock has no tag, and says so.
                let local = shown.header("cache-status").ends_with("; detail=local");
                assert!(!local || !shown.header("etag").is_empty(), "{shown:?}");
                local
            })
            .await;
        }
    }
}
