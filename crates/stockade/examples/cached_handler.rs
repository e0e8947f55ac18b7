//! A handler that answers from the cache: `Cache-Status`, `Age`, `ETag`, 304 and 404 come with the type.
//!
//! ```text
//! cargo run -p stockade --example cached_handler      # REDIS_URL=redis://127.0.0.1:6379 to share with other instances
//! curl -si localhost:8080/stock/85123A --etag-save tag; curl -si localhost:8080/stock/85123A --etag-compare tag
//! curl -si -XPOST localhost:8080/stock/85123A/sell; curl -si localhost:8080/stock/85123A
//! ```

use std::{
    borrow::Cow,
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    Router,
    extract::{FromRequestParts, Path, State, rejection::PathRejection},
    http::{StatusCode, request::Parts},
    routing::{get, post},
};
use serde::{Deserialize, Serialize};
use stockade::{
    Cache, Redis, Resource,
    extract::{Cached, FromCache},
};

/// Extractor, cache key and, elsewhere, lock resource in one.
#[derive(Clone)]
struct Sku(String);

impl Resource for Sku {
    const KIND: &'static str = "stock";

    fn id(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.0)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Sku {
    type Rejection = PathRejection;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, PathRejection> {
        let Path(sku) = Path::from_request_parts(parts, state).await?;
        Ok(Self(sku))
    }
}

#[derive(Clone, Serialize, Deserialize)]
struct Stock {
    quantity: u64,
    version: u64,
}

/// Stands for a table of a real database.
type Table = Arc<Mutex<HashMap<String, Stock>>>;

#[derive(Clone)]
struct App {
    stocks: Cache<Sku, Stock>,
    table: Table,
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

async fn sell(State(app): State<App>, sku: Sku) -> StatusCode {
    {
        let mut rows = app.table.lock().unwrap_or_else(PoisonError::into_inner);
        match rows.get_mut(&sku.0) {
            Some(stock) if stock.quantity > 0 => {
                *stock = Stock { quantity: stock.quantity - 1, version: stock.version + 1 };
            }
            Some(_) => return StatusCode::CONFLICT,
            None => return StatusCode::NOT_FOUND,
        }
    }
    // After the commit. With Postgres, `Tx::invalidate` does it even if this process dies here.
    match app.stocks.invalidate(&sku).await {
        Ok(()) => StatusCode::NO_CONTENT,
        Err(_) => StatusCode::ACCEPTED,
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let table = Table::new(Mutex::new(HashMap::from([("85123A".to_owned(), Stock { quantity: 6, version: 1 })])));
    let stocks = match std::env::var("REDIS_URL") {
        Ok(url) => Cache::builder(&Redis::builder(url).allow_eviction().connect().await?),
        Err(_) => Cache::memory(),
    };
    let rows = Arc::clone(&table);
    let stocks = stocks
        .ttl(Duration::from_secs(300)..=Duration::from_secs(600))
        .loader(move |sku: Sku| {
            let row = rows.lock().unwrap_or_else(PoisonError::into_inner).get(&sku.0).cloned();
            async { Ok::<_, std::io::Error>(row) }
        })
        .build();
    let app = Router::new()
        .route("/stock/{sku}", get(show))
        .route("/stock/{sku}/sell", post(sell))
        .with_state(App { stocks, table });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
    axum::serve(listener, app).await?;
    Ok(())
}
