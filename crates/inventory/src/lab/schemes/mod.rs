//! One file for each way to sell the last unit once.
//!
//! The schemes that read before they write share [`read_think_write`], which loses updates wherever two calls of it
//! overlap. Each scheme keeps them apart in its own way.

pub(super) mod conditional_update;
pub(super) mod decrby;
pub(super) mod flash;
pub(super) mod for_update;
pub(super) mod no_lock;
pub(super) mod optimistic;
pub(super) mod redlock;
pub(super) mod script;
pub(super) mod set_nx_px;
pub(super) mod setnx_del;
pub(super) mod setnx_getset;
pub(super) mod stockade;

use std::time::Duration;

use rand::Rng;
use sqlx::PgConnection;
use tokio::time::{Instant, sleep};

use super::{
    Failure,
    sale::{Sale, SaleError},
    world::World,
};

/// The critical section: reads the stock, lets the buyer think, and writes the new stock.
async fn read_think_write(world: &World, postgres: &mut PgConnection) -> Result<Sale, SaleError> {
    let quantity: i64 = sqlx::query_scalar("select quantity from stock").fetch_one(&mut *postgres).await?;
    if quantity < 1 {
        return Ok(Sale::SoldOut);
    }
    world.think().await?;
    sqlx::query("update stock set quantity = $1").bind(quantity - 1).execute(postgres).await?;
    Ok(Sale::Sold)
}

/// The pause of a buyer that polls for a lock: 2 to 6 ms, so that waiting buyers do not ask in step.
async fn poll(world: &World, since: Instant) -> Result<(), SaleError> {
    if since.elapsed() > world.patience {
        return Err(SaleError::Busy("the lock was not to be had in time"));
    }
    let pause = rand::rng().random_range(2_000..6_000);
    sleep(Duration::from_micros(pause)).await;
    Ok(())
}

/// A value that no other holder has.
fn owner() -> String {
    format!("{:032x}", rand::rng().random::<u128>())
}
