//! The commands of a read, and its metrics and headers.

use std::time::Duration;

use stockade::{
    LockError, Locks,
    lock::{Mode, Released},
};
use stockade_testbed::eventually;

use super::support::{SHORT, Sku, delegated, delegations, locks, locks_of, read, read_within, scripts};
use crate::{redis_traffic::calls, world::World};

#[tokio::test]
async fn reads_under_a_delegation_send_nothing() {
    const READS: u64 = 1000;
    let world = World::start().await;
    let locks = locks(&world).await;
    let token = delegated(&locks, "1").await;
    let sent = scripts(&world, async || {
        for _ in 0..READS {
            let guard = read(&locks, "1").await;
            assert_eq!((guard.token(), guard.mode()), (token, Mode::Read));
            assert_eq!(guard.release().await.unwrap(), Released::Released);
        }
    })
    .await;
    assert!(sent < READS / 20, "only renewals: {sent}");
    world.end().await;
}

#[tokio::test]
async fn people_see_one_holder() {
    let world = World::start().await;
    let locks = locks(&world).await;
    let token = delegated(&locks, "1").await;
    let guards = [read(&locks, "1").await, read(&locks, "1").await];
    let found = locks.inspect(&Sku("1")).await.unwrap();
    let [holder] = found.holders.as_slice() else { panic!("{found:?}") };
    assert_eq!((holder.tag.as_str(), holder.mode, holder.token), ("delegation", Mode::Read, Some(token)));
    assert!(holder.remaining <= Duration::from_secs(2), "{found:?}");
    drop(guards);
    world.end().await;
}

#[tokio::test]
async fn one_that_is_not_used_is_given_back() {
    let world = World::start().await;
    let locks = locks(&world).await;
    delegated(&locks, "1").await;
    eventually("given back", async || delegations(&locks, "1").await == 0).await;
    world.end().await;
}

#[tokio::test]
async fn a_reader_keeps_it_however_long_it_stays() {
    let world = World::start().await;
    let locks = locks_of(&world, Locks::builder().delegation_lease(Duration::from_millis(400))).await;
    let token = delegated(&locks, "1").await;
    let guard = read(&locks, "1").await;
    // The reader stays for about four leases, which take three renewals each, and no other reader comes.
    world.command(&["CONFIG", "RESETSTAT"]).await.unwrap();
    eventually("it was renewed", async || calls(&world).await.get("evalsha").is_some_and(|calls| *calls >= 12)).await;
    assert_eq!((guard.loss(), guard.token()), (None, token));
    assert_eq!(delegations(&locks, "1").await, 1);
    drop(guard);
    world.end().await;
}

#[tokio::test]
async fn only_those_share_who_ask_for_it() {
    let world = World::start().await;
    let (locks, without) = (locks(&world).await, locks_of(&world, Locks::builder().delegate(false)).await);
    for _ in 0..4 {
        locks.read(&Sku("1")).acquire().await.unwrap().release().await.unwrap();
        read(&without, "1").await.release().await.unwrap();
        assert_eq!(delegations(&locks, "1").await, 0);
    }
    // The reader's lease is shorter than that of the delegation. If the reader shared it, and its process died, writers
    // would wait longer than the reader allows.
    let token = delegated(&locks, "2").await;
    let brief = locks.read(&Sku("2")).lease(Duration::from_millis(500)).delegate().acquire().await.unwrap();
    assert_ne!(brief.token(), token);
    drop(brief);
    world.end().await;
}

#[tokio::test]
async fn no_more_resources_are_delegated_than_allowed() {
    let world = World::start().await;
    let locks = locks_of(&world, Locks::builder().max_delegations(1)).await;
    let guard = {
        delegated(&locks, "1").await;
        read(&locks, "1").await
    };
    for _ in 0..4 {
        read(&locks, "2").await.release().await.unwrap();
        assert_eq!(delegations(&locks, "2").await, 0);
    }
    drop(guard);
    world.end().await;
}

#[tokio::test]
async fn a_guard_that_shares_is_a_reader_and_cant_be_handed_over() {
    let world = World::start().await;
    let locks = locks(&world).await;
    let token = delegated(&locks, "1").await;
    let guard = read(&locks, "1").await.downgrade().await.unwrap();
    let refused = guard.hand_over().unwrap_err();
    assert!(matches!(refused.error, LockError::Unsupported { .. }), "{refused}");
    let guard = refused.guard;
    assert_eq!((guard.token(), guard.loss()), (token, None));
    let again = guard.reenter();
    assert_eq!(guard.release().await.unwrap(), Released::StillHeld);
    assert!(again.is_held());
    drop(again);
    world.end().await;
}

#[tokio::test]
async fn after_a_shutdown_nobody_enters() {
    let world = World::start().await;
    let locks = locks(&world).await;
    delegated(&locks, "1").await;
    locks.shutdown(SHORT).await;
    let refused = read_within(&locks, "1", SHORT).await.unwrap_err();
    assert!(matches!(refused, LockError::ShuttingDown), "{refused}");
    world.end().await;
}
