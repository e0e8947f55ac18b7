//! Downgrades and adoptions whose replies are lost, which arrive late, or whose callers are gone.

use std::{sync::Arc, time::Duration};

use futures_util::{FutureExt, future::join};
use stockade_testbed::{Fault, Proxy};
use tokio::time::{sleep, timeout};

use super::{LIMIT, RedisStore, World, connected, detour::Detour, key, read, server, until, until_waiting, write};
use crate::{
    lock::Locks,
    redis::{Redis, Run},
    store::{Attempt, Force, LockError, LockStore, Mode, Released, redis::commands::calls::GRANT},
};

/// Longer than a test may take, so a lock that is left behind stays visible.
const LONG: Duration = Duration::from_secs(120);

#[tokio::test]
async fn a_change_whose_reply_is_lost_is_found_done() {
    let world = World::start().await;
    let proxy = Proxy::start(world.server.addr()).await.unwrap();
    let url = proxy.url_for(&world.server.url());
    let store = connected(&Redis::builder(url).command_timeout(Duration::from_secs(10)).connect().await.unwrap()).await;
    let other = world.store().await;
    // The server has run the first command, its reply is lost, and the connection ends.
    let losing_the_reply = async || {
        world.until_scripts_called(1).await;
        proxy.set(Fault::None);
    };

    let held = store.acquire(write(&key("downgrade"))).await.unwrap();
    world.command(&["CONFIG", "RESETSTAT"]).await;
    proxy.set(Fault::DropReplies);
    let (downgraded, ()) = timeout(LIMIT, join(store.downgrade(&held), losing_the_reply())).await.unwrap();
    downgraded.unwrap();
    assert_eq!((held.mode(), held.loss()), (Mode::Read, None));
    let beside = other.acquire(read(&key("downgrade"))).await.unwrap();
    assert_eq!(other.release(&beside).await.unwrap(), Released::Released);
    assert_eq!(store.release(&held).await.unwrap(), Released::Released);

    let given = other.acquire(write(&key("adopt"))).await.unwrap();
    let handed = other.hand_over(&given).unwrap();
    world.command(&["CONFIG", "RESETSTAT"]).await;
    proxy.set(Fault::DropReplies);
    let (adopted, ()) = timeout(LIMIT, join(store.adopt(&handed), losing_the_reply())).await.unwrap();
    let adopted = adopted.unwrap();
    assert!(adopted.token > given.token && adopted.loss().is_none());
    assert!(matches!(other.adopt(&handed).await, Err(LockError::HandoverVoid)));
    assert_eq!(store.release(&adopted).await.unwrap(), Released::Released);
    world.until_nothing_is_left().await;
    drop((held, given, adopted));
    world.end_behind(proxy).await;
}

#[tokio::test]
async fn a_lock_that_was_just_handed_off_is_handed_over_for_a_whole_lease() {
    let world = World::start().await;
    let proxy = Proxy::start(world.server.addr()).await.unwrap();
    let store = connected(&Redis::connect(proxy.url_for(&world.server.url())).await.unwrap()).await;
    let other = world.store().await;
    let key = key("given-on");
    let held = other.acquire(write(&key)).await.unwrap();
    let mut next = store.acquire(Attempt { lease: LONG, ..write(&key) });
    assert!((&mut next).now_or_never().is_none());
    until_waiting(&other, &key, 1).await;
    other.release(&held).await.unwrap();
    let granted = timeout(LIMIT, next).await.unwrap().unwrap();
    // The first renewal fails. The thread is in no runtime.
    proxy.set(Fault::Reset);
    until("the connection is lost", || !server(&store).link.is_up()).await;
    let handed = std::thread::scope(|threads| threads.spawn(|| store.hand_over(&granted)).join()).unwrap().unwrap();
    proxy.set(Fault::None);
    timeout(LIMIT, async {
        while other.inspect(&key).await.unwrap().holders[0].remaining <= GRANT {
            sleep(Duration::from_millis(1)).await;
        }
    })
    .await
    .expect("the rest of the grant only");
    let adopted = other.adopt(&handed).await.unwrap();
    other.release(&adopted).await.unwrap();
    drop(granted);
    world.end_behind(proxy).await;
}

/// A renewal finds the owner and its token, whether or not the server knows of the downgrade.
#[tokio::test]
async fn only_another_downgrade_confirms_a_downgrade_on_a_new_run() {
    let world = World::start().await;
    let store = world.store().await;
    let held =
        [store.acquire(write(&key("kept"))).await.unwrap(), store.acquire(write(&key("downgraded"))).await.unwrap()];
    store.downgrade(&held[1]).await.unwrap();
    for held in &held {
        store.inner.held.confirmed(&held.owner, Run { server: u32::MAX, number: 0 });
    }
    store.renew(&held).await.unwrap();
    let unsure = || store.inner.held.unsure(&store.inner.shards, &server(&store));
    assert_eq!(unsure().iter().map(|held| &held.owner).collect::<Vec<_>>(), [&held[1].owner]);
    store.downgrade(&held[1]).await.unwrap();
    assert!(unsure().is_empty());
    for held in &held {
        store.release(held).await.unwrap();
    }
    world.end().await;
}

