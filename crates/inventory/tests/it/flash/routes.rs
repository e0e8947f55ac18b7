//! Good and bad input of each route, and the decisions of the script.

use std::collections::HashSet;

use futures_util::future::join_all;
use reqwest::{Method, StatusCode};
use serde_json::json;

use super::{assert_conserved, close, open, reserve, until_closed};
use crate::{
    stage::{Answer, Stage},
    support::fleet,
};

#[tokio::test]
async fn a_sale_takes_units_out_of_stock_and_gives_back_what_was_not_sold() {
    let stage = Stage::start().await;
    let instances = fleet(&stage, 2, &[]).await;
    instances[0].put("A", 10).await;
    let opened = open(&instances[0], "A", 8, 3).await;
    assert_eq!((opened.status, opened.header("location")), (StatusCode::CREATED, "/flash/A"), "{opened:?}");
    let said = opened.json();
    assert_eq!((&said["state"], &said["opened"], &said["remaining"]), (&json!("open"), &json!(8), &json!(8)), "{said}");
    assert_eq!(instances[1].get("/stock/A").await.json()["quantity"], 2);

    let made = reserve(&instances[1], "A", "ann", 3, None).await;
    assert_eq!(made.status, StatusCode::CREATED, "{made:?}");
    let place = made.header("location").to_owned();
    assert_eq!((&made.json()["state"], &made.json()["quantity"]), (&json!("pending"), &json!(3)));
    let limit = reserve(&instances[0], "A", "ann", 1, None).await;
    assert_eq!((limit.status, limit.problem().as_str()), (StatusCode::CONFLICT, "limit-reached"));
    let short = reserve(&instances[0], "A", "bob", 9, None).await;
    assert_eq!((short.status, short.problem().as_str()), (StatusCode::CONFLICT, "sold-out"));
    crate::stage::until("stored", async || instances[0].get(&place).await.json()["state"] == "stored").await;
    let elsewhere = place.replace("/A/", "/B/");
    assert_eq!(instances[0].get(&elsewhere).await.problem(), "not-found", "{elsewhere} is no reservation of B");

    until_closed(&instances[1]).await;
    let again = close(&instances[0], "A").await.json();
    assert_eq!((&again["state"], &again["stored"], &again["reserved"]), (&json!("closed"), &json!(3), &json!(3)));
    assert_eq!(instances[0].get("/stock/A").await.json()["quantity"], 7);
    let late = reserve(&instances[0], "A", "bob", 1, None).await;
    assert_eq!((late.status, late.problem().as_str()), (StatusCode::CONFLICT, "sale-closed"));
    assert_eq!(instances[0].get(&place).await.json()["state"], "stored");

    // The reservations of this sale do not count in the next one.
    assert_eq!(open(&instances[0], "A", 7, 3).await.status, StatusCode::CREATED);
    assert_eq!(reserve(&instances[1], "A", "ann", 3, None).await.status, StatusCode::CREATED);
    until_closed(&instances[0]).await;
    assert_eq!(instances[0].get("/stock/A").await.json()["quantity"], 4);
    assert_conserved(&stage).await;
}

#[tokio::test]
async fn a_reservation_that_is_answered_once_postgres_has_it_is_said_to_be_stored() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[("FLASH_DURABLE", "on")]).await;
    instance.put("A", 5).await;
    open(&instance, "A", 5, 5).await;
    let made = reserve(&instance, "A", "ann", 1, None).await;
    assert_eq!((made.status, &made.json()["state"]), (StatusCode::CREATED, &json!("stored")), "{made:?}");
    assert_eq!(instance.get(made.header("location")).await.json()["state"], "stored");
}

