use std::{fmt, slice, sync::Arc, time::Duration};

use futures_util::FutureExt;
use stockade_testbed::{Fault, Proxy};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::task::TaskTracker;

use super::{LIMIT, World, connected, granted, key, opened, read, server, until, until_waiting, waiting, write};
use crate::{
    redis::{Redis, eventually},
    store::{Attempt, Force, LockError, LockStore, LossReason, Released, Unavailable, redis::RedisStore},
};

const COMMAND: Duration = Duration::from_millis(250);

#[tokio::test]
async fn a_frozen_server_is_answered_in_time_and_leaves_nothing_when_it_thaws() {
    let world = World::start().await;
    let store = world.store().await;
    let held = store.acquire(write(&key("held"))).await.unwrap();
    let waiting = key("waiting");
    let other = store.acquire(write(&waiting)).await.unwrap();
    let wait = Duration::from_millis(800);
    let queued = TaskTracker::new().spawn({
        let (store, attempt) = (Arc::clone(&store), Attempt { wait, ..write(&waiting) });
        async move {
            let since = Instant::now();
            (store.acquire(attempt).await, since.elapsed())
        }
    });
    until_waiting(&store, &waiting, 1).await;
    world.server.pause().unwrap();
    let mut quickest = Duration::MAX;
    for n in 0..5 {
        let since = Instant::now();
        let refused = store.acquire(write(&key(&format!("new{n}")))).await;
        let reason = match refused {
            Err(LockError::Unavailable { reason, .. }) => reason,
            other => panic!("{other:?}"),
        };
        assert_eq!(reason, Unavailable::Timeout);
        quickest = quickest.min(since.elapsed());
    }
    assert!(quickest < COMMAND + Duration::from_millis(100), "{quickest:?}");
    let refused = store.acquire(write(&key("open"))).now_or_never().expect("it waited");
    assert!(matches!(refused, Err(LockError::Unavailable { reason: Unavailable::BreakerOpen, .. })), "{refused:?}");
    assert!(store.refusing(&key("open")).is_some());
    let (ended, took) = queued.await.unwrap();
    assert!(ended.is_err() && took < wait + COMMAND * 4, "{took:?} {ended:?}");
    assert!(held.loss().is_none());

    world.server.resume().unwrap();
    let thawed = Instant::now();
    let again = loop {
        match store.acquire(write(&key("after"))).await {
            Ok(ownership) => break ownership,
            Err(error) => assert!(thawed.elapsed() < LIMIT, "{error}"),
        }
        sleep(Duration::from_millis(5)).await;
    };
    store.renew(slice::from_ref(&held)).await.unwrap();
    assert!(held.loss().is_none());
    for ownership in [&again, &held, &other] {
        assert_eq!(store.release(ownership).await.unwrap(), Released::Released);
    }
    // The five late commands were undone by the releases behind them, or refused as stale.
    world.end().await;
}

#[tokio::test]
async fn a_release_that_was_not_answered_is_made_up_for() {
    let world = World::start().await;
    let store = world.store().await;
    let key = key("slow-release");
    let held = store.acquire(write(&key)).await.unwrap();
    world.server.pause().unwrap();
    assert!(matches!(store.release(&held).await, Err(LockError::Unavailable { .. })));
    world.server.resume().unwrap();
    world.until_nothing_is_left().await;
    let next = timeout(LIMIT, async {
        loop {
            if let Ok(next) = store.acquire(write(&key)).await {
                return next;
            }
        }
    });
    store.release(&next.await.unwrap()).await.unwrap();
    world.end().await;
}

#[tokio::test]
async fn a_lost_release_reply_is_unknown_not_lost() {
    let world = World::start().await;
    let proxy = Proxy::start(world.server.addr()).await.unwrap();
    let store = connected(&Redis::connect(proxy.url_for(&world.server.url())).await.unwrap()).await;
    let key = key("unknown");
    let held = store.acquire(write(&key)).await.unwrap();
    proxy.set(Fault::DropReplies);
    let mut release = store.release(&held);
    assert!((&mut release).now_or_never().is_none());
    world.until_nothing_is_left().await;
    proxy.set(Fault::None);
    proxy.reset_connections();
    match timeout(LIMIT, release).await.unwrap() {
        Ok(released) => assert_eq!(released, Released::Unknown),
        Err(error) => assert!(matches!(error, LockError::Unavailable { .. }), "{error}"),
    }
    world.until_nothing_is_left().await;
    world.end_behind(proxy).await;
}

