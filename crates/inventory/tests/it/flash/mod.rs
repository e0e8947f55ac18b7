//! `/flash`: sales, reservations, and what becomes of them when something dies.

mod kills;
mod lost;
mod routes;

use std::time::Duration;

use reqwest::Method;
use serde_json::json;

use crate::{
    stage::{Answer, Instance, Stage},
    support::within,
};

const LATER: &str = "2999-01-01T00:00:00Z";

async fn open(instance: &Instance, sku: &str, quantity: i64, per_customer: i64) -> Answer {
    let body = json!({ "quantity": quantity, "per_customer": per_customer, "ends_at": LATER });
    Answer::to(instance.request(Method::PUT, &format!("/flash/{sku}")).json(&body)).await
}

async fn reserve(instance: &Instance, sku: &str, customer: &str, quantity: i64, key: Option<&str>) -> Answer {
    Answer::to(reservation(instance, sku, customer, quantity, key)).await
}

fn reservation(
    instance: &Instance,
    sku: &str,
    customer: &str,
    quantity: i64,
    key: Option<&str>,
) -> reqwest::RequestBuilder {
    let body = json!({ "customer": customer, "quantity": quantity });
    let request = instance.request(Method::POST, &format!("/flash/{sku}/reservations")).json(&body);
    match key {
        Some(key) => request.header("idempotency-key", key),
        None => request,
    }
}

/// One unit of `A`, asked of the instance at `url` by the client of `instance`.
fn reservation_at(instance: &Instance, url: &str, customer: &str, key: &str) -> reqwest::RequestBuilder {
    let body = json!({ "customer": customer, "quantity": 1 });
    instance.request_at(url, Method::POST, "/flash/A/reservations").json(&body).header("idempotency-key", key)
}

async fn close(instance: &Instance, sku: &str) -> Answer {
    Answer::to(instance.request(Method::DELETE, &format!("/flash/{sku}"))).await
}

/// Waits until the counter of `A` can be used.
async fn until_open(instance: &Instance) {
    within(Duration::from_secs(20), "the counter was made", async || {
        let answer = instance.get("/flash/A").await;
        answer.status.is_success() && answer.json()["state"] == "open"
    })
    .await;
}

/// Closes the sale of `A`, whatever has to be stored first.
async fn until_closed(instance: &Instance) {
    within(Duration::from_secs(30), "the sale is closed", async || {
        let answer = close(instance, "A").await;
        answer.status.is_success() && answer.json()["state"] == "closed"
    })
    .await;
}

async fn assert_conserved(stage: &Stage) {
    let checked = inventory::conservation::check(&stage.pool, &[]).await.unwrap();
    assert!(checked.holds(), "{checked}");
}
