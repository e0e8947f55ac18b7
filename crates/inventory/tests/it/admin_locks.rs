//! `/admin/locks` beside values that another program put into Redis.

use reqwest::Method;
use serde_json::json;

use crate::{
    stage::{Answer, Stage, until},
    support::lock_keys,
};

#[tokio::test]
async fn a_value_of_another_program_in_place_of_a_lock_is_listed_and_shown_and_force_overwrites_it() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    for sku in ["A", "B"] {
        instance.put(sku, 10).await;
    }
    let state = async || lock_keys(&stage).await.into_iter().find(|key| key.ends_with("}l:stock:A"));
    let held = stage.hold_row().await;
    let name = async {
        until("it is held", async || state().await.is_some()).await;
        let name = state().await.unwrap();
        held.rollback().await.unwrap();
        name
    };
    let (adjusted, name) = tokio::join!(instance.adjust("A", -1), name);
    assert_eq!(adjusted.status, 200, "{adjusted:?}");
    until("it is free", async || state().await.is_none()).await;
    stage.redis.command(&["SET", &name, "of somebody else"]).await.unwrap();

    let ask = async |method: Method, path: &str| Answer::to(instance.admin(method, path)).await;
    let mut row = stage.pool.begin().await.unwrap();
    sqlx::query("select from stock where sku = 'B' for update").execute(&mut *row).await.unwrap();
    let foreign = json!({ "resource": "stock:A", "holders": [], "waiters": [], "waiting": 0, "foreign": true });
    let look = async {
        until("the other is held", async || {
            let list = ask(Method::GET, "/admin/locks").await;
            list.status == 200 && list.json()["locks"].as_array().unwrap().len() == 2
        })
        .await;
        let list = ask(Method::GET, "/admin/locks").await.json();
        row.rollback().await.unwrap();
        list
    };
    let (_, list) = tokio::join!(instance.adjust("B", -1), look);
    assert_eq!(list["items"], json!(["stock:A", "stock:B"]));
    assert_eq!(list["locks"][0], foreign, "{list}");
    let other = &list["locks"][1];
    assert!(other["holders"].as_array().unwrap().len() == 1 && other["foreign"].is_null(), "{list}");
    assert_eq!(ask(Method::GET, "/admin/locks/stock:A").await.json(), foreign);
    assert_eq!(instance.adjust("A", -1).await.problem(), "internal", "nobody gets the lock");

    let forced = ask(Method::DELETE, "/admin/locks/stock:A").await;
    assert_eq!((forced.status.as_u16(), &forced.json()["holders"]), (200, &json!(0)), "{forced:?}");
    assert_eq!(instance.adjust("A", -1).await.status, 200);
    let free = ask(Method::GET, "/admin/locks/stock:A").await.json();
    assert!(free["holders"] == json!([]) && free["foreign"].is_null(), "{free}");
}
