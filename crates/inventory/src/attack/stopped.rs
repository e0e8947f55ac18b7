//! A holder that stands still beyond its lease, as after a long page-in or in a virtual machine that is moved: its
//! whole runtime stands still, the renewal of its lock too.

use std::{sync::mpsc as blocking, time::Duration};

use sqlx::{PgConnection, PgPool, postgres::PgPoolOptions};
use stockade::{
    Locks,
    lock::{Fence, Guard},
};
use tokio::{runtime, sync::mpsc, task::spawn_blocking, time::Instant};

use super::{
    AttackError,
    goods::{self, GOODS, Goods},
    ground::Ground,
    item::Item,
};
use crate::lab::Count;

/// The lease of the holder that is stopped.
const LEASE: Duration = Duration::from_millis(400);

/// How long a buyer waits for the lock, and a stopped holder for its successor.
const PATIENCE: Duration = Duration::from_secs(5);

const ROUNDS: i64 = 10;

const SET: &str =
    "create table if not exists \"lab-attack\".stopped (side text primary key, left_over bigint, sold bigint)";
const RESET: &str = "insert into \"lab-attack\".stopped values ($1, $2, 0)
    on conflict (side) do update set left_over = excluded.left_over, sold = 0";
const READ: &str = "select left_over from \"lab-attack\".stopped where side = $1";
const WRITE: &str = "update \"lab-attack\".stopped set left_over = $2, sold = sold + 1 where side = $1";
const COUNT: &str = "select left_over, sold from \"lab-attack\".stopped where side = $1";

/// Units at the start: more than are sold.
const UNITS: i64 = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Fenced,
    Unfenced,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sale {
    Sold,
    /// Postgres refused the claim of the fence.
    Refused,
    /// The holder was not told to go on.
    Left,
}

pub(super) async fn run(ground: &Ground) -> Result<(), AttackError> {
    goods::make(&ground.place.pg).await?;
    sqlx::query(SET).execute(&ground.place.pg).await?;
    for side in [Side::Fenced, Side::Unfenced] {
        sqlx::query(RESET).bind(side.name()).bind(UNITS).execute(&ground.place.pg).await?;
    }
    ground.begin();
    let (on, off) = (&ground.on.goods, &ground.off.goods);
    let sides = tokio::try_join!(rounds(ground, on, Side::Fenced), rounds(ground, off, Side::Unfenced))?;
    ground.sold(sides.into());
    Ok(())
}

/// In each round a holder is stopped in the middle of a sale, and its successor sells meanwhile. The meter of `goods`
/// counts both.
async fn rounds(ground: &Ground, goods: &Goods, side: Side) -> Result<Count, AttackError> {
    let (stopped, mut stops) = mpsc::channel(1);
    let (go_on, goes_on) = blocking::sync_channel(1);
    let (redis, options) = (ground.place.redis.clone(), ground.place.options.clone());
    let of_holder = goods.clone();
    let holder = spawn_blocking(move || {
        let holding = async {
            // Connected before it has the lock: its lease is short.
            let pool = PgPoolOptions::new().max_connections(1).connect_with(options).await?;
            let locks = Locks::builder().lease(LEASE).redis(&redis);
            let meter = of_holder.meter();
            for _ in 0..ROUNDS {
                let stop = || match stopped.try_send(()) {
                    // Blocks the only thread of this runtime.
                    Ok(()) => goes_on.recv_timeout(PATIENCE).is_ok(),
                    Err(_) => false,
                };
                let since = Instant::now();
                let guard = locks.write(&side.item()).wait(PATIENCE).acquire().await?;
                match sell(&pool, &guard, side, stop).await? {
                    Sale::Sold => meter.count(since, true),
                    Sale::Refused => meter.count(since, false),
                    Sale::Left => break,
                }
                let _ = guard.release().await;
            }
            locks.shutdown(LEASE).await;
            pool.close().await;
            Ok::<_, AttackError>(())
        };
        let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(AttackError::Runtime)?;
        runtime.block_on(holding)
    });
    while stops.recv().await.is_some() {
        let since = Instant::now();
        let guard = ground.place.locks.write(&side.item()).wait(PATIENCE).acquire().await?;
        let sold = sell(&ground.place.pg, &guard, side, || true).await;
        let _ = guard.release().await;
        goods.meter().count(since, sold? == Sale::Sold);
        // A holder that has ended needs no signal.
        let _ = go_on.try_send(());
    }
    holder.await.map_err(|_| AttackError::Thread)??;
    let (left, sold) = sqlx::query_as(COUNT).bind(side.name()).fetch_one(&ground.place.pg).await?;
    Ok(Count::new(UNITS, sold, left))
}

/// Sells a unit. `pause` runs between read and write, and returns whether to write.
async fn sell(pool: &PgPool, guard: &Guard, side: Side, pause: impl FnOnce() -> bool) -> Result<Sale, AttackError> {
    if side == Side::Fenced {
        guard.fence().claim(pool).await?;
    }
    let left: i64 = sqlx::query_scalar(READ).bind(side.name()).fetch_one(pool).await?;
    if !pause() {
        return Ok(Sale::Left);
    }
    let write = sqlx::query(WRITE).bind(side.name()).bind(left - 1);
    match side {
        Side::Fenced => {
            let mut tx = pool.begin().await?;
            if !claim(&mut tx, &guard.fence()).await? {
                return Ok(Sale::Refused);
            }
            write.execute(&mut *tx).await?;
            tx.commit().await?;
        }
        Side::Unfenced => {
            write.execute(pool).await?;
        }
    }
    Ok(Sale::Sold)
}

/// Whether Postgres takes the claim. It is made as on another driver: [`Fence::begin`] would ask the guard first, which
/// knows by its own clock that its lease has ended.
async fn claim(connection: &mut PgConnection, fence: &Fence) -> Result<bool, AttackError> {
    let args = fence.claim_args()?;
    let claim = sqlx::query(Fence::CLAIM_SQL).bind(args.resource).bind(args.token).bind(args.owner);
    Ok(claim.fetch_optional(connection).await?.is_some())
}

impl Side {
    fn name(self) -> &'static str {
        match self {
            Self::Fenced => "fenced",
            Self::Unfenced => "unfenced",
        }
    }

    /// The item that the lock protects.
    fn item(self) -> Item {
        Item(GOODS + u32::from(self == Self::Fenced))
    }
}
