use reqwest::{Method, StatusCode};
use serde_json::json;
use stockade_testbed::RedisServer;

use crate::stage::{Answer, Stage, until};

/// Statements that wait for a row or a table hold both connections for as long as a test needs.
const TWO_CONNECTIONS: [(&str, &str); 6] = [
    ("DATABASE_MAX_CONNECTIONS", "2"),
    ("DATABASE_ACQUIRE_TIMEOUT", "1s"),
    ("LOCK_WAIT", "10s"),
    ("STATEMENT_TIMEOUT", "12s"),
    ("REQUEST_TIMEOUT", "24s"),
    ("LOCK_LEASE", "24s"),
];

#[tokio::test]
async fn admin_routes_want_the_token_and_without_one_there_are_none() {
    let stage = Stage::start().await;
    // Without the filter a read of an absent SKU is a load.
    let guarded = stage.serve(&[("SKU_FILTER", "off")]).await;
    let open = stage.serve(&[("ADMIN_TOKEN", "")]).await;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    for path in ["/admin/locks", "/admin/locks/stock:A", "/admin/cache", "/admin/conservation", "/admin/nothing"] {
        for header in ["", "Bearer", "Bearer wrong", "Bearer correct-horse-", "Basic correct-horse", "correct-horse"] {
            let request = client.get(format!("{}{path}", guarded.ops)).header("authorization", header);
            let answer = Answer::to(request).await;
            assert_eq!((answer.status.as_u16(), answer.problem().as_str()), (401, "unauthorized"), "{path} {header}");
            assert_eq!(answer.header("www-authenticate"), "Bearer realm=\"admin\"");
        }
        let absent = Answer::to(open.admin(Method::GET, path)).await;
        assert_eq!(absent.problem(), "not-found", "{path}");
    }
    let twice = guarded.admin(Method::GET, "/admin/locks").header("authorization", "Bearer wrong");
    assert_eq!(Answer::to(twice).await.status, 401);
    assert_eq!(Answer::to(guarded.admin(Method::GET, "/admin/locks")).await.status, 200);
    guarded.get("/stock/none").await;
    let cache = Answer::to(guarded.admin(Method::GET, "/admin/cache")).await.json();
    assert_eq!(
        (&cache["name"], &cache["loads_absent"], &cache["loads_in_flight"]),
        (&json!("stock"), &json!(1), &json!(0))
    );
    assert_eq!(Answer::to(guarded.admin(Method::GET, "/admin/nothing")).await.problem(), "not-found");
    assert_eq!(Answer::to(guarded.admin(Method::POST, "/admin/locks")).await.problem(), "method-not-allowed");
    assert_eq!(Answer::to(guarded.admin(Method::GET, "/admin/locks/x")).await.problem(), "bad-request");
    let how = guarded.admin(Method::DELETE, "/admin/locks/stock:A?now=maybe");
    assert_eq!(Answer::to(how).await.problem(), "bad-request");
    for request in [guarded.request(Method::GET, "/admin/locks"), guarded.request(Method::GET, "/metrics")] {
        assert_eq!(Answer::to(request).await.problem(), "not-found", "not on the public port");
    }
}

