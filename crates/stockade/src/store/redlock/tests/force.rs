use std::{slice, time::Duration};

use super::{World, is_no_quorum, key, once, write};
use crate::store::{Force, LockError, LockStore, LossReason, Mode, Released};

#[tokio::test]
async fn a_holder_learns_at_its_next_extension_that_it_was_forced() {
    let world = World::start(3).await;
    let (store, admin) = (world.store().await, world.store().await);
    let key = key("forced");
    let held = store.acquire(write(&key)).await.unwrap();
    let forced = admin.force(&key, Force::Now).await.unwrap();
    assert_eq!(forced.holders, 1);
    assert!(forced.token > held.token);
    let next = admin.acquire(once(&key)).await.unwrap();
    assert!(next.token > forced.token);
    admin.release(&next).await.unwrap();
    world.until_all_are_free().await;
    store.renew(slice::from_ref(&held)).await.unwrap();
    assert_eq!(held.loss(), Some(LossReason::Forced));
    assert_eq!(store.release(&held).await.unwrap(), Released::Lost);
    assert_eq!(admin.force(&key, Force::Now).await.unwrap().holders, 0);
    world.end().await;
}

/// While one server is silent, each step of a forced release takes a time-out.
#[tokio::test]
async fn who_waited_for_a_forced_lock_gets_a_higher_token_than_the_forced_one() {
    let world = World::start(3).await;
    let (store, admin, other) = (world.store().await, world.store().await, world.store().await);
    let key = key("forced-slowly");
    let held = store.acquire(write(&key)).await.unwrap();
    world.servers[2].pause().unwrap();
    let (forced, next) = tokio::join!(admin.force(&key, Force::Now), other.acquire(write(&key)));
    let (forced, next) = (forced.unwrap(), next.unwrap());
    assert!(next.token > forced.token, "{next:?} {forced:?}");
    world.servers[2].resume().unwrap();
    other.release(&next).await.unwrap();
    assert_eq!(store.release(&held).await.unwrap(), Released::Lost);
    world.end().await;
}

#[tokio::test]
async fn an_inspection_shows_what_a_quorum_holds_and_for_how_long() {
    let world = World::start(3).await;
    let store = world.store().await;
    let key = key("inspected");
    assert!(store.inspect(&key).await.unwrap().holders.is_empty());
    let held = store.acquire(write(&key)).await.unwrap();
    world.until_held_everywhere().await;
    let name = world.keys(0).await.remove(0);
    world.command(0, &["PEXPIRE", &name, "100000"]).await;
    world.command(1, &["PEXPIRE", &name, "5000"]).await;
    world.command(2, &["PEXPIRE", &name, "2000"]).await;
    let seen = store.inspect(&key).await.unwrap();
    let [holder] = seen.holders.as_slice() else { panic!("{seen:?}") };
    assert_eq!(holder.mode, Mode::Write);
    // Two servers are left after the third lease has ended, and no quorum after the second.
    assert!(holder.remaining > Duration::from_secs(2) && holder.remaining <= Duration::from_secs(5), "{seen:?}");
    match store.acquire(once(&key)).await {
        Err(LockError::Busy { remaining }) => assert!(remaining <= Duration::from_secs(5), "{remaining:?}"),
        other => panic!("{other:?}"),
    }
    for server in [1, 2] {
        world.command(server, &["DEL", &name]).await;
    }
    assert!(store.inspect(&key).await.unwrap().holders.is_empty(), "one server is no holder");
    store.release(&held).await.unwrap();
    world.end().await;
}

#[tokio::test]
async fn a_minority_forces_nothing() {
    let world = World::start(3).await;
    let store = world.store().await;
    let key = key("minority");
    for server in &world.servers[..2] {
        server.kill().await.unwrap();
    }
    super::until("the end of two links", || !store.is_up()).await;
    assert!(is_no_quorum(&store.force(&key, Force::Now).await));
    assert!(is_no_quorum(&store.inspect(&key).await));
    assert!(is_no_quorum(&store.list(10).await));
    assert!(is_no_quorum(&store.seed(&key, crate::store::Token::MAX).await));
    world.end().await;
}
