use std::{slice, time::Duration};

use redis::Value;

use super::{World, declared, key, read, server, until, until_waiting, write};
use crate::store::{
    Attempt, Force, LockError, LockStore, LossReason, Owner, Token,
    redis::{
        commands::{calls, replies::Acquired},
        scripts::ACQUIRE,
    },
};

#[tokio::test]
async fn numbers_are_written_in_full() {
    let world = World::start().await;
    let store = world.store().await;
    let key = key("digits");
    let names = store.inner.keys.of(&key);
    let held = store.acquire(write(&key)).await.unwrap();
    assert!(held.token.get() > 1_000_000_000_000_000, "µs since 1970 have 16 digits");
    let token = held.token.to_string();
    assert_eq!(world.command(&["GET", &names[1]]).await.trim(), token);
    let state = world.command(&["GET", &names[0]]).await;
    let words: Vec<_> = state.trim().splitn(8, ' ').collect();
    assert_eq!((words[0], words[1], words[2]), ("w", "0", "0"));
    assert_eq!((words[3], words[4], words[6], words[7]), (held.owner.as_str(), token.as_str(), "60000000", "a tag"));
    assert_eq!(words[5].len(), 16);
    // The token of the other scripts, which acquire no free resource, follows the clock, too.
    let forced = store.force(&key, Force::Now).await.unwrap();
    assert!(forced.token > held.token);
    assert_eq!(world.command(&["GET", &names[1]]).await.trim(), forced.token.to_string());
    // A floor ahead of the clock: the next token is one more, to the last digit.
    let ahead = Token::new(8_999_999_999_999_999).unwrap();
    store.seed(&key, ahead).await.unwrap();
    let forced = store.force(&key, Force::Now).await.unwrap();
    assert_eq!(forced.token.get(), ahead.get() + 1);
    let next = store.acquire(write(&key)).await.unwrap();
    assert_eq!(next.token.get(), ahead.get() + 2);
    assert_eq!(world.command(&["GET", &names[1]]).await.trim(), "9000000000000001");
    store.renew(slice::from_ref(&next)).await.unwrap();
    assert!(!world.command(&["GET", &names[0]]).await.contains("e+"));
    store.release(&next).await.unwrap();
    world.end().await;
}

#[tokio::test]
async fn scripts_are_told_the_keys_of_their_common_case_and_find_the_others() {
    let world = World::start().await;
    let store = world.store().await;
    let key = key("named");
    let names = store.inner.keys.of(&key);
    let attempt = write(&key);
    assert_eq!(declared(&store, &attempt), [2, 1]);
    let held = store.acquire(attempt).await.unwrap();
    let mut waiting = store.acquire(read(&key));
    assert!(futures_util::FutureExt::now_or_never(&mut waiting).is_none());
    until_waiting(&store, &key, 1).await;
    // All keys except the records of holders. The token floor is not listed.
    let mut there = world.keys().await;
    there.sort();
    let mut expected = [&names[0], &names[2], &names[3]];
    expected.sort();
    assert_eq!(there.iter().collect::<Vec<_>>(), expected);
    store.release(&held).await.unwrap();
    let reader = waiting.await.unwrap();
    assert!(world.keys().await.contains(&names[4]));
    assert_eq!(world.command(&["GET", &names[1]]).await.trim(), reader.token.to_string(), "minted by the release");
    store.release(&reader).await.unwrap();
    world.end().await;
}

#[tokio::test]
async fn tokens_at_the_limit_are_refused_and_the_floor_stays() {
    let world = World::start().await;
    let store = world.store().await;
    let key = key("limit");
    let last = Token::new(Token::LIMIT - 1).unwrap();
    store.seed(&key, last).await.unwrap();
    assert!(store.acquire(write(&key)).await.is_err());
    assert_eq!(world.command(&["GET", &store.inner.keys.of(&key)[1]]).await.trim(), last.to_string());
    world.end().await;
}

#[tokio::test]
async fn a_command_that_comes_too_late_is_refused_and_does_nothing() {
    let world = World::start().await;
    let store = world.store().await;
    let attempt = write(&key("stale"));
    let owner = Owner::new("some-process-xyz.00000000000".to_owned());
    // Stamps too far behind or ahead. A client with a fast clock must not be accepted for longer than it expects.
    for (behind, accepted) in [(600_000, false), (-200_000, false), (2_000, true)] {
        let stamp = server(&store).state.clock.stamp().saturating_add_signed(-behind);
        let stale_after = Duration::from_millis(500);
        let asking = calls::Asking { attempt: &attempt, owner: &owner, wait: None, seq: 0, stamp, stale_after };
        let args = asking.args(&server(&store).handing(&store.inner.keys, attempt.key.bucket()));
        let reply = server(&store).link.call(&ACQUIRE, store.inner.keys.of(&attempt.key), args).await.unwrap();
        let reply = Acquired::read(&reply).unwrap();
        assert_eq!(matches!(reply, Acquired::Free { .. }), accepted, "{reply:?}");
        assert_eq!(matches!(reply, Acquired::Stale { .. }), !accepted, "{reply:?}");
        assert_eq!(world.keys().await.is_empty(), !accepted);
    }
    store.force(&attempt.key, Force::Now).await.unwrap();
    world.end().await;
}

