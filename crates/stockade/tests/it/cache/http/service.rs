//! A service that shows rows of a table through a cache.

use std::{
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
use http_body_util::BodyExt;
use serde::{Deserialize, Serialize};
use stockade::{
    Cache, Redis,
    cache::{CacheBuilder, CacheInfo},
    extract::{Cached, EntityTag, FromCache},
};
use tokio::sync::RwLock;
use tower::ServiceExt;

use crate::{
    cache::support::Sku,
    world::{World, online},
};

impl<S: Send + Sync> FromRequestParts<S> for Sku {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        let Path(id) = Path::<String>::from_request_parts(parts, state).await.map_err(IntoResponse::into_response)?;
        if id == "refused" { Err(StatusCode::IM_A_TEAPOT.into_response()) } else { Ok(Self(id)) }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Stock {
    quantity: u64,
    version: u64,
}

#[derive(Clone)]
pub(super) struct App {
    pub(super) stocks: Cache<Sku, Stock>,
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

async fn show_or(stock: Option<Cached<Stock>>, info: CacheInfo) -> Response {
    stock.map_or_else(|| (StatusCode::NOT_FOUND, info, "none").into_response(), IntoResponse::into_response)
}

pub(super) type Answer = (StatusCode, HeaderMap, String);

pub(super) struct Service {
    pub(super) server: World,
    router: Router,
    pub(super) app: App,
    pub(super) rows: Arc<Mutex<HashMap<String, Stock>>>,
    pub(super) down: Arc<AtomicBool>,
    /// A load passes this gate before it reads the row.
    pub(super) gate: Arc<RwLock<()>>,
    loads: Arc<AtomicUsize>,
}

impl Service {
    pub(super) async fn start() -> Self {
        Self::with(|builder| builder).await
    }

    pub(super) async fn with(settings: impl FnOnce(CacheBuilder<Sku, Stock>) -> CacheBuilder<Sku, Stock>) -> Self {
        let server = World::start().await;
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
        let app = App { stocks: online(settings(builder)).await };
        let router = Router::new()
            .route("/stock/{sku}", get(show).post(show))
            .route("/quantity/{sku}", get(show_quantity))
            .route("/parts/{sku}", get(show_parts))
            .route("/maybe/{sku}", get(show_maybe))
            .route("/or/{sku}", get(show_or))
            .route("/misplaced/{sku}", get(|info: CacheInfo, stock: Option<Cached<Stock>>| show_or(stock, info)))
            .with_state(app.clone());
        Self { server, router, app, rows, down, gate, loads }
    }

    /// The `ETag` of this version of `a`.
    pub(super) fn tag(&self, version: u64) -> String {
        EntityTag::of::<Stock, _>(&self.app, &Sku("a".to_owned()), version).unwrap().to_string()
    }

    pub(super) async fn ask(&self, method: &str, path: &str, if_none_match: Option<&str>) -> Answer {
        let request = Request::builder().method(method).uri(path);
        let request = if_none_match.into_iter().fold(request, |request, tags| request.header("if-none-match", tags));
        let response = self.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (parts.status, parts.headers, String::from_utf8(body.to_vec()).unwrap())
    }

    pub(super) async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, None).await
    }

    /// The value of the header `Cache-Status`.
    pub(super) async fn status(&self) -> String {
        let (_, headers, _) = self.get("/stock/a").await;
        header(&headers, "cache-status").unwrap_or_default().to_owned()
    }

    pub(super) async fn end(self) {
        self.server.end().await;
    }

    pub(super) fn loads(&self) -> usize {
        self.loads.load(Ordering::SeqCst)
    }

    /// Writes the row without telling the cache.
    pub(super) fn write(&self, quantity: u64, version: u64) {
        self.rows.lock().unwrap().insert("a".to_owned(), Stock { quantity, version });
    }
}

pub(super) fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap())
}
