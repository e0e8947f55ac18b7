//! Loads that a request demands.

use axum::http::StatusCode;
use futures_util::future::join_all;

use super::service::{NO_CACHE, OPERATOR, Service, header};
use crate::cache::support::eventually;

#[tokio::test]
async fn a_load_is_forced_by_those_who_may_and_by_nobody_else() {
    let service = Service::start().await;
    service.get("/stock/a").await;
    service.write(6, 42);
    let ignored: [&[_]; 5] = [
        &[NO_CACHE],
        &[OPERATOR],
        &[OPERATOR, ("cache-control", "max-age=0")],
        &[OPERATOR, ("pragma", "no-cache")],
        &[OPERATOR, ("cache-control", "x=\", no-cache\"")],
    ];
    for headers in ignored {
        let status = service.status(headers).await;
        assert!(status.starts_with("stockade; hit; ttl="), "{headers:?}: {status}");
    }
    service.send("POST", "/stock/a", &[OPERATOR, NO_CACHE]).await;
    assert_eq!(service.loads(), 1);

    let (status, headers, body) = service.send("GET", "/stock/a", &[OPERATOR, NO_CACHE]).await;
    assert_eq!((status, body.as_str()), (StatusCode::OK, r#"{"quantity":6,"version":42}"#));
    assert_eq!(header(&headers, "cache-status"), Some("stockade; fwd=request; stored"));
    let tag = service.tag(42);
    assert_eq!((header(&headers, "etag"), header(&headers, "age")), (Some(tag.as_str()), Some("0")));
    assert_eq!(service.get("/stock/a").await.2, body, "it is there for all");
    // The tag is compared with the new value, so 304 is right although the row was loaded again.
    let (status, headers, _) = service.send("GET", "/stock/a", &[OPERATOR, NO_CACHE, ("if-none-match", &tag)]).await;
    assert_eq!(status, StatusCode::NOT_MODIFIED);
    assert_eq!(header(&headers, "cache-status"), Some("stockade; fwd=request; stored"));
    assert_eq!(service.loads(), 3);

    service.rows.lock().unwrap().clear();
    let (status, headers, _) = service.send("GET", "/stock/a", &[OPERATOR, NO_CACHE]).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert_eq!(header(&headers, "cache-status"), Some("stockade; fwd=request; stored"));
    assert_eq!(service.status(&[]).await, "stockade; hit; detail=negative");
    service.end().await;
}

#[tokio::test]
async fn many_who_force_a_load_share_it() {
    let service = Service::start().await;
    service.get("/stock/a").await;
    let shut = service.gate.write().await;
    let forced = async |_| service.status(&[OPERATOR, NO_CACHE]).await;
    let open = async {
        eventually("the load began", || async { service.loads() == 2 }).await;
        drop(shut);
    };
    let (mut statuses, ()) = tokio::join!(join_all((0..50).map(forced)), open);
    statuses.sort();
    assert_eq!(
        (statuses[0].as_str(), statuses[49].as_str()),
        ("stockade; fwd=request; collapsed", "stockade; fwd=request; stored")
    );
    assert_eq!(statuses.iter().filter(|status| status.ends_with("; collapsed")).count(), 49);
    assert_eq!(service.loads(), 2);
    service.end().await;
}
