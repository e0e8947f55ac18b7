//! Answers to clients, and the headers by which clients may cache them.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use axum::http::StatusCode;
use futures_util::future::join_all;

use super::service::{Service, header};
use crate::cache::support::{Sku, eventually};

#[tokio::test]
async fn an_answer_carries_its_cache_headers() {
    let service = Service::start().await;
    let (status, headers, body) = service.get("/stock/a").await;
    assert_eq!((status, body.as_str()), (StatusCode::OK, r#"{"quantity":5,"version":41}"#));
    assert_eq!(header(&headers, "cache-status"), Some("stockade; fwd=uri-miss; stored"));
    assert_eq!(header(&headers, "age"), Some("0"));
    assert_eq!(header(&headers, "cache-control"), Some("private, no-cache"));
    assert_eq!(header(&headers, "etag"), Some(service.tag(41).as_str()));
    assert_eq!(header(&headers, "content-type"), Some("application/json"));

    let (_, headers, _) = service.get("/stock/a").await;
    let status = header(&headers, "cache-status").unwrap();
    let ttl = status.strip_prefix("stockade; hit; ttl=").and_then(|rest| rest.strip_suffix("; detail=redis"));
    assert!((299..=600).contains(&ttl.unwrap_or_else(|| panic!("{status}")).parse::<u64>().unwrap()));
    service.end().await;
}

#[tokio::test]
async fn a_client_that_has_the_value_gets_304_without_a_body() {
    let service = Service::start().await;
    let tag = service.tag(41);
    for tags in [&tag, &format!("W/{tag}"), &format!("\"1\", {tag}"), "*"] {
        for method in ["GET", "HEAD"] {
            let (status, headers, body) = service.ask(method, "/stock/a", Some(tags)).await;
            assert_eq!((status, body.as_str()), (StatusCode::NOT_MODIFIED, ""), "{tags}");
            assert_eq!(header(&headers, "etag"), Some(tag.as_str()));
            assert_eq!(header(&headers, "cache-control"), Some("private, no-cache"));
            assert!(headers.contains_key("cache-status") && headers.contains_key("age"));
        }
    }
    for tags in [&service.tag(40), tag.trim_matches('"'), "\"41\"", "41", ""] {
        assert_eq!(service.ask("GET", "/stock/a", Some(tags)).await.0, StatusCode::OK, "{tags}");
    }
    // `If-None-Match` counts only for safe methods.
    assert_eq!(service.ask("POST", "/stock/a", Some("*")).await.0, StatusCode::OK);

    service.write(6, 42);
    service.app.stocks.invalidate(&Sku("a".to_owned())).await.unwrap();
    let (status, headers, _) = service.ask("GET", "/stock/a", Some(&tag)).await;
    assert_eq!((status, header(&headers, "etag")), (StatusCode::OK, Some(service.tag(42).as_str())));
    service.end().await;
}

#[tokio::test]
async fn views_keep_the_headers() {
    let service = Service::start().await;
    for path in ["/quantity/a", "/parts/a"] {
        let (status, headers, body) = service.get(path).await;
        assert_eq!((status, body.as_str()), (StatusCode::OK, "5"));
        assert_eq!(header(&headers, "cache-control"), Some("private, no-cache"));
        assert!(headers.contains_key("cache-status") && headers.contains_key("age"));
    }
    assert_eq!(service.get("/maybe/a").await.2, "5");
    assert_eq!(service.get("/maybe/b").await.2, "none");
    service.end().await;
}

#[tokio::test]
async fn a_view_has_a_tag_of_its_own() {
    let service = Service::start().await;
    let (_, headers, _) = service.get("/quantity/a").await;
    let view = header(&headers, "etag").unwrap();
    assert!(view.starts_with("\"41-") && view != service.tag(41), "{view}");
    for method in ["GET", "HEAD"] {
        let (status, headers, body) = service.ask(method, "/quantity/a", Some(view)).await;
        assert_eq!((status, header(&headers, "etag")), (StatusCode::NOT_MODIFIED, Some(view)));
        assert_eq!((header(&headers, "content-length"), body.as_str()), (None, ""));
    }
    assert_eq!(service.ask("GET", "/quantity/a", Some(&service.tag(41))).await.0, StatusCode::OK);
    assert_eq!(service.ask("GET", "/stock/a", Some(view)).await.0, StatusCode::OK);
    // A handler that makes an answer of the parts gets no tag, since only the handler knows its answer.
    assert_eq!(header(&service.get("/parts/a").await.1, "etag"), None);
    service.end().await;
}

#[tokio::test]
async fn a_404_of_the_handler_says_of_the_cache_what_any_other_says() {
    let service = Service::start().await;
    assert_eq!(service.get("/or/a").await.2, r#"{"quantity":5,"version":41}"#);
    for form in ["stockade; fwd=uri-miss; stored", "stockade; hit; detail=negative"] {
        let (status, headers, body) = service.get("/or/b").await;
        assert_eq!((status, body.as_str()), (StatusCode::NOT_FOUND, "none"));
        assert_eq!(header(&headers, "cache-status"), Some(form));
        assert_eq!(header(&headers, "cache-control"), Some("private, no-cache"));
        assert!(headers.contains_key("age") && !headers.contains_key("etag"), "{headers:?}");
    }
    assert_eq!(service.get("/misplaced/b").await.0, StatusCode::INTERNAL_SERVER_ERROR);
    service.end().await;
}

#[tokio::test]
async fn an_absent_row_is_404_and_says_whether_that_was_known() {
    let service = Service::start().await;
    for form in ["stockade; fwd=uri-miss; stored", "stockade; hit; detail=negative"] {
        let (status, headers, body) = service.ask("GET", "/stock/b", Some("*")).await;
        assert_eq!(status, StatusCode::NOT_FOUND);
        assert_eq!(header(&headers, "cache-status"), Some(form));
        assert_eq!(header(&headers, "content-type"), Some("application/problem+json"));
        assert_eq!(header(&headers, "etag"), None);
        assert!(body.contains(r#""type":"/problems/not-found""#) && body.contains(r#""status":404"#), "{body}");
        assert!(body.contains("create the resource first") && body.contains(r#""applied":false"#), "{body}");
        assert_eq!(header(&headers, "cache-control"), Some("private, no-cache"));
    }
    assert_eq!(service.get("/stock/refused").await.0, StatusCode::IM_A_TEAPOT);
    let long = "x".repeat(600);
    let (status, _, body) = service.get(&format!("/stock/{long}")).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert!(!body.contains(&long), "{body}");
    service.end().await;
}

#[tokio::test]
async fn a_read_that_can_not_be_answered_is_503_and_tells_nothing_of_why() {
    let service = Service::start().await;
    service.down.store(true, Ordering::SeqCst);
    let (status, headers, body) = service.get("/stock/a").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(body.contains("/problems/database-unavailable") && !body.contains("hunter2"), "{body}");
    assert!(body.contains(r#""applied":false"#) && header(&headers, "cache-control") == Some("no-store"), "{body}");
    assert!(body.contains("send the request again after the time in Retry-After"), "{body}");
    assert!(header(&headers, "retry-after").unwrap().parse::<u64>().unwrap() >= 1);
    // Each read is of another row, since a single row would be held off by itself.
    let rows = AtomicU64::new(0);
    eventually("loads are shed", || async {
        let (status, headers, body) = service.get(&format!("/stock/{}", rows.fetch_add(1, Ordering::SeqCst))).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(header(&headers, "retry-after").unwrap().parse::<u64>().unwrap() >= 1);
        let shed = body.contains("/problems/load-shed");
        assert!(!shed || header(&headers, "cache-status") == Some("stockade; fwd=uri-miss; detail=shed"));
        shed
    })
    .await;
    service.end().await;
}

#[tokio::test]
async fn every_way_to_an_answer_is_told_on_the_wire() {
    let short = Duration::from_millis(2500);
    let service = Service::with(|builder| builder.local(1 << 20).early_refresh(0.0).ttl(short..=short)).await;
    let shut = service.gate.write().await;
    let open = async {
        eventually("the load began", || async { service.loads() == 1 }).await;
        drop(shut);
    };
    let (mut both, ()) = tokio::join!(join_all([service.status(), service.status()]), open);
    both.sort();
    assert_eq!(both, ["stockade; fwd=uri-miss; collapsed", "stockade; fwd=uri-miss; stored"]);
    let told = service.status().await;
    let left = told.strip_prefix("stockade; hit; ttl=").and_then(|rest| rest.strip_suffix("; detail=local"));
    assert!(left.unwrap_or_else(|| panic!("{told}")).parse::<u64>().unwrap() <= 2);
    eventually("it has an age", || async {
        let (_, headers, _) = service.get("/stock/a").await;
        assert_eq!(header(&headers, "etag"), Some(service.tag(41).as_str()));
        header(&headers, "age") == Some("1")
    })
    .await;

    service.down.store(true, Ordering::SeqCst);
    eventually("it has expired", || async { service.status().await.contains("; ttl=-") }).await;
    for tags in [&service.tag(41), "*"] {
        let (status, headers, body) = service.ask("GET", "/stock/a", Some(tags)).await;
        assert_eq!((status, body.as_str()), (StatusCode::OK, r#"{"quantity":5,"version":41}"#), "{tags}");
        let told = header(&headers, "cache-status").unwrap();
        let ago = told.strip_prefix("stockade; hit; ttl=-").unwrap_or_else(|| panic!("{told}"));
        assert!((1..60).contains(&ago.parse::<u64>().unwrap()), "{told}");
        assert_eq!((header(&headers, "etag"), header(&headers, "cache-control")), (None, Some("private, no-cache")));
        assert!(header(&headers, "age").unwrap().parse::<u64>().unwrap() >= 1);
    }
    service.end().await;
}

#[tokio::test]
async fn without_redis_answers_are_marked_and_never_304() {
    let service = Service::start().await;
    service.server.kill().await.unwrap();
    eventually("the outage is noticed", || async { service.app.stocks.is_degraded() }).await;
    let tag = service.tag(41);
    for tags in ["*", &tag] {
        let (status, headers, body) = service.ask("GET", "/stock/a", Some(tags)).await;
        assert_eq!((status, body.as_str()), (StatusCode::OK, r#"{"quantity":5,"version":41}"#));
        assert!(header(&headers, "cache-status").unwrap().ends_with("; detail=degraded"), "{tags}");
        assert_eq!(header(&headers, "etag"), None);
    }
    service.down.store(true, Ordering::SeqCst);
    let rows = AtomicU64::new(0);
    eventually("loads are shed", || async {
        let (status, headers, body) = service.get(&format!("/stock/{}", rows.fetch_add(1, Ordering::SeqCst))).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(header(&headers, "cache-status"), Some("stockade; fwd=uri-miss; detail=degraded"));
        body.contains("/problems/load-shed") && headers.contains_key("retry-after")
    })
    .await;
    service.end().await;
}