#[tokio::test]
async fn a_lock_is_shown_with_holder_and_queue() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    instance.put("A", 10).await;
    let blocker = stage.hold_row().await;
    let look = async || Answer::to(instance.admin(Method::GET, "/admin/locks/stock:A")).await.json();
    let work =
        async { tokio::join!(Answer::to(instance.adjustment("A", -1)), Answer::to(instance.adjustment("A", -1))) };
    let watch = async {
        until("one holds and one waits", async || {
            let lock = look().await;
            lock["holders"].as_array().unwrap().len() == 1 && lock["waiting"] == 1
        })
        .await;
        let list = Answer::to(instance.admin(Method::GET, "/admin/locks")).await.json();
        assert_eq!(list["items"], json!(["stock:A"]));
        for lock in [look().await, list["locks"][0].clone()] {
            assert_eq!(lock["resource"], "stock:A", "{lock}");
            let (holder, waiter) = (&lock["holders"][0], &lock["waiters"][0]);
            assert_eq!((&holder["mode"], &waiter["mode"]), (&json!("write"), &json!("write")), "{lock}");
            assert!(holder["token"].as_u64().unwrap() > 0 && holder["position"].is_null(), "{lock}");
            assert!(waiter["token"].is_null() && waiter["position"] == 1, "{lock}");
            for party in [holder, waiter] {
                assert!(party["tag"].as_str().unwrap().starts_with("POST"), "{lock}");
                assert!(party["age_ms"].as_u64().unwrap() < 60_000, "{lock}");
            }
            assert!(holder["age_ms"].as_u64() >= waiter["age_ms"].as_u64(), "{lock}");
        }
        blocker.rollback().await.unwrap();
    };
    let ((first, second), ()) = tokio::join!(work, watch);
    assert_eq!((first.status.as_u16(), second.status.as_u16()), (200, 200), "{first:?} {second:?}");
    let free = look().await;
    assert_eq!(free["holders"], json!([]), "{free}");
}

#[tokio::test]
async fn forcing_a_lock_claims_its_fence() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    let before: u64 = instance.put("A", 10).await.header("fencing-token").parse().unwrap();
    let forced = Answer::to(instance.admin(Method::DELETE, "/admin/locks/stock:A")).await;
    assert_eq!(forced.status, 200, "{forced:?}");
    let token = forced.json()["token"].as_i64().unwrap();
    assert!(u64::try_from(token).unwrap() > before);
    assert_eq!(stage.count("select token from stockade.fence where resource = 'stock:A'").await, token);
    let after = instance.adjust("A", -1).await;
    assert_eq!(after.status, 200, "the next holder is above it: {after:?}");
}

#[tokio::test]
async fn a_forced_release_whose_fence_is_not_free_says_that_the_lock_was_taken() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    instance.put("A", 10).await;
    let before: i64 = stage.count("select token from stockade.fence where resource = 'stock:A'").await;
    let mut holder = stage.pool.begin().await.unwrap();
    sqlx::query("select from stockade.fence where resource = 'stock:A' for update")
        .execute(&mut *holder)
        .await
        .unwrap();
    let forced = Answer::to(instance.admin(Method::DELETE, "/admin/locks/stock:A")).await;
    assert_eq!((forced.status.as_u16(), forced.problem().as_str()), (503, "fence-not-raised"), "{forced:?}");
    assert_eq!((&forced.json()["applied"], forced.json().get("retry_after_ms")), (&true.into(), None), "{forced:?}");
    holder.rollback().await.unwrap();
    assert_eq!(stage.count("select token from stockade.fence where resource = 'stock:A'").await, before);
    let next: i64 = instance.adjust("A", -1).await.header("fencing-token").parse().unwrap();
    assert!(next > before, "the next holder raises it");
}

fn series(metrics: &str) -> usize {
    metrics.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).count()
}

