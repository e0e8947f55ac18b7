//! The event log of locks.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    console_fleet::announce,
    stage::{Answer, Instance, Stage, until},
};

/// The logs of all instances. The instance that answers comes first.
pub(crate) async fn logs(instance: &Instance, after: &str) -> Vec<Value> {
    let page = Answer::to(instance.admin(Method::GET, &format!("/admin/locks/events?after={after}"))).await.json();
    page["instances"].as_array().unwrap_or_else(|| panic!("{page}")).clone()
}

/// The instance's own events after the event with this number.
async fn log(instance: &Instance, after: u64) -> Value {
    let all = logs(instance, "").await;
    let id = all[0]["id"].as_str().unwrap();
    logs(instance, &format!("{id}:{after}")).await[0]["log"].clone()
}

fn kinds(log: &Value) -> Vec<&str> {
    log["events"].as_array().unwrap().iter().map(|event| event["what"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn grants_hand_overs_losses_and_forced_releases_are_logged_while_somebody_asks() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    let sku = "%3Cimg%20src%3Dx%3E";
    instance.put(sku, 10).await;
    let first = log(&instance, 0).await;
    assert_eq!((kinds(&first), &first["left_out"]), (vec![], &json!(0)), "nobody had asked: {first}");

    let mut rows = stage.pool.begin().await.unwrap();
    sqlx::query("select from stock for update").execute(&mut *rows).await.unwrap();
    let lock = utf8_percent_encode("stock:<img src=x>", NON_ALPHANUMERIC).to_string();
    let path = format!("/admin/locks/{lock}");
    let both = async { tokio::join!(instance.adjust(sku, -1), instance.adjust(sku, -1)) };
    let work = async {
        until("one holds and one waits", async || {
            let lock = Answer::to(instance.admin(Method::GET, &path)).await.json();
            lock["holders"].as_array().unwrap().len() == 1 && lock["waiting"] == 1
        })
        .await;
        rows.rollback().await.unwrap();
    };
    tokio::join!(both, work);
    let granted = log(&instance, 0).await;
    assert_eq!(kinds(&granted), ["granted", "handed_over"], "{granted}");
    let [before, after] = [0, 1].map(|place| granted["events"][place].clone());
    assert_eq!((&after["resource"], &after["mode"]), (&json!("stock:<img src=x>"), &json!("write")), "{granted}");
    assert!(after["token"].as_u64() > before["token"].as_u64() && after["waited_ms"].is_u64(), "{granted}");
    assert!(after["at_ms"].as_u64() >= first["since_ms"].as_u64(), "{granted}");

    let newest = granted["newest"].as_u64().unwrap();
    let mut rows = stage.pool.begin().await.unwrap();
    sqlx::query("select from stock for update").execute(&mut *rows).await.unwrap();
    let force = async {
        stage.until_one_waits_for_a_row().await;
        let forced = Answer::to(instance.admin(Method::DELETE, &path));
        let end = async {
            until("it is in the log", async || kinds(&log(&instance, newest).await).contains(&"forced")).await;
            rows.rollback().await.unwrap();
        };
        tokio::join!(forced, end).0
    };
    let (_, forced) = tokio::join!(instance.adjust(sku, -1), force);
    assert_eq!(forced.status, 200, "{forced:?}");
    until("the loss is in the log", async || kinds(&log(&instance, newest).await).contains(&"lost")).await;
    let seen = log(&instance, newest).await;
    let find = |what: &str| seen["events"].as_array().unwrap().iter().find(|event| event["what"] == what).unwrap();
    assert_eq!((&find("forced")["holders"], &find("forced")["resource"]), (&json!(1), &after["resource"]), "{seen}");
    assert_eq!(
        (&find("lost")["reason"], &find("lost")["token"]),
        (&json!("forced"), &find("granted")["token"]),
        "{seen}"
    );
    for bad in ["after=x", "after=x:y", "before=x:1"] {
        let refused = Answer::to(instance.admin(Method::GET, &format!("/admin/locks/events?{bad}"))).await;
        assert_eq!(refused.problem(), "bad-request", "{bad}");
    }
    let refused = Answer::to(instance.request_at(&instance.ops, Method::GET, "/admin/locks/events")).await;
    assert_eq!(refused.problem(), "unauthorized");
}

#[tokio::test]
async fn the_log_of_each_instance_is_shown_by_all_while_somebody_asks_and_nothing_else_is() {
    let stage = Stage::start().await;
    let [here, other] = [stage.serve(&[]).await, stage.serve(&[]).await];
    let written = async || stage.redis.command(&["KEYS", "inventory:{fleet}:log:*"]).await.unwrap();
    other.put("A", 10).await;
    assert_eq!(written().await, "", "nobody asks");

    let of_other = async |after: String| {
        let all = logs(&here, &after).await;
        all.into_iter().find(|one| one["address"] == other.ops.strip_prefix("http://").unwrap()).unwrap_or_default()
    };
    until("its log is there", async || of_other(String::new()).await["log"].is_object()).await;
    other.adjust("A", -1).await;
    let seen = async || of_other(String::new()).await;
    until("its grant is there", async || kinds(&seen().await["log"]) == ["granted"]).await;
    let first = seen().await;
    assert_eq!(first["log"]["events"][0]["resource"], "stock:A", "{first}");
    let known = format!("{}:{}", first["id"].as_str().unwrap(), first["log"]["newest"]);
    assert_eq!(kinds(&of_other(known).await["log"]), [""; 0], "it is known");

    // A program that can write to Redis can also write a log.
    let log = "{\"events\":[{\"what\":\"<script>\"}]}";
    stage.redis.command(&["SET", "inventory:{fleet}:log:00000000000000aa", log]).await.unwrap();
    announce(&stage, "00000000000000aa 127.0.0.1:9", 0).await;
    let planted = async || logs(&here, "").await.into_iter().find(|one| one["id"] == "00000000000000aa");
    until("it is listed", async || planted().await.is_some()).await;
    assert_eq!(planted().await.unwrap()["log"], Value::Null);
    // One log that can't be read takes no other away.
    let planted_log = "inventory:{fleet}:log:00000000000000aa";
    stage.redis.command(&["DEL", planted_log]).await.unwrap();
    stage.redis.command(&["RPUSH", planted_log, "a list"]).await.unwrap();
    until("the log beside a list is there", async || of_other(String::new()).await["log"].is_object()).await;
    assert_eq!(planted().await.unwrap()["log"], Value::Null);
    let no_text = "return redis.call('SET', KEYS[1], string.char(255, 254))";
    stage.redis.command(&["EVAL", no_text, "1", planted_log]).await.unwrap();
    until("the log beside bytes is there", async || of_other(String::new()).await["log"].is_object()).await;
    assert_eq!(planted().await.unwrap()["log"], Value::Null);

    stage.redis.kill().await.unwrap();
    until("without Redis its own is left", async || {
        let all = logs(&here, "").await;
        all[0]["log"].is_object() && all.iter().skip(1).all(|one| one["log"].is_null())
    })
    .await;
}
