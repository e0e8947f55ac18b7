//! The log as an operator reads it.

use std::{cell::Cell, time::Duration};

use reqwest::{Method, header::IF_NONE_MATCH};
use serde_json::Value;

use crate::{
    stage::{Answer, Instance, Stage, bare_command, until},
    support::within,
};

/// The lines of an instance that logs JSON.
fn lines(instance: &Instance) -> Vec<Value> {
    instance.log().lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// The line of the answer to the request with this id, which is there before the answer.
fn answered(instance: &Instance, id: &str) -> Option<Value> {
    let is_it = |line: &Value| line["message"] == "answered" && line["span"]["request_id"] == id;
    lines(instance).into_iter().find(is_it)
}

async fn ask(instance: &Instance, method: Method, path: &str, id: &str, body: Option<&str>) -> Answer {
    let request = instance.request(method, path).header("x-request-id", id);
    let request = match body {
        Some(body) => request.header("content-type", "application/json").body(body.to_owned()),
        None => request,
    };
    Answer::to(request).await
}

#[tokio::test]
async fn a_refusal_has_its_reason_in_the_log_and_what_went_well_has_no_line() {
    let stage = Stage::start().await;
    // Without the filter, only a load can tell that a SKU is absent.
    let instance = stage.serve(&[("LOG_FORMAT", "json"), ("SKU_FILTER", "off")]).await;
    assert_eq!(ask(&instance, Method::PUT, "/stock/A", "put", Some(r#"{"quantity":1}"#)).await.status, 201);
    let read = ask(&instance, Method::GET, "/stock/A", "get", None).await;
    assert_eq!(read.status, 200);
    let request = instance.request(Method::GET, "/stock/A").header("x-request-id", "same");
    assert_eq!(Answer::to(request.header(IF_NONE_MATCH, read.header("etag"))).await.status, 304);
    let short = ask(&instance, Method::POST, "/stock/A/adjustments", "short", Some(r#"{"delta":-2}"#)).await;
    assert_eq!(short.status, 409);
    assert_eq!(ask(&instance, Method::GET, "/stock/none", "none", None).await.status, 404);
    assert_eq!(ask(&instance, Method::GET, "/nowhere", "nowhere", None).await.status, 404);

    for id in ["put", "get", "same"] {
        assert!(answered(&instance, id).is_none(), "{id}: {}", instance.log());
    }
    let line = answered(&instance, "short").expect("a line");
    assert_eq!((&line["status"], &line["problem"]), (&409.into(), &"insufficient-stock".into()), "{line}");
    assert!(line["lock_wait_ms"].is_u64() && line["level"] == "INFO", "{line}");
    let line = answered(&instance, "none").expect("a line");
    assert_eq!((&line["status"], &line["problem"]), (&404.into(), &"not-found".into()), "{line}");
    assert!(line["cache_status"].as_str().unwrap().starts_with("stockade; fwd=uri-miss"), "{line}");
    let line = answered(&instance, "nowhere").expect("a line");
    assert!(line["lock_wait_ms"].is_null() && line["cache_status"].is_null(), "{line}");
}

#[tokio::test]
async fn one_line_per_request_is_a_setting() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[("LOG_FORMAT", "json"), ("LOG_REQUESTS", "all")]).await;
    ask(&instance, Method::PUT, "/stock/A", "put", Some(r#"{"quantity":1}"#)).await;
    ask(&instance, Method::GET, "/stock/A", "get", None).await;
    let line = answered(&instance, "put").expect("a line");
    assert!(line["status"] == 201 && line["lock_wait_ms"].is_u64() && line["problem"].is_null(), "{line}");
    let line = answered(&instance, "get").expect("a line");
    assert!(line["status"] == 200 && line["cache_status"].is_string(), "{line}");
    // A read under a delegation waits for no lock.
    let reads = Cell::new(0);
    until("a read under a delegation", async || {
        reads.set(reads.get() + 1);
        let read = ask(&instance, Method::GET, "/stock/A", &format!("read-{}", reads.get()), None).await;
        read.header("cache-status").ends_with("detail=local")
    })
    .await;
    let line = answered(&instance, &format!("read-{}", reads.get())).expect("a line");
    assert!(line["status"] == 200 && line["lock_wait_ms"].is_null(), "{line}");
}

#[tokio::test]
async fn a_lock_that_never_came_is_logged_with_its_wait() {
    let stage = Stage::start().await;
    let holder = stage.serve(&[("LOCK_WAIT", "3s"), ("STATEMENT_TIMEOUT", "5s")]).await;
    let instance = stage.serve(&[("LOG_FORMAT", "json"), ("LOCK_WAIT", "300ms")]).await;
    holder.put("A", 10).await;
    let blocker = stage.hold_row().await;
    let late = async {
        stage.until_one_waits_for_a_row().await;
        let late = ask(&instance, Method::POST, "/stock/A/adjustments", "late", Some(r#"{"delta":-1}"#)).await;
        assert_eq!(late.problem(), "lock-timeout");
        blocker.rollback().await.unwrap();
    };
    tokio::join!(holder.adjust("A", -1), late);
    let line = answered(&instance, "late").expect("a line");
    assert_eq!(line["problem"], "lock-timeout", "{line}");
    assert!(line["lock_wait_ms"].as_u64().unwrap() >= 250, "{line}");
}

#[tokio::test]
async fn the_statements_of_a_request_and_of_its_load_are_in_its_span() {
    let stage = Stage::start().await;
    // No warm-up, since the request could join a load of the warm-up.
    let log = "info,inventory=debug,stockade=debug,sqlx=debug";
    let settings = [("LOG_FORMAT", "json"), ("RUST_LOG", log), ("CACHE_WARM_KEYS", "0")];
    let instance = stage.serve(&settings).await;
    ask(&instance, Method::PUT, "/stock/A", "put", Some(r#"{"quantity":1}"#)).await;
    ask(&instance, Method::GET, "/stock/A", "get", None).await;
    let spans = |id: &str, statement: &str| -> Vec<String> {
        let of_it = |line: &Value| {
            let request = line["spans"].as_array().is_some_and(|spans| spans.iter().any(|s| s["request_id"] == id));
            request && line["summary"].as_str().is_some_and(|summary| summary.starts_with(statement))
        };
        let line = lines(&instance).into_iter().find(of_it);
        let line = line.unwrap_or_else(|| panic!("{id}: {statement}: {}", instance.log()));
        line["spans"].as_array().unwrap().iter().map(|span| span["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(spans("get", "select sku"), ["request", "cache.lookup", "cache.load", "sql"], "a load");
    assert_eq!(spans("put", "select version from stockade"), ["request", "fence"]);
    assert_eq!(spans("put", "with changed as (insert"), ["request", "sql"]);
    let names: Vec<_> = lines(&instance).iter().map(|line| line["span"]["name"].clone()).collect();
    assert!(names.iter().any(|name| *name == "commit"), "{names:?}");
}

#[tokio::test]
async fn a_warning_has_the_id_of_its_request_where_only_warnings_are_logged() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[("RUST_LOG", "warn"), ("LOG_FORMAT", "json")]).await;
    instance.put("A", 1).await;
    sqlx::query("update stockade.fence set token = token + 60000000").execute(&stage.pool).await.unwrap();
    let stale = ask(&instance, Method::POST, "/stock/A/adjustments", "stale", Some(r#"{"delta":-1}"#)).await;
    assert_eq!(stale.problem(), "fence-stale");
    let warnings = lines(&instance);
    let line = warnings.iter().find(|line| line["message"] == "a request failed at the database");
    let line = line.unwrap_or_else(|| panic!("{}", instance.log()));
    assert_eq!((&line["level"], &line["span"]["request_id"]), (&"WARN".into(), &"stale".into()), "{line}");
}

#[tokio::test]
async fn a_breaker_that_opens_is_a_warning() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[("RUST_LOG", "warn"), ("LOG_FORMAT", "json"), ("REDIS_TIMEOUT", "50ms")]).await;
    instance.put("A", 1).await;
    stage.redis.pause().unwrap();
    within(Duration::from_secs(20), "the breaker is open", async || {
        instance.put("A", 2).await;
        lines(&instance).iter().any(|line| line["breaker"] == "redis_lock" && line["level"] == "WARN")
    })
    .await;
    stage.redis.resume().unwrap();
}

#[tokio::test]
async fn a_database_that_gives_no_connection_is_named_with_the_cause() {
    let mut command = bare_command("serve");
    let log = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("closed-{}.log", std::process::id()));
    command
        .env("DATABASE_URL", "postgres://stock:hunter2@127.0.0.1:1/stock")
        .env("REDIS_URL", "redis://:hunter2@127.0.0.1:1")
        .envs([("LISTEN_ADDR", "127.0.0.1:0"), ("OPS_ADDR", "127.0.0.1:0"), ("DATABASE_ACQUIRE_TIMEOUT", "200ms")])
        .stdout(std::process::Stdio::null())
        .stderr(std::fs::File::create(&log).unwrap());
    let mut child = command.spawn().unwrap();
    let text = || std::fs::read_to_string(&log).unwrap();
    until("the cause is named", async || {
        text().lines().any(|line| line.contains("127.0.0.1:1/stock") && line.contains("refused"))
    })
    .await;
    assert!(!text().contains("hunter2"), "{}", text());
    child.kill().await.unwrap();

    let stage = Stage::start().await;
    sqlx::query("create role few login password 'few' connection limit 0").execute(&stage.pool).await.unwrap();
    let (_, place) = stage.database_url.rsplit_once('@').or(stage.database_url.split_once("://")).unwrap();
    let url = format!("postgres://few:few@{place}");
    for command in ["migrate", "seed"] {
        let since = tokio::time::Instant::now();
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/online-retail.csv");
        let (status, output) =
            stage.run(command, &[("DATABASE_URL", &url), ("SEED_CSV", file), ("SEED_LIMIT", "1")]).await;
        assert_eq!(status.code(), Some(1), "{output}");
        assert!(output.contains("too many connections for role") && output.contains("/postgres"), "{output}");
        assert!(since.elapsed() < Duration::from_secs(8), "{:?}", since.elapsed());
    }
}

#[tokio::test]
async fn loads_that_can_take_every_connection_are_warned_of_at_the_start() {
    let stage = Stage::start().await;
    let log = async |loads: &str| stage.serve(&[("DB_MAX_LOADS", loads)]).await.log();
    let (fine, warned) = (log("15").await, log("16").await);
    assert!(!fine.contains("DATABASE_MAX_CONNECTIONS"), "{fine}");
    let line = warned.lines().find(|line| line.contains("WARN") && line.contains("lower DB_MAX_LOADS")).expect(&warned);
    assert!(line.contains("DB_MAX_LOADS=16") && line.contains("DATABASE_MAX_CONNECTIONS=16"), "{line}");
}
