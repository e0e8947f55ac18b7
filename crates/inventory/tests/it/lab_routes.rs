//! `/lab`: the schemes of the lab over HTTP, and sales that overlap.

use futures_util::{StreamExt, stream::FuturesUnordered};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    openapi::Document,
    stage::{Answer, Instance, Stage, until},
    support::{blocked, lock_keys},
};

/// The lab, with time for tests that hold a row.
const LAB: [(&str, &str); 7] = [
    ("LAB", "on"),
    ("LOCK_WAIT", "20s"),
    ("DATABASE_ACQUIRE_TIMEOUT", "20s"),
    ("STATEMENT_TIMEOUT", "20s"),
    ("REQUEST_TIMEOUT", "65s"),
    ("LOCK_LEASE", "65s"),
    ("SHUTDOWN_GRACE", "70s"),
];

async fn begin(instance: &Instance, scheme: &str, units: i64) -> Answer {
    Answer::to(instance.request(Method::POST, &format!("/lab/{scheme}")).json(&json!({ "units": units }))).await
}

async fn sell(instance: &Instance, scheme: &str) -> Answer {
    Answer::to(instance.request(Method::POST, &format!("/lab/{scheme}/sales"))).await
}

/// Units, sold, left, lost and oversold.
async fn run(instance: &Instance, scheme: &str) -> [i64; 5] {
    let answer = instance.get(&format!("/lab/{scheme}")).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let shown = answer.json();
    ["units", "sold", "left", "lost", "oversold"].map(|name| shown[name].as_i64().unwrap())
}

/// Two sales out of ten units that are made to overlap. The first has read the stock and waits for the row, which the
/// test holds. Then Redis loses the lock of the first sale, and the second sale comes. Once both wait, the row is
/// released.
async fn overlap(stage: &Stage, instance: &Instance, scheme: &'static str) -> [Answer; 2] {
    assert_eq!(begin(instance, scheme, 10).await.status, 200);
    let mut row = stage.pool.begin().await.unwrap();
    let hold = format!("select from \"lab-{scheme}\".stock for update");
    sqlx::query(sqlx::AssertSqlSafe(hold)).execute(&mut *row).await.unwrap();
    let first = sell(instance, scheme);
    let second = async {
        until("the first writes", async || blocked(stage).await == 1).await;
        if scheme.starts_with("stockade") {
            let keys = lock_keys(stage).await;
            let lost = [&["DEL"], keys.iter().map(String::as_str).collect::<Vec<_>>().as_slice()].concat();
            assert_ne!(stage.redis.command(&lost).await.unwrap(), "0");
        }
        let end = async {
            until("both wait", async || blocked(stage).await == 2).await;
            row.rollback().await.unwrap();
        };
        tokio::join!(sell(instance, scheme), end).0
    };
    tokio::join!(first, second).into()
}

#[tokio::test]
async fn overlapping_sales_lose_an_update_without_a_lock_and_without_a_fence_and_none_with_the_fence() {
    let stage = Stage::start().await;
    let instance = stage.serve(&LAB).await;
    for scheme in ["no-lock", "stockade-unfenced"] {
        let answers = overlap(&stage, &instance, scheme).await;
        assert!(answers.iter().all(|answer| answer.status == 201), "{scheme}: {answers:?}");
        assert_eq!(run(&instance, scheme).await, [10, 2, 9, 1, 0], "{scheme}: two sold, one unit gone");
    }
    let answers = overlap(&stage, &instance, "stockade").await;
    let sold = i64::try_from(answers.iter().filter(|answer| answer.status == 201).count()).unwrap();
    assert!(answers[1].status == 201, "{answers:?}");
    assert_eq!(run(&instance, "stockade").await, [10, sold, 10 - sold, 0, 0], "{answers:?}");
    assert_eq!(stage.count("select count(*) from stock").await, 0, "the stock of the service is not the lab's");
}

