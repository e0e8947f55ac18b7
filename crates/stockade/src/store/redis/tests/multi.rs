//! Several resources in one script, and what happens to them when the script fails.

use std::{sync::Arc, time::Duration};

use futures_util::FutureExt;
use stockade_testbed::{Fault, Proxy};
use tokio::time::{sleep, timeout};

use super::{LIMIT, World, connected, faults::undone_without_its_reply, key, neighbour, server, until_waiting, write};
use crate::{
    redis::Redis,
    store::{
        Attempt, Force, LockError, LockStore, Owner, Ownership, Released, Token, Unavailable,
        redis::{
            RedisStore,
            commands::{calls, replies::Multi as Reply},
            scripts::MULTI,
        },
    },
};

fn attempts(ids: &[&str]) -> Vec<Attempt> {
    ids.iter().map(|id| write(&key(id))).collect()
}

/// Attempts whose leases outlive the test, so locks that are left behind stay visible.
fn lasting(ids: &[&str]) -> Vec<Attempt> {
    let lease = Duration::from_secs(60);
    attempts(ids).into_iter().map(|attempt| Attempt { lease, ..attempt }).collect()
}

async fn all(store: &RedisStore, attempts: &[Attempt]) -> Vec<Arc<Ownership>> {
    store.try_all(attempts).await.expect("failed").expect("not free")
}

async fn release(store: &RedisStore, held: &[Arc<Ownership>]) {
    for ownership in held {
        assert_eq!(store.release(ownership).await.unwrap(), Released::Released);
    }
}

#[tokio::test]
async fn each_gets_what_an_attempt_of_its_own_gives() {
    let world = World::start().await;
    let store = world.store().await;
    let one = key("one");
    let mut wanted = attempts(&["one", "two"]);
    wanted.push(write(&neighbour(&one)));
    // A floor ahead of the clock, which two of them share.
    let ahead = Token::new(8_000_000_000_000_000).unwrap();
    store.seed(&one, ahead).await.unwrap();
    let held = all(&store, &wanted).await;
    assert_eq!((held[0].token.get(), held[2].token.get()), (ahead.get() + 1, ahead.get() + 2));
    assert!(held[1].token < ahead && held[1].token.get() > 1_000_000_000_000_000);
    for ownership in &held {
        let names = store.inner.keys.of(&ownership.key);
        let state = world.command(&["GET", &names[0]]).await;
        let words: Vec<_> = state.trim().splitn(8, ' ').collect();
        let token = ownership.token.to_string();
        assert_eq!(words[..5], ["w", "0", "0", ownership.owner.as_str(), token.as_str()]);
        assert_eq!((words[6], words[7]), ("60000000", "a tag"));
        let left: i64 = world.command(&["PTTL", &names[0]]).await.trim().parse().unwrap();
        assert!(left > 30_000 && left <= 60_000, "{left}");
        assert!(ownership.deadline().remaining() < Duration::from_millis(59_399), "{ownership:?}");
    }
    store.renew(&held).await.unwrap();
    assert!(held.iter().all(|ownership| ownership.loss().is_none()));
    release(&store, &held).await;
    world.end().await;
}

#[tokio::test]
async fn an_ended_lease_with_a_queue_behind_it_is_not_free() {
    let world = World::start().await;
    let (store, other) = (world.store().await, world.store().await);
    let contended = key("contended");
    let held = store.acquire(write(&contended)).await.unwrap();
    let mut waiting = other.acquire(write(&contended));
    assert!((&mut waiting).now_or_never().is_none());
    until_waiting(&store, &contended, 1).await;
    // The holder died a second ago, and no script has looked since.
    let names = store.inner.keys.of(&contended);
    let past = server(&store).state.clock.stamp() - 1_000_000;
    let state = format!("w 1 0 dead-process-xyz.00000000000 {past} {past} 500000 ");
    world.command(&["SET", &names[0], &state, "KEEPTTL"]).await;
    assert!(store.try_all(&attempts(&["free", "contended"])).await.unwrap().is_none());
    assert_eq!(world.command(&["GET", &names[0]]).await.trim_end_matches('\n'), state);
    let next = timeout(LIMIT, waiting).await.expect("hangs").expect("not granted");
    other.release(&next).await.unwrap();
    assert_eq!(store.release(&held).await.unwrap(), Released::Lost);
    world.end().await;
}

