//! `Cached` as extractor and as answer.

use std::{
    borrow::Cow,
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
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
use futures_util::future::join_all;
use http_body_util::BodyExt;
use serde::{Deserialize, Serialize};
use stockade::{
    Cache, Redis, Resource,
    cache::CacheBuilder,
    extract::{Cached, FromCache},
};
use stockade_testbed::RedisServer;
use tokio::sync::RwLock;
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

    fn honours_no_cache(parts: &Parts, _: &App) -> bool {
        parts.headers.contains_key("x-operator")
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

type Answer = (StatusCode, HeaderMap, String);

struct Service {
    server: RedisServer,
    router: Router,
    app: App,
    rows: Arc<Mutex<HashMap<String, Stock>>>,
    down: Arc<AtomicBool>,
    /// Loads go through it before they read the row.
    gate: Arc<RwLock<()>>,
    loads: Arc<AtomicUsize>,
}

impl Service {
    async fn start() -> Self {
        Self::with(|builder| builder).await
    }

    async fn with(settings: impl FnOnce(CacheBuilder<Sku, Stock>) -> CacheBuilder<Sku, Stock>) -> Self {
        let server = RedisServer::start().await.unwrap();
        let redis = Redis::connect(server.url()).await.unwrap();
        let rows = Arc::new(Mutex::new(HashMap::from([("a".to_owned(), Stock { quantity: 5, version: 41 })])));
        let down = Arc::new(AtomicBool::new(false));
        let (gate, loads) = (Arc::new(RwLock::new(())), Arc::new(AtomicUsize::new(0)));
        let (table, off) = (Arc::clone(&rows), Arc::clone(&down));
        let (entry, count) = (Arc::clone(&gate), Arc::clone(&loads));
        let builder = Cache::builder(&redis).load_timeout(Duration::from_secs(5)).loader(move |sku: Sku| {
            let (table, entry) = (Arc::clone(&table), Arc::clone(&entry));
            let off = off.load(Ordering::SeqCst);
            count.fetch_add(1, Ordering::SeqCst);
            async move {
                let _open = entry.read().await;
                let row = table.lock().unwrap().get(&sku.0).cloned();
                if off { Err("the password is hunter2") } else { Ok(row) }
            }
        });
        let stocks = settings(builder).build();
        eventually("the cache is on line", || async { !stocks.is_degraded() }).await;
        let app = App { stocks };
        let router = Router::new()
            .route("/stock/{sku}", get(show).post(show))
            .route("/quantity/{sku}", get(show_quantity))
            .route("/parts/{sku}", get(show_parts))
            .route("/maybe/{sku}", get(show_maybe))
            .with_state(app.clone());
        Self { server, router, app, rows, down, gate, loads }
    }

    async fn ask(&self, method: &str, path: &str, if_none_match: Option<&str>) -> Answer {
        let headers: Vec<_> = if_none_match.into_iter().map(|tags| ("if-none-match", tags)).collect();
        self.send(method, path, &headers).await
    }

    async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        let request = Request::builder().method(method).uri(path);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let response = self.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (parts.status, parts.headers, String::from_utf8(body.to_vec()).unwrap())
    }

    async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, None).await
    }

    /// What the cache did for this request.
    async fn status(&self, headers: &[(&str, &str)]) -> String {
        let (_, headers, _) = self.send("GET", "/stock/a", headers).await;
        header(&headers, "cache-status").unwrap_or_default().to_owned()
    }

    fn loads(&self) -> usize {
        self.loads.load(Ordering::SeqCst)
    }

    /// Past the cache: nobody is told.
    fn write(&self, quantity: u64, version: u64) {
        self.rows.lock().unwrap().insert("a".to_owned(), Stock { quantity, version });
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

    service.write(6, 42);
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
        assert!(body.contains("create the resource first"), "{body}");
    }
    assert_eq!(service.get("/stock/refused").await.0, StatusCode::IM_A_TEAPOT);
    let long = "x".repeat(600);
    let (status, _, body) = service.get(&format!("/stock/{long}")).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(body.contains("use a shorter one") && !body.contains(&long), "{body}");
}

