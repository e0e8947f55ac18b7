//! `Cached` as extractor and as answer.

use std::{
    borrow::Cow,
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{
    Json, Router,
    body::Body,
    extract::{FromRequestParts, Path},
    http::{HeaderMap, Request, StatusCode, request::Parts},
    response::{IntoResponse, Response},
    routing::get,
};
use http_body_util::BodyExt;
use serde::{Deserialize, Serialize};
use stockade::{
    Cache, Redis, Resource,
    extract::{Cached, FromCache},
};
use stockade_testbed::RedisServer;
use tower::ServiceExt;

use super::support::eventually;

#[derive(Clone, Debug)]
struct Sku(String);

impl Resource for Sku {
    const KIND: &'static str = "stock";

    fn id(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.0)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Sku {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        let Path(id) = Path::<String>::from_request_parts(parts, state).await.map_err(IntoResponse::into_response)?;
        if id == "refused" { Err(StatusCode::IM_A_TEAPOT.into_response()) } else { Ok(Self(id)) }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Stock {
    quantity: u64,
    version: u64,
}

#[derive(Clone)]
struct App {
    stocks: Cache<Sku, Stock>,
}

impl FromCache<App> for Stock {
    type Key = Sku;

    fn cache(app: &App) -> &Cache<Sku, Self> {
        &app.stocks
    }

    fn version(&self) -> Option<u64> {
        Some(self.version)
    }
}

async fn show(stock: Cached<Stock>) -> Cached<Stock> {
    stock
}

async fn show_quantity(stock: Cached<Stock>) -> impl IntoResponse {
    stock.map(|stock| stock.quantity)
}

async fn show_parts(stock: Cached<Stock>) -> impl IntoResponse {
    let (stock, info) = stock.into_parts();
    (info, Json(stock.quantity))
}

async fn show_maybe(stock: Option<Cached<Stock>>) -> String {
    stock.map_or_else(|| "none".to_owned(), |stock| stock.quantity.to_string())
}

struct Service {
    _server: RedisServer,
    router: Router,
    app: App,
    rows: Arc<Mutex<HashMap<String, Stock>>>,
    down: Arc<AtomicBool>,
}

impl Service {
    async fn start() -> Self {
        let server = RedisServer::start().await.unwrap();
        let redis = Redis::connect(server.url()).await.unwrap();
        let rows = Arc::new(Mutex::new(HashMap::from([("a".to_owned(), Stock { quantity: 5, version: 41 })])));
        let down = Arc::new(AtomicBool::new(false));
        let (table, off) = (Arc::clone(&rows), Arc::clone(&down));
        let stocks = Cache::builder(&redis)
            .load_timeout(Duration::from_millis(200))
            .loader(move |sku: Sku| {
                let row = table.lock().unwrap().get(&sku.0).cloned();
                let off = off.load(Ordering::SeqCst);
                async move { if off { Err("the password is hunter2") } else { Ok(row) } }
            })
            .build();
        eventually("the cache is on line", || async { !stocks.is_degraded() }).await;
        let app = App { stocks };
        let router = Router::new()
            .route("/stock/{sku}", get(show).post(show))
            .route("/quantity/{sku}", get(show_quantity))
            .route("/parts/{sku}", get(show_parts))
            .route("/maybe/{sku}", get(show_maybe))
            .with_state(app.clone());
        Self { _server: server, router, app, rows, down }
    }

    async fn ask(&self, method: &str, path: &str, if_none_match: Option<&str>) -> (StatusCode, HeaderMap, String) {
        let mut request = Request::builder().method(method).uri(path);
        if let Some(tags) = if_none_match {
            request = request.header("if-none-match", tags);
        }
        let response = self.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (parts.status, parts.headers, String::from_utf8(body.to_vec()).unwrap())
    }

    async fn get(&self, path: &str) -> (StatusCode, HeaderMap, String) {
        self.ask("GET", path, None).await
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap())
}

#[tokio::test]
async fn an_answer_carries_its_cache_headers() {
    let service = Service::start().await;
    let (status, headers, body) = service.get("/stock/a").await;
    assert_eq!((status, body.as_str()), (StatusCode::OK, r#"{"quantity":5,"version":41}"#));
    assert_eq!(header(&headers, "cache-status"), Some("stockade; fwd=uri-miss; stored"));
    assert_eq!(header(&headers, "age"), Some("0"));
    assert_eq!(header(&headers, "cache-control"), Some("no-cache"));
    assert_eq!(header(&headers, "etag"), Some("\"41\""));
    assert_eq!(header(&headers, "content-type"), Some("application/json"));

    let (_, headers, _) = service.get("/stock/a").await;
    let status = header(&headers, "cache-status").unwrap();
    let ttl = status.strip_prefix("stockade; hit; ttl=").and_then(|rest| rest.strip_suffix("; detail=redis"));
    assert!((299..=600).contains(&ttl.unwrap_or_else(|| panic!("{status}")).parse::<u64>().unwrap()));
}

#[tokio::test]
async fn a_client_that_has_the_value_gets_304_without_a_body() {
    let service = Service::start().await;
    for tags in ["\"41\"", "W/\"41\"", "\"1\", \"41\"", "*"] {
        for method in ["GET", "HEAD"] {
            let (status, headers, body) = service.ask(method, "/stock/a", Some(tags)).await;
            assert_eq!((status, body.as_str()), (StatusCode::NOT_MODIFIED, ""), "{tags}");
            assert_eq!(header(&headers, "etag"), Some("\"41\""));
            assert_eq!(header(&headers, "cache-control"), Some("no-cache"));
            assert!(headers.contains_key("cache-status") && headers.contains_key("age"));
        }
    }
    for tags in ["\"40\"", "41", "\"4\"", ""] {
        assert_eq!(service.ask("GET", "/stock/a", Some(tags)).await.0, StatusCode::OK, "{tags}");
    }
    // The condition is one for safe methods.
    assert_eq!(service.ask("POST", "/stock/a", Some("*")).await.0, StatusCode::OK);
    assert_eq!(service.ask("GET", "/quantity/a", Some("\"41\"")).await.0, StatusCode::NOT_MODIFIED);

    service.rows.lock().unwrap().insert("a".to_owned(), Stock { quantity: 6, version: 42 });
    service.app.stocks.invalidate(&Sku("a".to_owned())).await.unwrap();
    let (status, headers, _) = service.ask("GET", "/stock/a", Some("\"41\"")).await;
    assert_eq!((status, header(&headers, "etag")), (StatusCode::OK, Some("\"42\"")));
}

#[tokio::test]
async fn views_keep_the_headers() {
    let service = Service::start().await;
    for path in ["/quantity/a", "/parts/a"] {
        let (status, headers, body) = service.get(path).await;
        assert_eq!((status, body.as_str()), (StatusCode::OK, "5"));
        assert_eq!(header(&headers, "etag"), Some("\"41\""));
        assert!(headers.contains_key("cache-status"));
    }
    assert_eq!(service.get("/maybe/a").await.2, "5");
    assert_eq!(service.get("/maybe/b").await.2, "none");
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
    }
    assert_eq!(service.get("/stock/refused").await.0, StatusCode::IM_A_TEAPOT);
    let long = "x".repeat(600);
    assert_eq!(service.get(&format!("/stock/{long}")).await.0, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_read_that_can_not_be_answered_is_503_and_tells_nothing_of_why() {
    let service = Service::start().await;
    service.down.store(true, Ordering::SeqCst);
    let (status, headers, body) = service.get("/stock/a").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(body.contains("/problems/database-unavailable") && !body.contains("hunter2"), "{body}");
    assert!(header(&headers, "retry-after").unwrap().parse::<u64>().unwrap() >= 1);
    eventually("loads are shed", || async {
        let (status, headers, body) = service.get("/stock/a").await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(header(&headers, "retry-after").unwrap().parse::<u64>().unwrap() >= 1);
        let shed = body.contains("/problems/load-shed");
        assert!(!shed || header(&headers, "cache-status") == Some("stockade; fwd=uri-miss; detail=shed"));
        shed
    })
    .await;
}
