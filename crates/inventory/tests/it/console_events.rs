//! The log of what happens to locks.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Method;
use serde_json::{Value, json};

use crate::stage::{Answer, Instance, Stage, until};

async fn log(instance: &Instance, after: u64) -> Value {
    Answer::to(instance.admin(Method::GET, &format!("/admin/locks/events?after={after}"))).await.json()
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
    let refused = Answer::to(instance.admin(Method::GET, "/admin/locks/events?after=x")).await;
    assert_eq!(refused.problem(), "bad-request");
    let refused = Answer::to(instance.request_at(&instance.ops, Method::GET, "/admin/locks/events")).await;
    assert_eq!(refused.problem(), "unauthorized");
}
