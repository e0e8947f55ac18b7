//! `DECRBY` on a counter: takes a unit and gives it back when there was none. The counter is below zero in between, and
//! a buyer that dies there leaves it so. Postgres knows nothing of the sale.

use deadpool_redis::redis::AsyncCommands;

use super::{Sale, SaleError, World};

pub(in crate::lab) async fn sell(world: &World) -> Result<Sale, SaleError> {
    let mut redis = world.redis.clone();
    let left: i64 = redis.decr(&world.counter_key, 1).await?;
    if left >= 0 {
        return Ok(Sale::Sold);
    }
    let () = redis.incr(&world.counter_key, 1).await?;
    Ok(Sale::SoldOut)
}