#[tokio::test]
async fn distinct_paths_methods_and_skus_make_no_series() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[("RUST_LOG", "warn")]).await;
    let visit = async |n: u32| {
        instance.get(&format!("/nowhere/{n}")).await;
        instance.get(&format!("/stock/none-{n}")).await;
        instance.put(&format!("sku-{n}"), 1).await;
        instance.adjust(&format!("sku-{n}"), 1).await;
        let method = Method::from_bytes(format!("M{n}").as_bytes()).unwrap();
        Answer::to(instance.request(method, "/stock/A")).await;
    };
    visit(0).await;
    visit(1).await;
    let before = instance.metrics().await;
    for n in 2..200 {
        visit(n).await;
    }
    let after = instance.metrics().await;
    // Counters of rare events may appear meanwhile. Distinct label values would add hundreds of series.
    assert!(series(&after) < series(&before) + 20, "{after}");
    assert!(!after.contains("none-") && !after.contains("sku-1"), "{after}");
    assert!(after.contains(r#"http_requests_total{method="GET",route="unmatched",status="404"} 200"#), "{after}");
    assert!(after.contains(r#"http_requests_total{method="other",route="/stock/{sku}",status="405"} 200"#), "{after}");
}

#[tokio::test]
async fn whether_a_lock_was_forced_is_unknown_if_redis_does_not_answer() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    instance.put("A", 1).await;
    let force = || Answer::to(instance.admin(Method::DELETE, "/admin/locks/stock:A"));
    assert_eq!(force().await.status, 200);
    stage.redis.pause().unwrap();
    let unknown = force().await;
    stage.redis.resume().unwrap();
    assert_eq!((unknown.status.as_u16(), unknown.problem().as_str()), (503, "outcome-unknown"), "{unknown:?}");
    assert!(unknown.json()["applied"].is_null() && !unknown.headers.contains_key("retry-after"), "{unknown:?}");
}

#[tokio::test]
async fn a_lock_was_not_forced_if_there_is_no_connection_to_redis() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    stage.redis.kill().await.unwrap();
    until("the loss is noticed", async || instance.get("/readyz").await.json()["checks"]["lock_store"] == "down").await;
    let refused = Answer::to(instance.admin(Method::DELETE, "/admin/locks/stock:A")).await;
    assert_eq!((refused.status.as_u16(), refused.problem().as_str()), (503, "lock-store-unavailable"), "{refused:?}");
    assert!(refused.json()["applied"] == false && refused.headers.contains_key("retry-after"), "{refused:?}");
}

#[tokio::test]
async fn counters_and_histograms_are_there_before_their_first_event() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    let metrics = instance.metrics().await;
    for series in [
        r#"stockade_lock_acquisitions_total{lock="stock",mode="read",outcome="granted"}"#,
        r#"stockade_lock_acquisitions_total{lock="stock",mode="read",outcome="delegated"}"#,
        r#"stockade_lock_delegation_recalls_total{lock="stock",reason="wanted"}"#,
        r#"stockade_lock_acquisitions_total{lock="stock",mode="write",outcome="store_error"}"#,
        r#"stockade_lock_lost_total{lock="stock",reason="expired"}"#,
        r#"stockade_lock_lost_total{lock="stock",reason="store_lost_data"}"#,
        r#"stockade_redis_errors_total{role="lock",kind="timeout"}"#,
        r#"stockade_redis_errors_total{role="cache",kind="other"}"#,
        "stockade_redis_reconnects_total",
        r#"stockade_cache_requests_total{cache="stock",outcome="hit_local"}"#,
        r#"stockade_cache_requests_total{cache="stock",outcome="error"}"#,
        r#"stockade_cache_loads_total{cache="stock",outcome="ok"}"#,
        r#"stockade_cache_loads_total{cache="stock",outcome="cancelled"}"#,
        r#"stockade_cache_fill_rejected_total{cache="stock"}"#,
        r#"stockade_cache_payloads_refused_total{cache="stock",reason="unreadable"}"#,
        "inventory_fence_rejected_total",
        "inventory_database_timeouts_total",
        r#"http_requests_total{method="GET",route="/stock/{sku}",status="503"}"#,
        r#"http_requests_total{method="POST",route="/stock/{sku}/adjustments",status="500"}"#,
        r#"stockade_lock_wait_seconds_count{lock="stock",mode="write"}"#,
        r#"stockade_lock_hold_seconds_count{lock="stock",mode="read"}"#,
        r#"stockade_lock_handoff_seconds_count{lock="stock"}"#,
        "stockade_lock_renewal_lag_seconds_count",
        r#"stockade_cache_load_seconds_count{cache="stock"}"#,
        r#"stockade_redis_command_seconds_count{op="renew"}"#,
        r#"inventory_flash_lag_seconds_bucket{le="300"}"#,
        r#"http_request_duration_seconds_count{method="PUT",route="/stock/{sku}",status="201"}"#,
        r#"http_request_duration_seconds_bucket{method="PUT",route="/stock/{sku}",status="201",le="0.0025"}"#,
        r#"http_requests_total{method="GET",route="/stock/{sku}",status="200"}"#,
    ] {
        assert!(metrics.lines().any(|line| line == format!("{series} 0")), "{series}: {metrics}");
    }
}