/// Loses the reply to an attempt, together with its connection, once the attempt has made `keys` keys. The attempt must
/// fail, and its keys must go. Their leases must outlive the test, so that only an undone attempt leaves no keys.
pub(super) async fn undone_without_its_reply<T: fmt::Debug>(
    keys: usize,
    attempt: impl AsyncFnOnce(&RedisStore) -> Result<T, LockError>,
) {
    let world = World::start().await;
    let proxy = Proxy::start(world.server.addr()).await.unwrap();
    let store = connected(&Redis::connect(proxy.url_for(&world.server.url())).await.unwrap()).await;
    proxy.set(Fault::DropReplies);
    let mut attempt = Box::pin(attempt(&store));
    assert!((&mut attempt).now_or_never().is_none());
    eventually("the keys of the attempt", async || world.keys().await.len() >= keys).await;
    proxy.set(Fault::None);
    proxy.reset_connections();
    let ended = timeout(LIMIT, attempt).await.unwrap();
    assert!(matches!(ended, Err(LockError::Unavailable { .. })), "{ended:?}");
    world.until_nothing_is_left().await;
    world.end_behind(proxy).await;
}

#[tokio::test]
async fn an_acquire_whose_reply_was_lost_with_its_connection_is_undone() {
    let attempt = Attempt { lease: LIMIT * 6, ..write(&key("lost")) };
    undone_without_its_reply(1, async |store| store.acquire(attempt).await).await;
}

#[tokio::test]
async fn a_restart_without_data_ends_ownerships_and_keeps_waiters_and_token_order() {
    let world = World::start().await;
    let (store, other) = (world.store().await, world.store().await);
    let key = key("restart");
    // The floor is far ahead of the clock. Once the server has lost its data, only this process knows the floor.
    let ahead = crate::store::Token::new(8_000_000_000_000_000).unwrap();
    store.seed(&key, ahead).await.unwrap();
    let held = store.acquire(write(&key)).await.unwrap();
    let waiter = waiting(&other, write(&key));
    until_waiting(&store, &key, 1).await;
    world.server.restart().await.unwrap();
    let told = timeout(LIMIT, held.lost()).await.unwrap();
    assert_eq!(told, LossReason::StoreLostData);
    let next = timeout(LIMIT, waiter).await.unwrap().unwrap().unwrap();
    store.release(&next).await.unwrap();
    until("both connections", || store.is_up() && other.is_up()).await;
    let later = store.acquire(write(&key)).await.unwrap();
    assert!(held.token > ahead && later.token > held.token, "{held:?} {later:?}");
    store.release(&later).await.unwrap();
    other.release(&next).await.unwrap();
    world.end().await;
}

#[tokio::test]
async fn a_waiter_whose_connection_breaks_is_granted_what_it_missed() {
    let world = World::start().await;
    let proxy = Proxy::start(world.server.addr()).await.unwrap();
    let holder = world.store().await;
    let store = connected(&Redis::connect(proxy.url_for(&world.server.url())).await.unwrap()).await;
    let key = key("missed");
    let held = holder.acquire(write(&key)).await.unwrap();
    let waiter = waiting(&store, write(&key));
    until_waiting(&holder, &key, 1).await;
    // The server counts a receiver, but the message reaches nobody.
    proxy.set(Fault::DropReplies);
    holder.release(&held).await.unwrap();
    sleep(Duration::from_millis(50)).await;
    assert!(!waiter.is_finished());
    proxy.set(Fault::None);
    proxy.reset_connections();
    let granted = timeout(LIMIT, waiter).await.unwrap().unwrap().unwrap();
    assert!(granted.loss().is_none());
    assert_eq!(store.release(&granted).await.unwrap(), Released::Released);
    world.until_nothing_is_left().await;
    world.end_behind(proxy).await;
}

#[tokio::test]
async fn a_restart_is_followed_over_a_slow_network_however_many_floors_are_known() {
    let world = World::start().await;
    let proxy = Proxy::start(world.server.addr()).await.unwrap();
    let store = connected(&Redis::connect(proxy.url_for(&world.server.url())).await.unwrap()).await;
    let ahead = crate::store::Token::new(8_000_000_000_000_000).unwrap();
    // Enough names for every bucket.
    for name in 0..4000 {
        store.inner.floors.note(&key(&name.to_string()), ahead.get());
    }
    assert_eq!(store.inner.floors.seen().len(), 256);
    let before = server(&store).link.generation();
    proxy.set(Fault::Delay(Duration::from_millis(10)));
    world.server.restart().await.unwrap();
    until("another connection", || server(&store).link.generation() > before).await;
    let held = store.acquire(write(&key("0"))).await.unwrap();
    assert!(held.token > ahead);
    store.release(&held).await.unwrap();
    world.until_nothing_is_left().await;
    world.end_behind(proxy).await;
}

