//! All instances on one page.

use serde_json::{Value, json};

use crate::{
    console::{Events, client},
    stage::Stage,
};

fn authority(url: &str) -> &str {
    url.strip_prefix("http://").unwrap()
}

/// The state of the instance at an address, by a page of the fleet.
fn at<'a>(page: &'a Value, address: &str) -> Option<&'a Value> {
    page["instances"].as_array().unwrap().iter().find(|instance| instance["address"] == address)
}

fn is(page: &Value, address: &str, state: &str) -> bool {
    at(page, address).is_some_and(|instance| {
        assert_eq!(instance["state"] == "live", instance["snapshot"].is_object(), "{page}");
        instance["state"] == state
    })
}

#[tokio::test]
async fn each_instance_shows_all_and_says_which_are_away() {
    let stage = Stage::start().await;
    let a = stage.serve(&[]).await;
    let mut b = stage.serve(&[]).await;
    let (client, of_a, of_b) = (client(), authority(&a.ops).to_owned(), authority(&b.ops).to_owned());
    let mut pages = [Events::at(&client, &a, "/console/fleet").await, Events::at(&client, &b, "/console/fleet").await];
    for (page, first) in pages.iter_mut().zip([&of_a, &of_b]) {
        let both = |page: &Value| [&of_a, &of_b].iter().all(|address| is(page, address, "live"));
        let page = page.until("both are live", both).await;
        assert_eq!((&page["instances"][0]["address"], page["instances"].as_array().unwrap().len()), (&json!(first), 2));
        for instance in page["instances"].as_array().unwrap() {
            assert_eq!(instance["id"], instance["snapshot"]["instance"], "{page}");
            assert!(instance["snapshot"]["metrics"]["http_requests_total"].is_object(), "{page}");
        }
    }
    let [mut page, _other] = pages;
    let _no_port = stage.serve(&[("OPS_ADVERTISE", "127.0.0.1:1")]).await;
    let _anywhere = stage.serve(&[("OPS_ADDR", "0.0.0.0:0")]).await;
    let announced = |page: &Value| {
        let is_anywhere = |instance: &Value| instance["state"] == "no_address" && instance["address"].is_null();
        is(page, "127.0.0.1:1", "silent") && page["instances"].as_array().unwrap().iter().any(is_anywhere)
    };
    page.until("all announced instances are listed", announced).await;

    b.kill().await;
    let away = page.until("it is away", |page| is(page, &of_b, "silent")).await;
    assert!(at(&away, &of_b).unwrap()["silent_ms"].is_u64(), "{away}");
    stage.redis.kill().await.unwrap();
    let alone = |page: &Value| {
        is(page, &of_a, "live") && page["instances"][0]["snapshot"]["ready"]["checks"]["lock_store"] == "down"
    };
    page.until("without Redis the page goes on", alone).await;
}

/// Announces an instance as of `ago_ms` ago. Any program that can write to Redis can announce instances.
pub(crate) async fn announce(stage: &Stage, member: &str, ago_ms: u64) {
    // Rounded down to milliseconds, as the service reads the clock: it removes announcements from the future.
    let script = "local t = redis.call('TIME') \
                  return redis.call('ZADD', KEYS[1], t[1] * 1000 + math.floor(t[2] / 1000) - ARGV[1], ARGV[2])";
    let ago = ago_ms.to_string();
    stage.redis.command(&["EVAL", script, "1", "inventory:{fleet}", &ago, member]).await.unwrap();
}

#[tokio::test]
async fn only_instances_that_announced_themselves_are_asked_and_only_snapshots_are_passed_on() {
    let stage = Stage::start().await;
    let [a, b] = [stage.serve(&[]).await, stage.serve(&[]).await];
    let mut page = Events::at(&client(), &a, "/console/fleet").await;
    page.until("both are live", |page| is(page, authority(&b.ops), "live")).await;
    let plant = async |member: &str, ago_ms: u64| announce(&stage, member, ago_ms).await;
    plant(&format!("00000000000000aa {}", b.authority()), 0).await;
    let other_id = authority(&b.ops).replace("127.0.0.1", "localhost");
    plant(&format!("00000000000000bb {other_id}"), 0).await;
    plant("00000000000000cc 127.0.0.1:9", 20_000).await;
    plant("00000000000000dd evil@127.0.0.1:9", 0).await;
    plant("<script> 127.0.0.1:9", 0).await;
    let not_utf8 = "return redis.call('ZADD', KEYS[1], redis.call('TIME')[1] * 1000, '\\255 127.0.0.1:9')";
    stage.redis.command(&["EVAL", not_utf8, "1", "inventory:{fleet}"]).await.unwrap();
    let seen = page
        .until("what was planted is listed", |page| {
            is(page, b.authority(), "stranger") && is(page, &other_id, "stranger") && is(page, "127.0.0.1:9", "gone")
        })
        .await;
    assert!(at(&seen, "127.0.0.1:9").unwrap()["silent_ms"].as_u64() >= Some(20_000), "{seen}");
    assert_eq!(seen["instances"].as_array().unwrap().len(), 5, "{seen}");
    assert!(is(&seen, authority(&b.ops), "live") && !seen.to_string().contains("evil"), "{seen}");
}