#[tokio::test]
async fn an_instance_whose_connections_are_all_in_use_is_ready() {
    let stage = Stage::start().await;
    let instance = stage.serve(&TWO_CONNECTIONS).await;
    until("it is ready", async || instance.get("/readyz").await.status == 200).await;
    let mut held = stage.pool.begin().await.unwrap();
    sqlx::query("lock table stock").execute(&mut *held).await.unwrap();
    let lists = async { tokio::join!(instance.get("/stock"), instance.get("/stock")) };
    let ready = async {
        let waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'";
        until("all connections wait", async || stage.count(waiting).await == 2).await;
        let ready = instance.get("/readyz").await;
        held.rollback().await.unwrap();
        ready
    };
    let (lists, ready) = tokio::join!(lists, ready);
    assert_eq!(ready.status, 200, "{ready:?}");
    assert_eq!((lists.0.status, lists.1.status), (StatusCode::OK, StatusCode::OK));
}

#[tokio::test]
async fn readiness_names_what_is_missing_and_redis_never_fails_it() {
    let stage = Stage::bare().await;
    let cache = RedisServer::start().await.unwrap();
    let instance = stage.serve(&[("CACHE_REDIS_URL", &cache.url())]).await;
    let early = instance.get("/readyz").await;
    assert_eq!(early.problem(), "database-unavailable");
    assert!(early.text.contains("inventory migrate"), "{early:?}");
    assert_eq!(instance.get("/stock/A").await.problem(), "database-unavailable");
    assert_eq!(instance.put("A", 1).await.problem(), "database-unavailable");
    assert_eq!(instance.get("/healthz").await.status, 200);

    let (status, output) = stage.run("migrate", &[]).await;
    assert!(status.success(), "{output}");
    // The warm-up has waited for the database too.
    until("it is warm", async || {
        let ready = instance.get("/readyz").await;
        assert!(ready.status == 200 || ready.problem() == "warming-up", "{ready:?}");
        ready.status == 200
    })
    .await;
    let ready = instance.get("/readyz").await;
    assert_eq!(ready.json()["status"], "ready", "{ready:?}");
    let operators = Answer::to(instance.admin(Method::GET, "/readyz")).await;
    assert_eq!(operators.text, ready.text, "on both ports");

    cache.kill().await.unwrap();
    until("the loss of the cache is seen", async || {
        let ready = instance.get("/readyz").await;
        assert_eq!(ready.status, 200, "{ready:?}");
        ready.json()["checks"]["cache_store"] == "down" && ready.json()["status"] == "degraded"
    })
    .await;
    stage.postgres.kill().await.unwrap();
    until("the loss of the database is seen", async || instance.get("/readyz").await.status == 503).await;
    let refused = instance.get("/stock/A").await;
    assert_eq!(refused.status, 503, "{refused:?}");
    assert_eq!(refused.header("cache-status"), "stockade; fwd=uri-miss; detail=degraded", "{refused:?}");
    assert_eq!(instance.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn the_pool_of_the_database_is_in_the_metrics() {
    let stage = Stage::start().await;
    let instance = stage.serve(&TWO_CONNECTIONS).await;
    for sku in ["A", "B"] {
        instance.put(sku, 10).await;
    }
    let mut rows = stage.pool.begin().await.unwrap();
    sqlx::query("select from stock for update").execute(&mut *rows).await.unwrap();
    let is = async |series: &str| instance.metrics().await.lines().any(|line| line == series);
    let look = async {
        until("both connections are in use", async || is(r#"inventory_database_connections{state="busy"} 2"#).await)
            .await;
        assert!(
            is("inventory_database_connections_max 2").await
                && is(r#"inventory_database_connections{state="idle"} 0"#).await
        );
        assert_eq!(instance.get("/stock").await.problem(), "database-unavailable");
        assert!(!is("inventory_database_timeouts_total 0").await);
        until("the log names the reason", async || instance.log().contains("raise DATABASE_MAX_CONNECTIONS")).await;
        rows.rollback().await.unwrap();
    };
    let (first, second, ()) = tokio::join!(instance.put("A", 9), instance.put("B", 9), look);
    assert_eq!((first.status.as_u16(), second.status.as_u16()), (200, 200), "{first:?} {second:?}");
}
