//! Mutual exclusion between Stockade and each other program, in both directions.

use std::time::Duration;

use stockade::lock::Released;
use tokio::time::{Instant, timeout};

use crate::{
    peer::{Kind, Peer},
    world::{LIMIT, NAME, Sku, World, until},
};

/// Longer than a scenario takes.
const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_secs(1);
/// A lock that nobody else wants.
const OTHER: &str = "redlock:stock:2";

async fn theirs_keeps_us_out_until_they_release(kind: Kind) {
    let world = World::start().await;
    let mut peer = Peer::start(kind, &world.servers);
    assert!(peer.acquires(NAME, LONG).await);
    world.until_held_everywhere().await;
    assert!(world.ours.write(&Sku("1")).try_acquire().await.unwrap().is_none());
    let entering = world.ours.write(&Sku("1")).wait(LIMIT).acquire();
    tokio::pin!(entering);
    assert!(timeout(Duration::from_millis(300), &mut entering).await.is_err());
    assert!(peer.releases().await);
    let guard = entering.await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Released::Released);
    world.end().await;
}

async fn ours_keeps_them_out_until_we_release(kind: Kind) {
    let world = World::start().await;
    let mut peer = Peer::start(kind, &world.servers);
    let guard = world.ours.write(&Sku("1")).lease(LONG).acquire().await.unwrap();
    assert!(!peer.acquires(NAME, LONG).await);
    assert!(!peer.acquires(NAME, LONG).await);
    assert!(guard.is_held());
    assert_eq!(guard.release().await.unwrap(), Released::Released);
    world.until_free().await;
    assert!(peer.acquires(NAME, LONG).await);
    world.until_held_everywhere().await;
    assert!(world.ours.write(&Sku("1")).try_acquire().await.unwrap().is_none());
    assert!(peer.releases().await);
    world.end().await;
}

async fn we_enter_when_their_lease_is_over_and_not_before(kind: Kind) {
    let world = World::start().await;
    let mut peer = Peer::start(kind, &world.servers);
    // The time that the program takes to start is no part of its lease.
    assert!(peer.acquires(OTHER, SHORT).await && peer.releases().await);
    let before = Instant::now();
    assert!(peer.acquires(NAME, SHORT).await);
    let guard = world.ours.write(&Sku("1")).wait(LIMIT).acquire().await.unwrap();
    assert!(before.elapsed() >= SHORT, "{:?}", before.elapsed());
    assert_eq!(guard.release().await.unwrap(), Released::Released);
    world.end().await;
}

async fn a_release_of_theirs_that_comes_late_leaves_our_lock_alone(kind: Kind) {
    let world = World::start().await;
    let mut peer = Peer::start(kind, &world.servers);
    assert!(peer.acquires(NAME, SHORT).await);
    let guard = world.ours.write(&Sku("1")).wait(LIMIT).acquire().await.unwrap();
    world.until_held_everywhere().await;
    let before = world.holders().await;
    assert!(!peer.releases().await);
    assert_eq!(world.holders().await, before);
    assert!(!peer.acquires(NAME, LONG).await);
    assert_eq!(guard.release().await.unwrap(), Released::Released);
    world.end().await;
}

async fn a_release_of_ours_that_comes_late_leaves_their_lock_alone(kind: Kind) {
    let world = World::start().await;
    let mut peer = Peer::start(kind, &world.servers);
    let guard = world.ours.write(&Sku("1")).lease(SHORT).acquire().await.unwrap();
    world.cut_us_off(true);
    world.until_free().await;
    assert!(peer.acquires(NAME, LONG).await);
    world.until_held_everywhere().await;
    timeout(LIMIT, guard.lost()).await.unwrap();
    let (before, called) = (world.holders().await, world.scripts_called().await);
    let released = guard.release().await;
    assert!(!matches!(released, Ok(Released::Released | Released::StillHeld)), "{released:?}");
    world.cut_us_off(false);
    let arrived = async || world.scripts_called().await.iter().zip(&called).all(|(now, before)| now > before);
    until("what we sent has arrived on every server", arrived).await;
    world.ours.shutdown(LIMIT).await;
    assert_eq!(world.holders().await, before);
    assert!(peer.releases().await);
    world.end().await;
}

macro_rules! scenarios {
    ($kind:ident: $($scenario:ident)*) => {
        $(#[tokio::test]
        async fn $scenario() {
            super::$scenario(super::Kind::$kind).await;
        })*
    };
}

macro_rules! beside {
    ($($library:ident: $kind:ident,)*) => {
        $(mod $library {
            scenarios! {
                $kind:
                theirs_keeps_us_out_until_they_release
                ours_keeps_them_out_until_we_release
                we_enter_when_their_lease_is_over_and_not_before
                a_release_of_theirs_that_comes_late_leaves_our_lock_alone
                a_release_of_ours_that_comes_late_leaves_their_lock_alone
            }
        })*
    };
}

beside! {
    redis_py: RedisPy,
    pottery: Pottery,
    redlock_4: Redlock4,
    redlock_5: Redlock5,
}
