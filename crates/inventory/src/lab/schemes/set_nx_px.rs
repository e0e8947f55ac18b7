//! `SET NX PX` with a random value, and a script that deletes only that value: the lock of the Redis documentation. The
//! lock ends by itself, and with it the protection of a holder that is still at work.
//!
//! <https://redis.io/docs/latest/commands/set/#patterns>

use deadpool_redis::redis::{RedisError, aio::MultiplexedConnection, cmd};
use tokio::time::Instant;

use super::{Sale, SaleError, World, owner, poll, read_think_write};

const COMPARE_AND_DELETE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

pub(in crate::lab) async fn sell(world: &World) -> Result<Sale, SaleError> {
    let (mut redis, owner, asked) = (world.redis.clone(), owner(), Instant::now());
    while !take(&mut redis, world, &owner).await? {
        poll(world, asked).await?;
    }
    let mut postgres = world.postgres.acquire().await?;
    let sale = read_think_write(world, &mut postgres).await;
    // A sale that is in the table stands, whatever becomes of the lock.
    let _ = give_back(&mut redis, world, &owner).await;
    sale
}

pub(super) async fn take(redis: &mut MultiplexedConnection, world: &World, owner: &str) -> Result<bool, RedisError> {
    let mut set = cmd("SET");
    set.arg(&world.lock_key).arg(owner).arg("NX").arg("PX").arg(world.lease.as_millis().to_string());
    Ok(set.query_async::<Option<String>>(redis).await?.is_some())
}

pub(super) async fn give_back(redis: &mut MultiplexedConnection, world: &World, owner: &str) -> Result<(), RedisError> {
    cmd("EVAL").arg(COMPARE_AND_DELETE).arg(1).arg(&world.lock_key).arg(owner).query_async(redis).await
}