#[tokio::test]
async fn a_lock_of_which_nobody_knows_whether_it_was_downgraded_is_handed_to_nobody() {
    let world = World::start().await;
    let proxy = Proxy::start(world.server.addr()).await.unwrap();
    let store = connected(&Redis::connect(proxy.url_for(&world.server.url())).await.unwrap()).await;
    let other = world.store().await;
    let key = key("unsure");
    let held = store.acquire(Attempt { lease: LONG, ..write(&key) }).await.unwrap();
    proxy.set(Fault::Hole);
    assert!(matches!(store.downgrade(&held).await, Err(LockError::Unavailable { .. })));
    // The downgrade may not have been executed. Then an adopter would look for a reader where there is a writer.
    assert!(matches!(store.hand_over(&held), Err(LockError::Unavailable { .. })));
    // That a second one was surely not sent says nothing about the first.
    proxy.set(Fault::Reset);
    until("no connection", || !store.is_up()).await;
    assert!(matches!(store.downgrade(&held).await, Err(LockError::Unavailable { .. })));
    assert!(matches!(store.hand_over(&held), Err(LockError::Unavailable { .. })));
    proxy.set(Fault::None);
    until("the store answers", || {
        store.inner.shards.all().iter().all(|shard| shard.link.breaker().refusing().is_none())
    })
    .await;
    timeout(LIMIT, async {
        while store.downgrade(&held).await.is_err() {
            sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .unwrap();
    let adopted = other.adopt(&store.hand_over(&held).unwrap()).await.unwrap();
    assert!(adopted.token > held.token && adopted.mode() == Mode::Read);
    assert_eq!(other.release(&adopted).await.unwrap(), Released::Released);
    world.until_nothing_is_left().await;
    drop((held, adopted));
    world.end_behind(proxy).await;
}

#[tokio::test]
async fn a_lock_whose_downgrade_was_never_sent_stays_a_writers() {
    let world = World::start().await;
    let store = world.store().await;
    let held = store.acquire(write(&key("unsent"))).await.unwrap();
    world.server.kill().await.unwrap();
    until("no connection", || !store.is_up()).await;
    assert!(matches!(store.downgrade(&held).await, Err(LockError::Unavailable { .. })));
    assert_eq!(held.mode(), Mode::Write);
    assert_eq!(store.hand_over(&held).unwrap().mode, Mode::Write);
    world.server.restart().await.unwrap();
    world.end().await;
}

#[tokio::test]
async fn a_guard_whose_downgrade_is_dropped_is_released() {
    let world = World::start().await;
    let store = world.store().await;
    let locks = Locks::builder().on(Arc::<RedisStore>::clone(&store));
    for polled in [false, true] {
        let key = key("dropped");
        let guard = locks.request(Ok(key.clone()), Mode::Write).lease(LONG).acquire().await.unwrap();
        let mut downgrade = Box::pin(guard.downgrade());
        if polled {
            assert!((&mut downgrade).now_or_never().is_none());
        }
        drop(downgrade);
        world.until_nothing_is_left().await;
    }
    locks.shutdown(LIMIT).await;
    world.end().await;
}

#[tokio::test]
async fn an_adoption_that_arrives_when_all_that_undoes_it_has_run_is_refused() {
    let world = World::start().await;
    let detour = Detour::start(&world.server).await;
    let redis = Redis::builder(detour.url()).command_timeout(Duration::from_millis(250)).connect().await.unwrap();
    let store = connected(&redis).await;
    let other = world.store().await;
    let given = other.acquire(Attempt { lease: LONG, ..write(&key("late")) }).await.unwrap();
    let handed = other.hand_over(&given).unwrap();
    detour.hold();
    let before = detour.sent();
    let mut adoption = store.adopt(&handed);
    assert!((&mut adoption).now_or_never().is_none());
    detour.until_sent(before).await;
    detour.leave();
    until("another connection", || server(&store).link.generation() == 2).await;
    drop(adoption);
    until("all cancels are answered", || store.inner.waiters.is_settled()).await;
    world.command(&["CONFIG", "RESETSTAT"]).await;
    detour.let_go();
    world.until_scripts_called(1).await;
    // Another process can still adopt it in time.
    let adopted = other.adopt(&handed).await.unwrap();
    assert_eq!(other.release(&adopted).await.unwrap(), Released::Released);
    world.until_nothing_is_left().await;
    drop((given, adopted));
    world.end_behind(detour).await;
}

/// A forced waiter holds its grant and can't renew it. It must neither ask over and over nor lose its turn.
#[tokio::test]
async fn a_reader_that_is_forced_out_before_it_enters_has_the_rest_of_its_grant() {
    let world = World::start().await;
    let (store, other) = (world.store().await, world.store().await);
    let key = key("forced");
    let held = other.acquire(write(&key)).await.unwrap();
    let mut reader = store.acquire(read(&key));
    assert!((&mut reader).now_or_never().is_none());
    until_waiting(&other, &key, 1).await;
    other.release(&held).await.unwrap();
    until_waiting(&other, &key, 0).await;
    assert_eq!(other.force(&key, Force::AfterLeases).await.unwrap().holders, 1);
    // Its task runs only when half of the grant is over, so that the waiter must confirm the grant.
    sleep(GRANT * 11 / 20).await;
    world.command(&["CONFIG", "RESETSTAT"]).await;
    let entered = timeout(LIMIT, reader).await.unwrap().unwrap();
    let scripts = world.server.calls_of("evalsha").await.unwrap();
    assert!(scripts <= 3, "{scripts} scripts");
    assert!(entered.loss().is_some() || entered.deadline().remaining() < GRANT / 2);
    store.release(&entered).await.unwrap();
    world.until_nothing_is_left().await;
    drop((held, entered));
    world.end().await;
}
