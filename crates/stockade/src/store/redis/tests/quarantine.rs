use std::{sync::Arc, time::Duration};

use stockade_testbed::{Fault, Proxy};
use tokio::time::{Instant, timeout};

use super::{LIMIT, Options, RedisStore, World, connected, connected_with, key, write};
use crate::{
    lock::Locks,
    redis::Redis,
    store::{Attempt, LockError, LockStore, Ownership},
};

const LEASE: Duration = Duration::from_secs(2);

async fn guarded(world: &World, quarantine: Duration) -> Arc<RedisStore> {
    connected_with(&world.redis().await, Options { quarantine, ..Options::default() }).await
}

/// A server loses its data while a holder is cut off and still believes in its lease.
struct Forgotten {
    world: World,
    held: Arc<Ownership>,
    way: Proxy,
}

impl Forgotten {
    async fn start() -> Self {
        let world = World::start().await;
        let proxy = Proxy::start(world.server.addr()).await.unwrap();
        let redis = Redis::connect(proxy.url_for(&world.server.url())).await.unwrap();
        let holder = connected(&redis).await;
        let held = holder.acquire(Attempt { lease: LEASE, ..write(&key("believed")) }).await.unwrap();
        proxy.set(Fault::Hole);
        world.server.restart().await.unwrap();
        Self { world, held, way: proxy }
    }

    async fn end(self) {
        self.way.set(Fault::None);
        self.world.end_behind(self.way).await;
    }
}

#[tokio::test]
async fn without_a_quarantine_two_believe_after_a_restart_without_data() {
    let forgotten = Forgotten::start().await;
    let store = guarded(&forgotten.world, Duration::ZERO).await;
    let second = store.acquire(write(&key("believed"))).await.unwrap();
    assert!(forgotten.held.loss().is_none() && second.loss().is_none(), "then this limit is gone");
    store.release(&second).await.unwrap();
    forgotten.end().await;
}

#[tokio::test]
async fn a_quarantine_of_a_lease_outlasts_whoever_the_server_forgot() {
    let forgotten = Forgotten::start().await;
    let store = guarded(&forgotten.world, LEASE).await;
    let once = store.acquire(Attempt { wait: Duration::ZERO, ..write(&key("believed")) }).await;
    assert!(matches!(once, Err(LockError::Busy { remaining }) if remaining <= LEASE), "{once:?}");
    let locks = Locks::builder().on(Arc::<RedisStore>::clone(&store));
    let several = locks.write_keys(["believed", "too"].map(key)).try_acquire().await;
    assert!(matches!(several, Ok(None)), "{several:?}");
    let brief = store.acquire(Attempt { wait: Duration::from_millis(50), ..write(&key("believed")) }).await;
    assert!(matches!(brief, Err(LockError::Timeout { remaining, .. }) if !remaining.is_zero()), "{brief:?}");
    assert!(forgotten.held.loss().is_none(), "too slow to show anything");
    let second = timeout(LIMIT, store.acquire(write(&key("believed")))).await.unwrap().unwrap();
    assert!(forgotten.held.loss().is_some(), "two believe");
    store.release(&second).await.unwrap();
    // The server has recorded since when this run has served.
    let later = guarded(&forgotten.world, LEASE).await;
    let since = Instant::now();
    let third = later.acquire(write(&key("believed"))).await.unwrap();
    assert!(since.elapsed() < LEASE / 2, "waited again");
    later.release(&third).await.unwrap();
    forgotten.end().await;
}

#[tokio::test]
async fn waiters_that_meet_a_new_run_sit_its_quarantine_out() {
    let world = World::start().await;
    let store = guarded(&world, LEASE).await;
    let held = timeout(LIMIT, store.acquire(write(&key("waited")))).await.unwrap().unwrap();
    let waiter = super::waiting(&store, write(&key("waited")));
    super::until_waiting(&store, &key("waited"), 1).await;
    let restarted = Instant::now();
    world.server.restart().await.unwrap();
    let next = timeout(LIMIT, waiter).await.unwrap().unwrap().unwrap();
    assert!(restarted.elapsed() >= LEASE, "{:?}", restarted.elapsed());
    assert!(held.loss().is_some() && next.token > held.token);
    store.release(&next).await.unwrap();
    world.end().await;
}
