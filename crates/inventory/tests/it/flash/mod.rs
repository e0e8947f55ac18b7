//! `/flash`: sales and reservations, also while servers and processes die.

mod broken;
mod clock;
mod closing;
mod crowd;
mod failover;
mod kills;
mod late;
mod lost;
mod routes;
mod runs;

use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::json;
use sqlx::{Postgres, Transaction};
use tokio::time::Instant;

use crate::{
    stage::{Answer, Instance, Stage},
    support::within,
};

const LATER: &str = "2999-01-01T00:00:00Z";
/// The limit for most waits. Only a failing test reaches it.
const LIMIT: Duration = Duration::from_secs(20);

pub(crate) async fn open(instance: &Instance, sku: &str, quantity: i64, per_customer: i64) -> Answer {
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

pub(crate) async fn close(instance: &Instance, sku: &str) -> Answer {
    Answer::to(instance.request(Method::DELETE, &format!("/flash/{sku}"))).await
}

/// Waits until the counter of `A` can be used.
pub(crate) async fn until_open(instance: &Instance) {
    within(LIMIT, "the counter was made", async || {
        let answer = instance.get("/flash/A").await;
        answer.status.is_success() && answer.json()["state"] == "open"
    })
    .await;
}

/// Closes the sale of `A`, and waits while reservations have yet to be stored.
pub(crate) async fn until_closed(instance: &Instance) {
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

/// Reserves units, and returns the id of the reservation.
pub(crate) async fn reserved(instance: &Instance, customer: &str, quantity: i64) -> String {
    let answer = reserve(instance, "A", customer, quantity, None).await;
    assert_eq!(answer.status, StatusCode::CREATED, "{answer:?}");
    answer.json()["id"].as_str().unwrap().to_owned()
}

/// The answer of an instance once it has a connection to a Redis that was killed or replaced.
async fn reserve_when_connected(instance: &Instance, customer: &str, quantity: i64) -> Answer {
    let began = Instant::now();
    loop {
        let answer = reserve(instance, "A", customer, quantity, None).await;
        let is_decided = answer.status == StatusCode::CREATED
            || !["lock-store-unavailable", "outcome-unknown"].contains(&answer.problem().as_str());
        if is_decided {
            return answer;
        }
        assert!(began.elapsed() < LIMIT, "{answer:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A transaction that holds the rows of all sales. Until it ends, nothing is stored and no counter is made.
async fn hold_sales(stage: &Stage) -> Transaction<'_, Postgres> {
    let mut held = stage.pool.begin().await.unwrap();
    sqlx::query("select from flash_sale for update").execute(&mut *held).await.unwrap();
    held
}

/// Waits until so many units are stored and nothing is left in the stream of `A`.
pub(crate) async fn until_stored(stage: &Stage, units: i64) {
    within(LIMIT, "stored", async || {
        stage.count("select sum(stored)::bigint from flash_sale").await == units
            && stage.redis.command(&["XLEN", "inventory:flash:{A}:stream"]).await.unwrap() == "0"
    })
    .await;
}