#[tokio::test]
async fn a_clock_that_was_set_back_costs_one_lease_at_most() {
    let world = World::start().await;
    let store = world.store().await;
    let key = key("stepped");
    let names = store.inner.keys.of(&key);
    // The state of a dead holder with a lease of 0.5 s, from before the clock was set back by ten minutes.
    let ahead = server(&store).state.clock.stamp() + 600_000_000;
    let state = format!("w 0 0 dead-process-xyz.00000000000 {ahead} {ahead} 500000 ");
    world.command(&["SET", &names[0], &state, "PX", "600500"]).await;
    world.command(&["SET", &names[1], &ahead.to_string()]).await;
    let told = store.acquire(Attempt { wait: Duration::from_millis(20), ..write(&key) }).await;
    assert!(matches!(&told, Err(LockError::Timeout { remaining, .. }) if remaining.as_millis() <= 500), "{told:?}");
    let began = tokio::time::Instant::now();
    let held = store.acquire(write(&key)).await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    assert!(held.token.get() > ahead, "the floor was kept");
    store.release(&held).await.unwrap();
    world.end().await;
}

#[tokio::test]
async fn a_holder_whose_entry_vanished_hears_that_it_was_taken() {
    let world = World::start().await;
    let store = world.store().await;
    let key = key("stolen");
    let held = store.acquire(write(&key)).await.unwrap();
    world.command(&["DEL", &store.inner.keys.of(&key)[0]]).await;
    store.renew(slice::from_ref(&held)).await.unwrap();
    assert_eq!(held.loss(), Some(LossReason::Stolen));
    assert!(world.keys().await.is_empty(), "a renewal creates nothing");
    world.end().await;
}

#[tokio::test]
async fn what_a_dead_fleet_leaves_ends_by_itself() {
    let world = World::start().await;
    let store = world.store().await;
    let key = key("fleet");
    let names = store.inner.keys.of(&key);
    let held = store.acquire(Attempt { lease: Duration::from_millis(500), ..write(&key) }).await.unwrap();
    let mut waiting = store.acquire(Attempt { wait: Duration::from_secs(1), ..write(&key) });
    assert!(futures_util::FutureExt::now_or_never(&mut waiting).is_none());
    until_waiting(&store, &key, 1).await;
    for (name, most) in [(&names[0], 13_500), (&names[2], 11_500), (&names[3], 11_500)] {
        let left: i64 = world.command(&["PTTL", name]).await.trim().parse().unwrap();
        assert!(left > 9_000 && left <= most, "{name}: {left}");
    }
    let state: i64 = world.command(&["PEXPIRETIME", &names[0]]).await.trim().parse().unwrap();
    let queue: i64 = world.command(&["PEXPIRETIME", &names[2]]).await.trim().parse().unwrap();
    assert!(state >= queue + 2000, "without its state the queue would be overtaken");
    drop(waiting);
    store.release(&held).await.unwrap();
    world.end().await;
}

#[tokio::test]
async fn flushed_scripts_disturb_nobody() {
    let world = World::start().await;
    let store = world.store().await;
    let key = key("flushed");
    for _ in 0..3 {
        world.command(&["SCRIPT", "FLUSH"]).await;
        let held = store.acquire(write(&key)).await.unwrap();
        until_scripts_may_be_loaded(&store).await;
        world.command(&["SCRIPT", "FLUSH"]).await;
        store.renew(slice::from_ref(&held)).await.unwrap();
        assert!(held.loss().is_none());
        until_scripts_may_be_loaded(&store).await;
        world.command(&["SCRIPT", "FLUSH"]).await;
        store.release(&held).await.unwrap();
        assert!(world.keys().await.is_empty());
        until_scripts_may_be_loaded(&store).await;
    }
    world.end().await;
}

/// Scripts are loaded again once a second at most.
async fn until_scripts_may_be_loaded(store: &super::RedisStore) {
    until("scripts may be loaded", || server(store).link.may_reload_scripts()).await;
}

#[test]
fn replies_are_strings() {
    assert!(Acquired::read(&Value::Int(1)).is_err());
}
