//! `SETNX` of the time at which the lock ends, and `GETSET` to take one over that has ended. It compares clocks of
//! different machines, nothing keeps a slow holder from writing, and the loser of a `GETSET` has changed the end of the
//! winner's lock.

use std::time::{SystemTime, UNIX_EPOCH};

use deadpool_redis::redis::{AsyncCommands, RedisResult};
use tokio::time::Instant;

use super::{Failure, Sale, SaleError, World, poll, read_think_write};

pub(in crate::lab) async fn sell(world: &World) -> Result<Sale, SaleError> {
    let mut redis = world.redis.clone();
    let asked = Instant::now();
    let end = loop {
        let end = now()? + world.lease.as_millis();
        if redis.set_nx(&world.lock_key, end.to_string()).await? {
            break end;
        }
        let found: Option<String> = redis.get(&world.lock_key).await?;
        if ended(found.as_deref())? {
            let before: Option<String> = redis.getset(&world.lock_key, end.to_string()).await?;
            if before == found {
                break end;
            }
        }
        poll(world, asked).await?;
    };
    let mut postgres = world.postgres.acquire().await?;
    let sale = read_think_write(world, &mut postgres).await;
    if now()? < end {
        // A sale that is in the table stands, whatever becomes of the lock.
        let _: RedisResult<()> = redis.del(&world.lock_key).await;
    }
    sale
}

fn ended(end: Option<&str>) -> Result<bool, Failure> {
    let Some(end) = end else { return Ok(false) };
    Ok(end.parse::<u128>()? < now()?)
}

fn now() -> Result<u128, Failure> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis())
}
