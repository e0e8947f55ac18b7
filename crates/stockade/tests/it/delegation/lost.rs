//! Lost connections, lost data and late releases.

use std::time::Duration;

use futures_util::FutureExt;
use stockade::{LockError, Locks, Redis, lock::LossReason};
use stockade_testbed::eventually;
use tokio::time::Instant;

use super::support::{LIMIT, SHORT, Sku, delegated, delegations, locks, locks_of, read, read_within};
use crate::world::World;

/// A lease that outlasts every test, so that a delegation ends only for another reason.
const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn nobody_enters_once_the_connection_is_gone() {
    let world = World::start().await;
    let locks = locks_of(&world, Locks::builder().lease(LONG).delegation_lease(LONG)).await;
    delegated(&locks, "1").await;
    let inside = read(&locks, "1").await;
    world.kill().await.unwrap();
    eventually("it is noticed", async || locks.is_degraded()).await;
    eventually("refused", async || matches!(read_within(&locks, "1", SHORT).await, Err(LockError::Unavailable { .. })))
        .await;
    assert!(inside.is_held(), "its lease goes on");
    world.restart().await.unwrap();
    assert_eq!(inside.lost().await, LossReason::StoreLostData);
    drop(inside);
    world.end().await;
}

#[tokio::test]
async fn a_late_release_of_the_old_one_leaves_the_new_one() {
    let world = World::start().await;
    let locks = locks_of(&world, Locks::builder().lease(LONG).delegation_lease(LONG)).await;
    let old = delegated(&locks, "1").await;
    let inside = read(&locks, "1").await;
    world.command(&["CLIENT", "KILL", "TYPE", "pubsub"]).await.unwrap();
    eventually("another one", async || read_within(&locks, "1", LIMIT).await.is_ok_and(|guard| guard.token() != old))
        .await;
    let new = delegated(&locks, "1").await;
    assert_eq!((delegations(&locks, "1").await, inside.is_held()), (2, true));
    drop(inside);
    eventually("the old one is given back", async || delegations(&locks, "1").await == 1).await;
    assert_eq!(read(&locks, "1").await.token(), new);
    world.end().await;
}

#[tokio::test]
async fn what_a_server_forgot_is_found_by_a_renewal() {
    let world = World::start().await;
    let locks = locks(&world).await;
    let token = delegated(&locks, "1").await;
    world.command(&["FLUSHALL"]).await.unwrap();
    eventually("another one", async || read(&locks, "1").await.token() != token).await;
    world.end().await;
}

#[tokio::test]
async fn whoever_forces_it_ends_it_for_all_inside() {
    let world = World::start().await;
    let (locks, admin) = (locks(&world).await, locks(&world).await);
    let token = delegated(&locks, "1").await;
    let inside = [read(&locks, "1").await, read(&locks, "1").await];
    admin.force_release(&Sku("1"), stockade::lock::Force::Now).await.unwrap();
    for reader in &inside {
        assert_eq!(reader.lost().await, LossReason::Forced);
    }
    assert!(read(&locks, "1").await.token() > token);
    for reader in inside {
        assert_eq!(reader.release().await.unwrap(), stockade::lock::Released::Lost);
    }
    world.end().await;
}

/// The only thread of this test reads all the time, so the lease is not renewed.
#[tokio::test]
async fn nobody_enters_when_the_lease_is_over() {
    const LEASE: Duration = Duration::from_millis(500);
    let world = World::start().await;
    let redis = Redis::builder(world.url()).command_timeout(Duration::from_secs(5)).connect().await.unwrap();
    let locks = world.locks_of(Locks::builder().delegation_lease(LEASE), &redis).await;
    delegated(&locks, "1").await;
    let since = Instant::now();
    loop {
        // The time is taken before the read enters, since the machine may stop this thread at any point.
        let before = since.elapsed();
        let read = locks.read(&Sku("1")).wait(LIMIT).delegate().acquire();
        if read.now_or_never().is_none_or(|read| read.is_err()) {
            break;
        }
        assert!(before <= LEASE, "read {before:?} after the last renewal");
    }
    world.end().await;
}
