use std::time::Duration;

use stockade::{
    Guard, LockError, Locks, Redis,
    lock::{LocksBuilder, Mode, Token},
};
use stockade_testbed::{RedisServer, eventually};

use crate::{redis_traffic, world::World};
pub(super) use crate::{resources::Sku, world::waiting};

/// The limit for each wait: long for a busy machine, and shorter than the waits that a missing defence causes.
pub(super) const LIMIT: Duration = Duration::from_secs(20);
/// The wait of an attempt that must be refused.
pub(super) const SHORT: Duration = Duration::from_millis(150);

/// Locks of one more process, whose commands may take as long as a busy machine needs.
pub(super) async fn locks(world: &World) -> Locks {
    locks_of(world, Locks::builder()).await
}

pub(super) async fn locks_of(world: &World, builder: LocksBuilder) -> Locks {
    let redis = Redis::builder(world.url()).command_timeout(Duration::from_secs(5)).connect().await.unwrap();
    world.locks_of(builder, &redis).await
}

/// A read that may use a delegation.
pub(super) async fn read(locks: &Locks, sku: &'static str) -> Guard {
    read_within(locks, sku, LIMIT).await.unwrap()
}

pub(super) async fn read_within(locks: &Locks, sku: &'static str, wait: Duration) -> Result<Guard, LockError> {
    locks.read(&Sku(sku)).wait(wait).delegate().acquire().await
}

/// Reads once, and returns the token of that read.
pub(super) async fn token_of_read(locks: &Locks, sku: &'static str) -> Token {
    let guard = read(locks, sku).await;
    let token = guard.token();
    guard.release().await.unwrap();
    token
}

/// Reads until the process has a delegation. Returns the token of the delegation.
pub(super) async fn delegated(locks: &Locks, sku: &'static str) -> Token {
    let mut token = token_of_read(locks, sku).await;
    eventually("delegated", async || {
        let before = token;
        token = token_of_read(locks, sku).await;
        token == before
    })
    .await;
    token
}

/// How many delegations hold the resource.
pub(super) async fn delegations(locks: &Locks, sku: &'static str) -> usize {
    let found = locks.inspect(&Sku(sku)).await.unwrap();
    found.holders.iter().filter(|holder| holder.mode == Mode::Read && holder.tag == "delegation").count()
}

/// How many scripts the server runs during `work`.
pub(super) async fn scripts(server: &RedisServer, work: impl AsyncFnOnce()) -> u64 {
    server.command(&["CONFIG", "RESETSTAT"]).await.unwrap();
    work().await;
    redis_traffic::scripts(server).await
}
