use std::sync::Arc;

use sqlx::{PgPool, postgres::PgPoolOptions};
use stockade_testbed::{ChildProcess, PostgresServer, RedisServer};
use tokio::sync::Mutex;

use super::{share::Share, wire::Wire};
use crate::{
    child,
    contender::{Contender, Failure},
};

/// How many SKUs there are.
pub(super) const SKUS: u32 = 2_000;
/// The SKUs of the flash sales: of one whose reservations are answered once Redis has them, and of one whose
/// reservations are answered once PostgreSQL has them.
pub(super) const FLASH: [&str; 2] = ["FLASH", "DURABLE"];
/// How many connections ask at once.
pub(crate) const TASKS: u32 = 64;

/// The service and the floors beneath it, over one PostgreSQL and one Redis.
pub(crate) struct World {
    pub(super) service: String,
    pub(super) floor: String,
    /// The floor in a process that is otherwise that of the service.
    pub(super) within: String,
    _parts: [ChildProcess; 3],
    database: String,
    redis: String,
}

impl World {
    /// Starts all on a database that holds the SKUs, and returns once they can answer.
    pub(crate) async fn start(redis: &RedisServer, postgres: &PostgresServer) -> Result<Self, Failure> {
        let (database, redis_url) = (postgres.url(), redis.url());
        let pool = PgPoolOptions::new().max_connections(1).connect(&database).await?;
        fill(&pool, redis).await?;
        pool.close().await;
        let settings = settings(&database, &redis_url);
        let mut parts =
            [child::start("serve", &settings)?, child::start("floor", &settings)?, child::start("within", &settings)?];
        let mut addresses = [const { String::new() }; 3];
        for (part, address) in parts.iter_mut().zip(&mut addresses) {
            *address = part.says("listening on http://", child::LIMIT).await?;
        }
        let [service, floor, within] = addresses;
        Ok(Self { service, floor, within, _parts: parts, database, redis: redis_url })
    }

    /// One more service, with durable reservations, and its address. It would take part in the invalidations of the
    /// other tables.
    pub(super) async fn durable(&self) -> Result<(ChildProcess, String), Failure> {
        let settings = [&settings(&self.database, &self.redis)[..], &[("FLASH_DURABLE", "on")]].concat();
        let mut part = child::start("serve", &settings)?;
        let address = part.says("listening on http://", child::LIMIT).await?;
        Ok((part, address))
    }
}

fn settings<'a>(database: &'a str, redis: &'a str) -> [(&'static str, &'a str); 6] {
    [
        ("DATABASE_URL", database),
        ("REDIS_URL", redis),
        ("LISTEN_ADDR", "127.0.0.1:0"),
        ("OPS_ADDR", "127.0.0.1:0"),
        ("CACHE_WARM_KEYS", "2000"),
        // Connections wait while others have their turn.
        ("HEADER_TIMEOUT", "10m"),
    ]
}

async fn fill(pool: &PgPool, redis: &RedisServer) -> Result<(), Failure> {
    inventory::db::schema::migrate(pool).await?;
    // With their lines of the ledger, in which a warm-up looks for SKUs.
    const STOCK: &str = "with filled as (
            insert into stock (sku, quantity) select 'S' || n, 7 from generate_series(0, $1 - 1) n returning *
        )
        insert into movement (sku, kind, delta, quantity, version)
        select sku, 'seed', quantity, quantity, version from filled";
    sqlx::query(STOCK).bind(i32::try_from(SKUS)?).execute(pool).await?;
    sqlx::query("insert into stock (sku, quantity) select sku, 1000000 from unnest($1::text[]) sku")
        .bind(FLASH)
        .execute(pool)
        .await?;
    let mut connection = redis::Client::open(redis.url())?.get_multiplexed_async_connection().await?;
    for sku in 0..SKUS {
        let text =
            format!("{{\"sku\":\"S{sku}\",\"quantity\":7,\"version\":1,\"updated_at\":\"1970-01-01T00:00:00Z\"}}");
        redis::cmd("SET").arg(format!("floor:S{sku}")).arg(text).exec_async(&mut connection).await?;
    }
    Ok(())
}

/// One connection for each task, which sends the requests that `request` makes of the task's number and its turn.
pub(super) async fn contender(
    name: &'static str,
    address: &str,
    request: impl Fn(u32, u32) -> Vec<u8> + Send + Sync + 'static,
) -> Result<Contender, Failure> {
    told(name, address, request, |_| ()).await
}

/// [`contender`], and counts what its answers say of themselves.
pub(super) async fn counted(
    name: &'static str,
    address: &str,
    request: impl Fn(u32, u32) -> Vec<u8> + Send + Sync + 'static,
    mark: &'static str,
) -> Result<(Contender, Arc<Share>), Failure> {
    let share = Arc::new(Share::new(name, mark));
    let counted = Arc::clone(&share);
    Ok((told(name, address, request, move |head| counted.count(head)).await?, share))
}

/// [`contender`], and tells of the head of each answer.
async fn told(
    name: &'static str,
    address: &str,
    request: impl Fn(u32, u32) -> Vec<u8> + Send + Sync + 'static,
    told: impl Fn(&str) + Send + Sync + 'static,
) -> Result<Contender, Failure> {
    let mut wires = Vec::new();
    for _ in 0..TASKS {
        wires.push(Mutex::new((Wire::connect(address).await?, 0)));
    }
    let (wires, request, told) = (Arc::new(wires), Arc::new(request), Arc::new(told));
    Ok(Contender::new(name, move |task| {
        let (wires, request, told) = (Arc::clone(&wires), Arc::clone(&request), Arc::clone(&told));
        async move {
            let mut wire = wires[task as usize].lock().await;
            let (wire, turn) = &mut *wire;
            *turn += 1;
            told(&wire.exchange(&request(task, *turn)).await?);
            Ok(())
        }
    }))
}

/// The SKU of a task's turn: all of them are asked for, and no two tasks for one at the same time for long.
pub(super) fn sku(task: u32, turn: u32, of: u32) -> u32 {
    (task.wrapping_mul(31) + turn.wrapping_mul(7)) % of
}
