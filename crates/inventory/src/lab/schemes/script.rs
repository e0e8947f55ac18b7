//! One script that looks and takes: nothing runs between its commands. Postgres knows nothing of it, and a Redis that
//! comes back empty has forgotten what was sold.

use deadpool_redis::redis::cmd;

use super::{Sale, SaleError, World};

const TAKE: &str = "
    if tonumber(redis.call('GET', KEYS[1]) or 0) < 1 then return 0 end
    redis.call('DECR', KEYS[1])
    return 1";

pub(in crate::lab) async fn sell(world: &World) -> Result<Sale, SaleError> {
    let mut redis = world.redis.clone();
    let taken: i64 = cmd("EVAL").arg(TAKE).arg(1).arg(&world.counter_key).query_async(&mut redis).await?;
    Ok(if taken == 1 { Sale::Sold } else { Sale::SoldOut })
}
