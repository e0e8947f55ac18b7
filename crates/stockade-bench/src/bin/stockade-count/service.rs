use std::{convert::Infallible, time::Duration};

use axum::{
    Json, Router,
    body::{Body, to_bytes},
    extract::{Path, Request},
    http::{StatusCode, header::HeaderValue},
    response::{IntoResponse, Response},
    routing::get,
};
use inventory::{
    app::{App, Limits, LoggedAnswers, Shared},
    domain::{Quantity, Sku, Stock},
    flash::{Flash, FlashSettings},
    http::{app, around},
    probe::Probe,
};
use sqlx::PgPool;
use stockade::{
    Locks, Redis,
    cache::{Cache, WarmProgress},
};
use time::OffsetDateTime;
use tokio::{task::yield_now, time::sleep};
use tower::ServiceExt;

use crate::Failure;

/// Longer than any request takes or waits.
const LIMIT: Duration = Duration::from_secs(60);
/// Longer than any path takes under a tool that makes it fifty times slower: a delegation is renewed by another task of
/// the same thread.
const LEASE: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(2);
/// The body of an answer is short.
const BODY: usize = 1 << 16;
const LOCAL: &str = "detail=local";

/// The service without its sockets and without a database: its values come from a loader that makes them up.
pub(crate) struct Service {
    fixed: Router,
    stock: Router,
}

impl Service {
    pub(crate) fn new(redis: &Redis) -> Result<Self, Failure> {
        let load = |sku: Sku| async { Ok::<_, Infallible>(stock(sku).ok()) };
        // No path asks the database, so nobody connects.
        let nowhere = PgPool::connect_lazy("postgres://127.0.0.1/none")?;
        let app = app(App::from(Shared {
            pg: nowhere.clone(),
            probe: Probe::new(nowhere),
            locks: Locks::builder().lease(LEASE).delegation_lease(LEASE).redis(redis),
            shared_reads: true,
            stocks: Cache::builder(redis).name("stock").under_locks().loader(load).build(),
            filter: None,
            limits: Limits { lock_wait: LIMIT, read_wait: LIMIT, request: LIMIT, idempotency_ttl: LIMIT },
            warm_up: WarmProgress::default(),
            answers: LoggedAnswers::Refusals,
            draining: Default::default(),
            flash: Flash::new(redis, LIMIT, FlashSettings { durable: false, backlog: 1, database_timeout: LIMIT }),
            lab: None,
            attacks: None,
        }));
        let fixed = around(Router::new().route("/static/{sku}", get(fixed)), LoggedAnswers::Refusals, LIMIT);
        Ok(Self { fixed, stock: app })
    }

    /// Waits until a read is answered under a delegation, from the memory of the process.
    pub(crate) async fn warm(&self) -> Result<(), Failure> {
        let local = |status: &HeaderValue| status.to_str().is_ok_and(|status| status.ends_with(LOCAL));
        while !answer(&self.stock, "/stock/85123A").await?.headers().get("cache-status").is_some_and(local) {
            sleep(PAUSE).await;
        }
        Ok(())
    }

    pub(crate) async fn fixed(&self) -> Result<(), Failure> {
        read(&self.fixed, "/static/85123A").await
    }

    pub(crate) async fn read(&self) -> Result<(), Failure> {
        read(&self.stock, "/stock/85123A").await
    }
}

async fn fixed(Path(sku): Path<String>) -> Result<Json<Stock>, Response> {
    let sku = Sku::new(&sku).map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()).into_response())?;
    stock(sku).map(Json).map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response())
}

fn stock(sku: Sku) -> Result<Stock, Failure> {
    Ok(Stock { sku, quantity: Quantity::new(7)?, version: 1, updated_at: OffsetDateTime::UNIX_EPOCH })
}

/// Reads the answer to its end, and lets the tasks of this thread run: heartbeats and renewals.
async fn read(router: &Router, path: &'static str) -> Result<(), Failure> {
    let response = answer(router, path).await?;
    let status = response.status();
    to_bytes(response.into_body(), BODY).await?;
    yield_now().await;
    if status == StatusCode::OK { Ok(()) } else { Err(format!("{path} was answered {status}").into()) }
}

async fn answer(router: &Router, path: &'static str) -> Result<Response, Failure> {
    Ok(router.clone().oneshot(Request::get(path).body(Body::empty())?).await?)
}
