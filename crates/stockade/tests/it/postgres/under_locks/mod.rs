//! Caches that serve values from memory to requests that hold the lock of the key.

mod commits;
mod reads;
mod visit;

use stockade::{Cache, Locks};
use stockade_testbed::Proxy;

use crate::postgres::{
    Sku,
    cached::{World, online},
};

/// A world, a proxy that can be made slow, the caches of a writer and of a reader behind the proxy, and their locks.
async fn behind_a_proxy() -> (World, Proxy, [Cache<Sku, i32>; 2], [Locks; 2]) {
    let world = World::patient().await;
    let proxy = Proxy::start(world.redis.addr()).await.unwrap();
    let writer = online(world.at(&world.redis.url()).await.under_locks()).await;
    let reader = online(world.at(&proxy.url_for(&world.redis.url())).await.under_locks()).await;
    let locks = [world.redis.locks().await, world.redis.locks().await];
    (world, proxy, [writer, reader], locks)
}
