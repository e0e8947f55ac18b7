//! Holders and waiters whose network breaks, next to others whose network works.

use std::time::Duration;

use stockade::{
    Locks, Redis,
    lock::{LossReason, Released},
};
use stockade_testbed::{Fault, Proxy};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use crate::{resources::Item, world::World};

const LIMIT: Duration = Duration::from_secs(20);
const LEASE: Duration = Duration::from_secs(1);

/// Locks of a process whose network can be broken, and of one whose network can't.
async fn two_processes(world: &World) -> (Proxy, Locks, Locks) {
    let proxy = Proxy::start(world.addr()).await.unwrap();
    let behind = Redis::connect(proxy.url_for(&world.url())).await.unwrap();
    let behind = world.locks_of(Locks::builder().lease(LEASE), &behind).await;
    (proxy, behind, world.locks().await)
}

#[tokio::test]
async fn a_lock_is_renewed_over_any_number_of_broken_connections() {
    let world = World::start().await;
    let (proxy, behind, other) = two_processes(&world).await;
    let guard = behind.write(&Item(1)).acquire().await.unwrap();
    let mut next = JoinSet::new();
    next.spawn(other.write(&Item(1)).wait(LIMIT).acquire());
    let began = Instant::now();
    while began.elapsed() < LEASE * 4 {
        proxy.reset_connections();
        // Meanwhile the lock is renewed on new connections.
        assert!(timeout(LEASE / 2, next.join_next()).await.is_err(), "it was taken from its holder");
        assert!(guard.is_held(), "{:?}", guard.loss());
    }
    assert_eq!(guard.release().await.unwrap(), Released::Released);
    let next = timeout(LIMIT, next.join_next()).await.expect("not handed over").unwrap().unwrap().unwrap();
    next.release().await.unwrap();
    world.end_behind(proxy).await;
}

#[tokio::test]
async fn a_holder_that_is_cut_off_knows_before_its_successor_begins() {
    let world = World::start().await;
    let (proxy, behind, other) = two_processes(&world).await;
    let guard = behind.write(&Item(1)).acquire().await.unwrap();
    let (fence, seen, token) = (guard.fence(), guard.fence(), guard.token());
    let mut told = JoinSet::new();
    told.spawn(async move { fence.lost().await });
    let mut next = JoinSet::new();
    next.spawn(async move {
        let next = other.write(&Item(1)).wait(LIMIT).acquire().await;
        // The comparison of the lease itself depends on no timer.
        (next, seen.is_held(), Instant::now())
    });
    proxy.set(Fault::Hole);
    let cut = Instant::now();
    let reason = timeout(LIMIT, told.join_next()).await.expect("never told").unwrap().unwrap();
    let (next, was_held, began) = timeout(LIMIT, next.join_next()).await.expect("never handed over").unwrap().unwrap();
    let next = next.unwrap();
    assert_eq!(reason, LossReason::Expired);
    assert!(!was_held, "it believed on beside its successor");
    assert!(guard.remaining().is_zero() && !guard.is_held());
    assert!(began < cut + LEASE * 3, "{:?}", began - cut);
    assert!(next.token() > token);

    // The commands that the holder sent meanwhile arrive, and do not harm its successor.
    proxy.set(Fault::None);
    assert!(!matches!(timeout(LIMIT, guard.release()).await.unwrap(), Ok(Released::Released)));
    sleep(Duration::from_millis(50)).await;
    assert!(next.is_held());
    assert_eq!(next.release().await.unwrap(), Released::Released);
    world.end_behind(proxy).await;
}
