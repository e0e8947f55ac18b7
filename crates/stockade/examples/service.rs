//! A small complete service: a write under its lock and its fence, a cached read, the relay, metrics, a clean shutdown.
//!
//! ```text
//! cargo build -p stockade --features postgres --example service
//! cargo run -p stockade-testbed -- exec -- target/debug/examples/service   # with a Redis and a PostgreSQL of its own
//! curl -si -XPOST localhost:8080/stock/85123A/sell; curl -si localhost:8080/stock/85123A; curl -s localhost:8080/metrics
//! ```

use std::{borrow::Cow, env, error::Error, time::Duration};

use axum::{
    Router,
    extract::{FromRequestParts, Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use serde::{Deserialize, Serialize};
use sqlx::{PgPool, postgres::PgPoolOptions};
use stockade::{
    Cache, Fence, Locks, Redis, Resource,
    extract::{Cached, FromCache},
    postgres::{self, Relay, Timeouts, WriteError},
    route_lock::RouteLock,
};
use tokio::{
    net::TcpListener,
    signal::{
        ctrl_c,
        unix::{SignalKind, signal},
    },
    sync::oneshot,
    time::sleep,
};

const LIMIT: Duration = Duration::from_secs(5);
const TABLE: &str = "
    create table if not exists stock (sku text primary key, quantity bigint not null, version bigint not null);
    insert into stock values ('85123A', 20, 1) on conflict do nothing";

#[derive(Clone, Deserialize, FromRequestParts)]
#[from_request(via(Path))]
struct Sku(String); // path parameter, resource of the lock and key of the cache in one

impl Resource for Sku {
    const KIND: &'static str = "stock";
    fn id(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.0)
    }
}

#[derive(Serialize, Deserialize)]
struct Stock {
    quantity: i64,
    version: i64,
}

#[derive(Clone)]
struct App {
    pool: PgPool,
    stocks: Cache<Sku, Stock>,
}

impl FromCache<App> for Stock {
    type Key = Sku;
    fn cache(app: &App) -> &Cache<Sku, Self> {
        &app.stocks
    }
    fn version(&self) -> Option<u64> {
        self.version.try_into().ok()
    }
}

async fn load(pool: PgPool, sku: Sku) -> Result<Option<Stock>, sqlx::Error> {
    let row = sqlx::query_as("select quantity, version from stock where sku = $1").bind(sku.0);
    Ok(row.fetch_optional(&pool).await?.map(|(quantity, version)| Stock { quantity, version }))
}

async fn sell(State(app): State<App>, fence: Fence, sku: Sku) -> Result<Response, WriteError> {
    let mut tx = fence.begin(&app.pool).await?;
    // Reading and writing may be two statements: the fence keeps others out in between.
    let found = sqlx::query_scalar("select quantity from stock where sku = $1").bind(&sku.0);
    let quantity: Option<i64> = found.fetch_optional(&mut *tx).await?;
    let left = match quantity {
        None => return Ok((StatusCode::NOT_FOUND, "no such SKU").into_response()),
        Some(..=0) => return Ok((StatusCode::CONFLICT, "sold out").into_response()),
        Some(quantity) => quantity - 1,
    };
    let write = sqlx::query("update stock set quantity = $2, version = version + 1 where sku = $1").bind(&sku.0);
    write.bind(left).execute(&mut *tx).await?;
    tx.invalidate(&app.stocks, &sku);
    tx.commit().await?;
    Ok((fence, format!("{left} left\n")).into_response())
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "says where it listens")]
pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt::init(); // what goes wrong is in the log, and not in the answers
    let metrics = PrometheusBuilder::new() // before the first lock and the first cache
        .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), stockade::metrics::BUCKETS)? // for the dashboards
        .install_recorder()?;
    stockade::metrics::describe();
    let redis = Redis::connect(env::var("REDIS_URL")?).await?;
    let options = postgres::options(env::var("DATABASE_URL")?.parse()?, &Timeouts::default());
    let pool = postgres::on_primary(PgPoolOptions::new()).acquire_timeout(Duration::from_secs(1));
    let pool = pool.connect_with(options).await?;
    postgres::install(&pool).await?;
    sqlx::raw_sql(TABLE).execute(&pool).await?;
    let (locks, rows, shown) = (Locks::new(&redis), pool.clone(), metrics.clone());
    let stocks = Cache::builder(&redis)
        .load_timeout(Duration::from_secs(4)) // longer than a wait for the pool and a statement together
        .loader(move |sku| load(rows.clone(), sku))
        .build();
    let relay = Relay::spawn(pool.clone(), [stocks.invalidator()]);
    let app = Router::new()
        .route("/stock/{sku}", get(async |stock: Cached<Stock>| stock))
        .route("/stock/{sku}/sell", post(sell).route_layer(RouteLock::by::<Sku>(&locks)))
        .route("/metrics", get(move || async move { shown.render() }))
        .with_state(App { pool, stocks: stocks.clone() });
    let listener = TcpListener::bind(env::var("LISTEN_ADDR").unwrap_or_else(|_| "127.0.0.1:8080".to_owned())).await?;
    println!("listening on http://{}", listener.local_addr()?);
    let upkeep = async {
        loop {
            sleep(LIMIT).await;
            metrics.run_upkeep(); // else histograms grow until somebody asks for them
        }
    };
    let mut sigterm = signal(SignalKind::terminate())?; // from Docker and Kubernetes
    let (end, asked_to_end) = oneshot::channel();
    let ended = async move {
        tokio::select! { _ = ctrl_c() => {}, _ = sigterm.recv() => {} }
        end.send(()).unwrap_or_default();
        sleep(LIMIT).await; // a client that never finishes its request would keep the server for ever
    };
    let server = axum::serve(listener, app).with_graceful_shutdown(async { asked_to_end.await.unwrap_or_default() });
    tokio::select! { served = server => served?, () = ended => {}, () = upkeep => {} }
    // Writes whose client has gone still go on, and invalidate. So the locks come first.
    locks.shutdown(LIMIT).await;
    tokio::join!(stocks.shutdown(LIMIT), relay.shutdown(LIMIT));
    Ok(())
}