#[tokio::test]
async fn a_server_out_of_memory_takes_no_lock_away() {
    let world = World::start().await;
    let store = world.store().await;
    let held = [write(&key("full")), read(&key("full-too"))].map(|attempt| store.acquire(attempt));
    let held = futures_util::future::try_join_all(held).await.unwrap();
    world.command(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let refused = store.acquire(write(&key("more"))).await;
    assert!(matches!(refused, Err(LockError::Unavailable { reason: Unavailable::Refused, .. })), "{refused:?}");
    // Renew each lock alone, and both in one script.
    for some in [&held[..1], &held[1..], &held] {
        let before: Vec<_> = some.iter().map(|ownership| ownership.deadline()).collect();
        store.renew(some).await.unwrap();
        assert!(some.iter().zip(before).all(|(ownership, before)| ownership.deadline() > before));
    }
    for ownership in &held {
        assert_eq!(store.release(ownership).await.unwrap(), Released::Released);
    }
    world.end().await;
}

#[tokio::test]
async fn a_server_out_of_memory_hands_a_lock_on_and_takes_it_by_force() {
    let world = World::start().await;
    let store = world.store().await;
    let (exclusive, shared) = (key("full"), key("full-too"));
    let held = store.acquire(write(&exclusive)).await.unwrap();
    let readers = [store.acquire(read(&shared)).await.unwrap(), store.acquire(read(&shared)).await.unwrap()];
    let waiters = [&exclusive, &shared].map(|key| waiting(&store, write(key)));
    for key in [&exclusive, &shared] {
        until_waiting(&store, key, 1).await;
    }
    world.command(&["CONFIG", "SET", "maxmemory", "1"]).await;
    for held in [&readers[0], &readers[1], &held] {
        assert_eq!(store.release(held).await.unwrap(), Released::Released);
    }
    for waiter in waiters {
        let next = granted(waiter).await;
        assert_eq!(store.force(&next.key, Force::Now).await.unwrap().holders, 1);
        assert_eq!(timeout(LIMIT, next.lost()).await.unwrap(), LossReason::Forced);
    }
    world.end().await;
}

#[tokio::test]
async fn a_new_run_of_a_server_out_of_memory_takes_no_lock_away() {
    let world = World::start().await;
    let store = world.store().await;
    let held = store.acquire(write(&key("full"))).await.unwrap();
    let floor = store.inner.keys.floor(held.key.bucket());
    world.command(&["DEL", &floor]).await;
    world.command(&["CONFIG", "SET", "maxmemory", "1"]).await;
    world.begin_run(&store).await;
    assert_eq!(world.command(&["GET", &floor]).await, held.token.to_string());
    let before = held.deadline();
    store.renew(slice::from_ref(&held)).await.unwrap();
    assert!(held.deadline() > before && held.loss().is_none());
    assert_eq!(store.release(&held).await.unwrap(), Released::Released);
    world.end().await;
}

#[tokio::test]
async fn a_lease_shorter_than_the_round_trips_that_confirm_it_is_given_up() {
    let world = World::start().await;
    let proxy = Proxy::start(world.server.addr()).await.unwrap();
    let store = connected(&Redis::connect(proxy.url_for(&world.server.url())).await.unwrap()).await;
    proxy.set(Fault::Delay(Duration::from_millis(40)));
    let attempt = Attempt { lease: Duration::from_millis(100), wait: Duration::ZERO, ..write(&key("short")) };
    let refused = timeout(LIMIT, store.acquire(attempt)).await.expect("it goes on for ever");
    // On a busy machine the lease ends before the grant is confirmed.
    assert!(
        matches!(refused, Err(LockError::Unavailable { reason: Unavailable::Timeout, .. } | LockError::Busy { .. })),
        "{refused:?}"
    );
    proxy.set(Fault::None);
    world.until_nothing_is_left().await;
    world.end_behind(proxy).await;
}

#[tokio::test]
async fn a_store_without_a_server_refuses_at_once_and_works_when_there_is_one() {
    let world = World::start().await;
    world.server.kill().await.unwrap();
    let redis = Redis::connect(world.server.url()).await.unwrap();
    let store = opened(&redis);
    let since = Instant::now();
    for _ in 0..10 {
        assert!(matches!(store.acquire(write(&key("absent"))).await, Err(LockError::Unavailable { .. })));
    }
    // Ten timeouts in a row would take longer.
    assert!(since.elapsed() < COMMAND * 8, "{:?}", since.elapsed());
    world.server.restart().await.unwrap();
    until("a connection", || store.is_up()).await;
    let held = store.acquire(write(&key("absent"))).await.unwrap();
    store.release(&held).await.unwrap();
    world.end().await;
}
