//! `SETNX`, then `DEL`: right as long as nothing goes wrong. A holder that dies leaves a lock that nobody ever gets
//! again.

use deadpool_redis::redis::{AsyncCommands, RedisResult};
use tokio::time::Instant;

use super::{Sale, SaleError, World, owner, poll, read_think_write};

pub(in crate::lab) async fn sell(world: &World) -> Result<Sale, SaleError> {
    let mut redis = world.redis.clone();
    let asked = Instant::now();
    while !redis.set_nx(&world.lock_key, owner()).await? {
        poll(world, asked).await?;
    }
    let mut postgres = world.postgres.acquire().await?;
    let sale = read_think_write(world, &mut postgres).await;
    // A sale that is in the table stands, whatever becomes of the lock.
    let _: RedisResult<()> = redis.del(&world.lock_key).await;
    sale
}
