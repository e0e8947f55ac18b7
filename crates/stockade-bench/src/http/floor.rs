use std::{env, process::ExitCode};

use axum::{
    Json, Router,
    extract::{Path, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use inventory::{
    db::{self, connect::tested_when_idle, movement::Line},
    domain::{Delta, Kind, Sku, Stock},
};
use redis::aio::MultiplexedConnection;
use sqlx::{PgPool, postgres::PgPoolOptions};
use time::OffsetDateTime;
use tokio::net::TcpListener;

use crate::contender::Failure;

/// The connections to Postgres: as many as the service has, and tested as rarely.
const CONNECTIONS: u32 = 16;

#[derive(Clone)]
pub(super) struct Floor {
    pub(super) pg: PgPool,
    pub(super) redis: MultiplexedConnection,
}

/// Serves handlers without lock, fence and cache, and without the layers of the service.
pub(crate) async fn serve() -> Result<ExitCode, Failure> {
    let options = tested_when_idle(PgPoolOptions::new()).max_connections(CONNECTIONS);
    let pg = options.connect(&env::var("DATABASE_URL")?).await?;
    let app = routes().with_state(Floor { pg, redis: redis().await? });
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app).await?;
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn redis() -> Result<MultiplexedConnection, Failure> {
    Ok(redis::Client::open(env::var("REDIS_URL")?)?.get_multiplexed_async_connection().await?)
}

pub(super) fn routes() -> Router<Floor> {
    Router::new()
        .route("/static/{sku}", get(fixed))
        .route("/select/{sku}", get(select))
        .route("/redis/{sku}", get(from_redis))
        .route("/for-update/{sku}", post(for_update))
        .route("/conditional/{sku}", post(conditional))
}

fn failed(error: impl std::fmt::Display) -> Response {
    (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response()
}

async fn fixed(Path(sku): Path<String>) -> Result<Json<Stock>, Response> {
    let sku = Sku::new(&sku).map_err(failed)?;
    let quantity = inventory::domain::Quantity::new(7).map_err(failed)?;
    Ok(Json(Stock { sku, quantity, version: 1, updated_at: OffsetDateTime::UNIX_EPOCH }))
}

async fn select(State(floor): State<Floor>, Path(sku): Path<String>) -> Result<Json<Stock>, Response> {
    let sku = Sku::new(&sku).map_err(failed)?;
    let stock = db::stock::find(&floor.pg, &sku).await.map_err(failed)?;
    stock.map(Json).ok_or_else(|| StatusCode::NOT_FOUND.into_response())
}

async fn from_redis(State(mut floor): State<Floor>, Path(sku): Path<String>) -> Result<Response, Response> {
    let found: Option<Vec<u8>> =
        redis::cmd("GET").arg(format!("floor:{sku}")).query_async(&mut floor.redis).await.map_err(failed)?;
    let found = found.ok_or_else(|| StatusCode::NOT_FOUND.into_response())?;
    Ok(([(header::CONTENT_TYPE, "application/json")], found).into_response())
}

/// A floor for adjustments: read, compute and write, kept apart by the row's own lock, which the read takes.
async fn for_update(State(floor): State<Floor>, Path(sku): Path<String>) -> Result<Json<Stock>, Response> {
    let sku = Sku::new(&sku).map_err(failed)?;
    let delta = Delta::new(1).map_err(failed)?;
    let mut tx = floor.pg.begin().await.map_err(failed)?;
    let find = "select sku, quantity, version, updated_at from stock where sku = $1 for update";
    let find = sqlx::query_as(find).bind(sku.as_str()).fetch_optional(&mut *tx);
    let old: Stock = find.await.map_err(failed)?.ok_or_else(|| failed("no such SKU"))?;
    let quantity = old.quantity.apply(delta).map_err(failed)?;
    let line = Line { kind: Kind::Adjustment, delta: Some(delta), reference: None, fencing_token: 1 };
    let new = db::stock::update(&mut tx, &sku, quantity, &line).await.map_err(failed)?;
    tx.commit().await.map_err(failed)?;
    Ok(Json(new))
}

/// The least floor for adjustments: a statement that decides by its condition and writes the ledger.
async fn conditional(State(floor): State<Floor>, Path(sku): Path<String>) -> Result<Response, Response> {
    const CHANGE: &str = "
        with changed as (
            update stock set quantity = quantity + 1, version = nextval('stock_version'), updated_at = now()
            where sku = $1 and quantity + 1 <= 1000000000 returning sku, quantity, version
        )
        insert into movement (sku, kind, delta, quantity, version)
        select sku, 'adjustment', 1, quantity, version from changed";
    let changed = sqlx::query(CHANGE).bind(sku).execute(&floor.pg).await.map_err(failed)?;
    if changed.rows_affected() == 1 { Ok("changed".into_response()) } else { Err(failed("no such SKU")) }
}