#[tokio::test]
async fn bad_input_is_refused_and_changes_nothing() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    instance.put("A", 5).await;
    assert_eq!(open(&instance, "none", 1, 1).await.problem(), "not-found");
    let short = open(&instance, "A", 6, 1).await;
    assert_eq!((short.problem().as_str(), &short.json()["available"]), ("insufficient-stock", &json!(5)));
    for body in [
        json!({ "quantity": 1, "per_customer": 1, "ends_at": "2001-01-01T00:00:00Z" }),
        json!({ "quantity": 0, "per_customer": 1, "ends_at": super::LATER }),
        json!({ "quantity": 1, "per_customer": 0, "ends_at": super::LATER }),
        json!({ "quantity": 1, "per_customer": 1, "ends_at": "tomorrow" }),
        json!({ "quantity": 1, "per_customer": 1, "ends_at": "9999-12-31T23:59:59-01:00" }),
        json!({ "quantity": 1, "per_customer": 1 }),
    ] {
        let answer = Answer::to(instance.request(Method::PUT, "/flash/A").json(&body)).await;
        assert_eq!(answer.problem(), "unprocessable", "{body}");
    }
    for path in ["/flash/A", "/flash/A/reservations/1-ab", "/flash/A/reservations/%20"] {
        assert_eq!(instance.get(path).await.problem(), "not-found", "{path}");
    }
    assert_eq!(close(&instance, "A").await.problem(), "not-found");
    assert_eq!(reserve(&instance, "A", "ann", 1, None).await.problem(), "not-found");
    assert_eq!(instance.get("/stock/A").await.json()["quantity"], 5);

    assert_eq!(open(&instance, "A", 2, 1).await.status, StatusCode::CREATED);
    let second = open(&instance, "A", 2, 1).await;
    assert_eq!((second.status, second.problem().as_str()), (StatusCode::CONFLICT, "sale-open"));
    for (customer, quantity) in [("", 1), ("a\u{7}", 1), ("ann", 0), ("ann", -1)] {
        assert_eq!(reserve(&instance, "A", customer, quantity, None).await.problem(), "unprocessable");
    }
    assert_eq!(instance.get("/flash/A").await.json()["reserved"], 0);
    assert_conserved(&stage).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn neither_the_limit_of_a_customer_nor_an_idempotency_key_can_be_raced() {
    let stage = Stage::start().await;
    let instances = fleet(&stage, 2, &[]).await;
    instances[0].put("A", 100).await;
    open(&instances[0], "A", 100, 5).await;
    let all = join_all((0..60).map(|number| reserve(&instances[number % 2], "A", "greedy", 1, None))).await;
    let (made, refused): (Vec<_>, Vec<_>) = all.into_iter().partition(|answer| answer.status == StatusCode::CREATED);
    let others: Vec<_> = refused.iter().filter(|answer| answer.problem() != "limit-reached").collect();
    assert!(made.len() == 5 && others.is_empty(), "{} made; {others:?}", made.len());

    let all = join_all((0..30).map(|number| reserve(&instances[number % 2], "A", "once", 2, Some("order-7")))).await;
    let ids: HashSet<String> = all.iter().map(|answer| answer.json()["id"].to_string()).collect();
    assert!(all.iter().all(|answer| answer.status == StatusCode::CREATED) && ids.len() == 1, "{all:?}");
    let replayed = all.iter().filter(|answer| answer.header("idempotent-replayed") == "true").count();
    assert_eq!(replayed, 29);
    // It was made, so no answer says that nothing was applied, whatever keeps Postgres from saying more.
    let mut busy = stage.pool.begin().await.unwrap();
    sqlx::query("lock table flash_reservation in access exclusive mode").execute(&mut *busy).await.unwrap();
    let unknown = reserve(&instances[0], "A", "once", 2, Some("order-7")).await;
    busy.rollback().await.unwrap();
    assert_eq!(unknown.problem(), "outcome-unknown", "{unknown:?}");
    let other = reserve(&instances[0], "A", "once", 1, Some("order-7")).await;
    assert_eq!(other.problem(), "idempotency-mismatch");
    until_closed(&instances[0]).await;
    // A request repeated after the end of the sale gets the same answer as before.
    let again = reserve(&instances[1], "A", "once", 2, Some("order-7")).await;
    assert_eq!((again.status, again.header("idempotent-replayed")), (StatusCode::CREATED, "true"), "{again:?}");
    assert_eq!(stage.count("select stored from flash_sale").await, 7);
    assert_eq!(stage.count("select count(*) from flash_reservation where stored").await, 6);
    assert_conserved(&stage).await;
}