#[tokio::test]
async fn one_that_comes_too_late_is_refused_and_does_nothing() {
    let world = World::start().await;
    let store = world.store().await;
    let wanted = attempts(&["late", "too"]);
    let owners = [0, 1].map(|n| Owner::new(format!("some-process-xyz.{n:011}")));
    for (behind, accepted) in [(600_000, false), (-200_000, false), (2_000, true)] {
        let stamp = server(&store).state.clock.stamp().saturating_add_signed(-behind);
        let args = calls::multi(&wanted, &owners, stamp, Duration::from_millis(500));
        let keys = wanted.iter().flat_map(|attempt| store.inner.keys.of(&attempt.key)).collect();
        let reply = Reply::read(&server(&store).link.call(&MULTI, keys, args).await.unwrap(), 2).unwrap();
        assert_eq!(matches!(reply, Reply::Held(_)), accepted, "{reply:?}");
        assert_eq!(matches!(reply, Reply::Stale { .. }), !accepted, "{reply:?}");
        assert_eq!(world.keys().await.is_empty(), !accepted);
    }
    for attempt in &wanted {
        store.force(&attempt.key, Force::Now).await.unwrap();
    }
    world.end().await;
}

#[tokio::test]
async fn tokens_at_the_limit_leave_none_of_them_held() {
    let world = World::start().await;
    let store = world.store().await;
    let last = Token::new(Token::LIMIT - 1).unwrap();
    store.seed(&key("spent"), last).await.unwrap();
    // The script refuses all of them. Then each is asked for alone, and the foreign one says why.
    assert!(store.try_all(&attempts(&["fresh", "spent"])).await.unwrap().is_none());
    world.until_nothing_is_left().await;
    assert_eq!(world.command(&["GET", &store.inner.keys.of(&key("spent"))[1]]).await.trim(), last.to_string());
    world.end().await;
}

#[tokio::test]
async fn a_server_out_of_memory_gives_none_of_them() {
    let world = World::start().await;
    let store = world.store().await;
    world.command(&["CONFIG", "SET", "maxmemory", "1"]).await;
    assert!(store.try_all(&attempts(&["full", "too"])).await.unwrap().is_none());
    assert!(world.keys().await.is_empty());
    world.command(&["CONFIG", "SET", "maxmemory", "0"]).await;
    release(&store, &all(&store, &attempts(&["full", "too"])).await).await;
    world.end().await;
}

#[tokio::test]
async fn flushed_scripts_are_loaded_again() {
    let world = World::start().await;
    let store = world.store().await;
    world.command(&["SCRIPT", "FLUSH"]).await;
    let held = all(&store, &attempts(&["flushed", "too"])).await;
    release(&store, &held).await;
    world.end().await;
}

#[tokio::test]
async fn a_lost_reply_undoes_each_of_them() {
    let wanted = lasting(&["lost", "lost-too", "and-this"]);
    undone_without_its_reply(3, async |store| store.try_all(&wanted).await).await;
}

#[tokio::test]
async fn a_dropped_attempt_undoes_each_of_them() {
    let world = World::start().await;
    let store = world.store().await;
    let wanted = lasting(&["dropped", "dropped-too"]);
    for _ in 0..50 {
        // The command is sent, and the attempt is dropped before the reply.
        assert!(store.try_all(&wanted).now_or_never().is_none());
    }
    world.until_nothing_is_left().await;
    release(&store, &all(&store, &wanted).await).await;
    world.end().await;
}

#[tokio::test]
async fn what_a_frozen_server_was_asked_for_is_undone_when_it_thaws() {
    let world = World::start().await;
    let store = world.store().await;
    world.server.pause().unwrap();
    let refused = store.try_all(&lasting(&["frozen", "too"])).await;
    assert!(matches!(refused, Err(LockError::Unavailable { reason: Unavailable::Timeout, .. })), "{refused:?}");
    world.server.resume().unwrap();
    // Both commands and their cancels have been run by the time a later one is answered.
    let next = timeout(LIMIT, async {
        loop {
            if let Ok(Some(held)) = store.try_all(&attempts(&["frozen", "too"])).await {
                return held;
            }
            sleep(Duration::from_millis(5)).await;
        }
    });
    release(&store, &next.await.expect("still held by nobody")).await;
    world.end().await;
}

#[tokio::test]
async fn a_lease_that_is_nearly_over_when_the_reply_comes_is_given_back() {
    let world = World::start().await;
    let proxy = Proxy::start(world.server.addr()).await.unwrap();
    let store = connected(&Redis::connect(proxy.url_for(&world.server.url())).await.unwrap()).await;
    let lease = Duration::from_millis(100);
    let wanted: Vec<_> = attempts(&["short", "too"]).into_iter().map(|attempt| Attempt { lease, ..attempt }).collect();
    proxy.set(Fault::Delay(Duration::from_millis(40)));
    assert!(store.try_all(&wanted).await.unwrap().is_none());
    proxy.set(Fault::None);
    world.until_nothing_is_left().await;
    world.end_behind(proxy).await;
}