#[tokio::test]
async fn a_sale_in_the_table_stands_under_every_lock_that_cannot_be_given_back() {
    let stage = Stage::start().await;
    let instance = stage.serve(&LAB).await;
    for scheme in ["setnx-del", "setnx-getset", "set-nx-px", "stockade-unfenced", "stockade"] {
        assert_eq!(begin(&instance, scheme, 10).await.status, 200);
        let mut row = stage.pool.begin().await.unwrap();
        let hold = format!("select from \"lab-{scheme}\".stock for update");
        sqlx::query(sqlx::AssertSqlSafe(hold)).execute(&mut *row).await.unwrap();
        let redis_ends = async {
            until("it writes", async || blocked(&stage).await == 1).await;
            stage.redis.kill().await.unwrap();
            row.rollback().await.unwrap();
        };
        let (sold, ()) = tokio::join!(sell(&instance, scheme), redis_ends);
        assert_eq!(sold.status, 201, "{scheme}: {sold:?}");
        assert_eq!(run(&instance, scheme).await, [10, 1, 9, 0, 0], "{scheme}");
        stage.redis.restart().await.unwrap();
        until("Redis is heard of", async || instance.get("/readyz").await.text.contains("\"lock_store\":\"ok\"")).await;
    }
}

#[tokio::test]
async fn every_scheme_sells_its_units_once_and_a_new_run_forgets_the_old_one() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[("LAB", "on")]).await;
    let list = instance.get("/lab").await.json();
    let schemes: Vec<_> = list["schemes"].as_array().unwrap().iter().map(|line| line["scheme"].clone()).collect();
    assert_eq!(schemes.len(), 11, "{list}");
    for scheme in schemes.iter().map(|scheme| scheme.as_str().unwrap()) {
        let unset = sell(&instance, scheme).await;
        assert_eq!((unset.status.as_u16(), unset.problem().as_str()), (404, "not-found"), "{scheme}: {unset:?}");
        assert_eq!(instance.get(&format!("/lab/{scheme}")).await.problem(), "not-found", "{scheme}");
        for _ in 0..2 {
            assert_eq!(begin(&instance, scheme, 2).await.json()["left"], 2, "{scheme}");
            assert_eq!(run(&instance, scheme).await, [2, 0, 2, 0, 0], "{scheme}");
            let answers = [(); 3].map(|()| sell(&instance, scheme));
            let [first, second, third] = answers;
            let statuses = [first.await, second.await, third.await].map(|answer| answer.status.as_u16());
            assert_eq!(statuses, [201, 201, 409], "{scheme}");
            assert_eq!(run(&instance, scheme).await, [2, 2, 0, 0, 0], "{scheme}");
        }
    }
    let metrics = instance.metrics().await;
    let counted =
        |status| format!("http_requests_total{{method=\"POST\",route=\"/lab/{{scheme}}/sales\",status=\"{status}\"}}");
    assert!(metrics.contains(&counted(201)) && metrics.contains(&counted(409)), "{metrics}");
}