#[tokio::test]
async fn a_read_that_can_not_be_answered_is_503_and_tells_nothing_of_why() {
    let service = Service::start().await;
    service.down.store(true, Ordering::SeqCst);
    let (status, headers, body) = service.get("/stock/a").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(body.contains("/problems/database-unavailable") && !body.contains("hunter2"), "{body}");
    assert!(body.contains("send the request again after the time in Retry-After"), "{body}");
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
    eventually("a load that is asked for is shed", || async {
        service.status(&[OPERATOR, NO_CACHE]).await == "stockade; fwd=request; detail=shed"
    })
    .await;
}

const NO_CACHE: (&str, &str) = ("cache-control", "no-cache");
const OPERATOR: (&str, &str) = ("x-operator", "yes");

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
    assert_eq!((header(&headers, "etag"), header(&headers, "age")), (Some("\"42\""), Some("0")));
    assert_eq!(service.get("/stock/a").await.2, body, "it is there for all");
    // It was compared with what is there now, and so may be told that it has that.
    let (status, headers, _) =
        service.send("GET", "/stock/a", &[OPERATOR, NO_CACHE, ("if-none-match", "\"42\"")]).await;
    assert_eq!(status, StatusCode::NOT_MODIFIED);
    assert_eq!(header(&headers, "cache-status"), Some("stockade; fwd=request; stored"));
    assert_eq!(service.loads(), 3);

    service.rows.lock().unwrap().clear();
    let (status, headers, _) = service.send("GET", "/stock/a", &[OPERATOR, NO_CACHE]).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert_eq!(header(&headers, "cache-status"), Some("stockade; fwd=request; stored"));
    assert_eq!(service.status(&[]).await, "stockade; hit; detail=negative");
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
    let (mut both, ()) = tokio::join!(join_all([service.status(&[]), service.status(&[])]), open);
    both.sort();
    assert_eq!(both, ["stockade; fwd=uri-miss; collapsed", "stockade; fwd=uri-miss; stored"]);
    let told = service.status(&[]).await;
    let left = told.strip_prefix("stockade; hit; ttl=").and_then(|rest| rest.strip_suffix("; detail=local"));
    assert!(left.unwrap_or_else(|| panic!("{told}")).parse::<u64>().unwrap() <= 2);
    eventually("it has an age", || async {
        let (_, headers, _) = service.get("/stock/a").await;
        assert_eq!(header(&headers, "etag"), Some("\"41\""));
        header(&headers, "age") == Some("1")
    })
    .await;

    service.down.store(true, Ordering::SeqCst);
    eventually("it has expired", || async { service.status(&[]).await.contains("; ttl=-") }).await;
    for tags in ["\"41\"", "*"] {
        let (status, headers, body) = service.ask("GET", "/stock/a", Some(tags)).await;
        assert_eq!((status, body.as_str()), (StatusCode::OK, r#"{"quantity":5,"version":41}"#), "{tags}");
        let told = header(&headers, "cache-status").unwrap();
        let ago = told.strip_prefix("stockade; hit; ttl=-").unwrap_or_else(|| panic!("{told}"));
        assert!((1..60).contains(&ago.parse::<u64>().unwrap()), "{told}");
        assert_eq!((header(&headers, "etag"), header(&headers, "cache-control")), (None, Some("no-cache")));
        assert!(header(&headers, "age").unwrap().parse::<u64>().unwrap() >= 1);
    }
}

#[tokio::test]
async fn without_redis_answers_are_marked_and_never_304() {
    let service = Service::start().await;
    service.server.kill().await.unwrap();
    eventually("the outage is noticed", || async { service.app.stocks.is_degraded() }).await;
    for headers in [&[("if-none-match", "*")][..], &[("if-none-match", "\"41\""), OPERATOR, NO_CACHE]] {
        let (status, headers, body) = service.send("GET", "/stock/a", headers).await;
        assert_eq!((status, body.as_str()), (StatusCode::OK, r#"{"quantity":5,"version":41}"#));
        assert!(header(&headers, "cache-status").unwrap().ends_with("; detail=degraded"), "{headers:?}");
        assert_eq!(header(&headers, "etag"), None);
    }
    service.down.store(true, Ordering::SeqCst);
    eventually("loads are shed", || async {
        let (status, headers, body) = service.get("/stock/a").await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(header(&headers, "cache-status"), Some("stockade; fwd=uri-miss; detail=degraded"));
        body.contains("/problems/load-shed") && headers.contains_key("retry-after")
    })
    .await;
}