#[tokio::test]
async fn bad_requests_are_refused_as_the_document_says_and_a_run_is_not_replaced_under_a_sale() {
    let stage = Stage::start().await;
    let instance = stage.serve(&LAB).await;
    let document = Document::of(&instance).await;
    let refused = async |method: Method, path: &str, body: Value, status: u16, problem: &str, detail: &str| {
        let answer = Answer::to(instance.request(method.clone(), path).json(&body)).await;
        assert_eq!((answer.status.as_u16(), answer.problem().as_str()), (status, problem), "{path}: {answer:?}");
        assert!(answer.text.contains(detail), "{path}: {answer:?}");
        document.assert_names(method.as_str(), path, status, problem);
    };
    for path in ["/lab/hope", "/lab/hope/sales"] {
        refused(Method::POST, path, json!({ "units": 1 }), 404, "unknown-scheme", "no-lock, setnx-del").await;
    }
    refused(Method::GET, "/lab/hope", json!({}), 404, "unknown-scheme", "optimistic").await;
    for (scheme, remedy) in [("redlock", "five servers"), ("stopped", "inventory lab --only"), ("flash", "PUT /flash/")]
    {
        for path in [format!("/lab/{scheme}"), format!("/lab/{scheme}/sales")] {
            refused(Method::POST, &path, json!({ "units": 1 }), 404, "unknown-scheme", remedy).await;
        }
    }
    for units in [json!(0), json!(-1), json!(1_000_000_001), json!("7"), json!(1.5), Value::Null] {
        let bounds = "an integer from 1 to 1000000000";
        refused(Method::POST, "/lab/no-lock", json!({ "units": units }), 422, "unprocessable", bounds).await;
    }
    refused(Method::POST, "/lab/no-lock", json!({}), 422, "unprocessable", "units").await;
    refused(Method::POST, "/lab/no-lock", json!({ "units": 1, "more": 1 }), 422, "unprocessable", "more").await;
    refused(Method::GET, "/lab/no-lock", json!({}), 404, "not-found", "POST /lab/").await;

    assert_eq!(begin(&instance, "for-update", 5).await.status, 200);
    let mut row = stage.pool.begin().await.unwrap();
    sqlx::query("select from \"lab-for-update\".stock for update").execute(&mut *row).await.unwrap();
    let replacing = async {
        until("a sale waits for the row", async || blocked(&stage).await == 1).await;
        refused(Method::POST, "/lab/for-update", json!({ "units": 9 }), 423, "lock-timeout", "").await;
        row.rollback().await.unwrap();
    };
    let (sale, ()) = tokio::join!(sell(&instance, "for-update"), replacing);
    assert_eq!(sale.status, 201, "{sale:?}");
    assert_eq!(run(&instance, "for-update").await, [5, 1, 4, 0, 0]);
}

#[tokio::test]
async fn a_sale_goes_on_when_its_client_is_gone_and_more_than_64_at_once_are_refused() {
    let stage = Stage::start().await;
    let instance = stage.serve(&LAB).await;
    assert_eq!(begin(&instance, "conditional-update", 200).await.status, 200);
    let mut row = stage.pool.begin().await.unwrap();
    sqlx::query("select from \"lab-conditional-update\".stock for update").execute(&mut *row).await.unwrap();
    let mut sales: FuturesUnordered<_> = (0..65).map(|_| sell(&instance, "conditional-update")).collect();
    let refused = sales.next().await.unwrap();
    assert_eq!((refused.status.as_u16(), refused.problem().as_str()), (503, "load-shed"), "{refused:?}");
    until("every connection has a write", async || blocked(&stage).await == 8).await;
    drop(sales);
    let in_flight = "http_requests_in_flight{route=\"/lab/{scheme}/sales\"} 0\n";
    until("the service knows that the clients are gone", async || instance.metrics().await.contains(in_flight)).await;
    row.rollback().await.unwrap();
    until("all are sold", async || run(&instance, "conditional-update").await == [200, 64, 136, 0, 0]).await;
}

#[tokio::test]
async fn without_the_lab_there_are_no_routes_and_nothing_in_the_database() {
    let stage = Stage::start().await;
    for settings in [&[][..], &[("LAB", "off")]] {
        let instance = stage.serve(settings).await;
        for (method, path) in
            [(Method::GET, "/lab"), (Method::GET, "/lab/no-lock"), (Method::POST, "/lab/no-lock/sales")]
        {
            let answer = Answer::to(instance.request(method, path)).await;
            assert_eq!((answer.status.as_u16(), answer.problem().as_str()), (404, "not-found"), "{path}: {answer:?}");
            assert!(answer.text.contains("no such route"), "{answer:?}");
        }
        assert!(!instance.get("/openapi.json").await.text.contains("/lab"));
    }
    // An instance with the lab on creates nothing before a client sets units.
    drop(stage.serve(&[("LAB", "on")]).await);
    assert_eq!(stage.count("select count(*) from pg_namespace where nspname like 'lab%'").await, 0);
}
