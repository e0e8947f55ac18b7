//! Values of another program, or of an administrator, under the keys of a lock.

use std::{slice, sync::Arc, time::Duration};

use tokio::time::timeout;

use super::{LIMIT, World, key, permit, read, until_waiting, waiting, write};
use crate::{
    resource::Key,
    store::{Attempt, Force, LockError, LockStore, Misplaced, Released, redis::RedisStore},
};

/// Puts a value under one of the five keys of a resource.
async fn put(world: &World, store: &RedisStore, key: &Key, at: usize, command: &[&str]) {
    let name = &store.inner.keys.of(key)[at];
    world.command(&["DEL", name]).await;
    let words: Vec<_> = [&command[..1], &[name.as_str()], &command[1..]].concat();
    world.command(&words).await;
}

fn once(attempt: Attempt) -> Attempt {
    Attempt { wait: Duration::ZERO, ..attempt }
}

const TEXT: &[&str] = &["SET", "1"];
const LIST: &[&str] = &["RPUSH", "1"];

#[tokio::test]
async fn a_foreign_state_is_named_and_only_force_overwrites_it() {
    let world = World::start().await;
    let store = world.store().await;
    let values = [TEXT, LIST, &["SET", "w 1"], &["SET", "r 0 x"], &["SET", "n 2"], &["HSET", "a", "b"]];
    for (number, value) in values.iter().enumerate() {
        let key = key(&format!("state-{number}"));
        put(&world, &store, &key, 0, value).await;
        for attempt in [write(&key), once(write(&key)), read(&key), permit(&key)] {
            let refused = timeout(LIMIT, store.acquire(attempt)).await.expect("it waits").unwrap_err();
            assert!(
                matches!(&refused, LockError::Foreign { expected: Misplaced::State, key: of } if *of == key),
                "{value:?}: {refused}"
            );
            assert!(!refused.to_string().contains("state-"), "the id is nobody else's business: {refused}");
        }
        let seen = store.inspect(&key).await;
        assert!(matches!(seen, Err(LockError::Foreign { expected: Misplaced::State, .. })), "{value:?}: {seen:?}");
        let name = store.inner.keys.of(&key)[0].clone();
        assert_ne!(world.command(&["TYPE", &name]).await.trim(), "none", "only force may overwrite it");
        assert_eq!(store.force(&key, Force::Now).await.unwrap().holders, 0);
        let held = store.acquire(once(write(&key))).await.unwrap();
        assert_eq!(store.release(&held).await.unwrap(), Released::Released);
    }
    world.end().await;
}

#[tokio::test]
async fn a_holder_whose_state_was_overwritten_is_told_and_its_waiters_are_told_why() {
    let world = World::start().await;
    let store = world.store().await;
    for value in [TEXT, LIST] {
        let (key, other) = (key("overwritten"), key("neighbour"));
        let held = [store.acquire(write(&key)).await.unwrap(), store.acquire(write(&other)).await.unwrap()];
        let next = waiting(&store, write(&key));
        until_waiting(&store, &key, 1).await;
        put(&world, &store, &key, 0, value).await;
        store.renew(slice::from_ref(&held[0])).await.unwrap();
        assert!(held[0].loss().is_some());
        let refused = timeout(LIMIT, next).await.expect("it waits").unwrap().unwrap_err();
        assert!(matches!(refused, LockError::Foreign { expected: Misplaced::State, .. }), "{refused}");
        assert_eq!(store.release(&held[0]).await.unwrap(), Released::Lost);
        store.release(&held[1]).await.unwrap();
        store.force(&key, Force::Now).await.unwrap();
        world.until_nothing_is_left().await;
    }
    world.end().await;
}

/// One script renews all of them, even if their buckets differ.
#[tokio::test]
async fn a_foreign_value_ends_its_lock_and_not_the_renewal_of_others() {
    let world = World::start().await;
    let store = world.store().await;
    let keys = ["writer", "reader", "beside"].map(key);
    assert!(keys.iter().any(|key| key.bucket() != keys[0].bucket()));
    for (lost, at) in [(0, 0), (1, 0), (1, 4)] {
        for text in [false, true] {
            let held = [write(&keys[0]), read(&keys[1]), write(&keys[2])].map(|attempt| store.acquire(attempt));
            let held = futures_util::future::try_join_all(held).await.unwrap();
            let owner = held[lost].owner.as_str();
            // The records of readers count only while there are several.
            let beside = if at == 4 { Some(store.acquire(read(&keys[1])).await.unwrap()) } else { None };
            let state = format!("{} 0 0 {owner} x", if lost == 0 { 'w' } else { 'r' });
            let value: &[&str] = match (text, at) {
                (false, _) => LIST,
                (true, 0) => &["SET", &state],
                (true, _) => &["HSET", owner, "x"],
            };
            put(&world, &store, &held[lost].key, at, value).await;
            store.renew(&held).await.unwrap();
            for (number, held) in held.iter().enumerate() {
                assert_eq!(held.loss().is_some(), number == lost, "{value:?}");
                store.force(&held.key, Force::Now).await.unwrap();
            }
            drop(beside);
        }
    }
    world.end().await;
}

/// A foreign value under each key except the state. Attempts that need that key are refused, until a forced release.
#[tokio::test]
async fn foreign_queues_records_and_floors_are_named_and_overwritten_by_force() {
    let world = World::start().await;
    let (store, other) = (world.store().await, world.store().await);
    for (at, value, expected, held, wanted) in [
        (1, LIST, Misplaced::Floor, None, write(&key("floor"))),
        (1, &["SET", "many"], Misplaced::Floor, None, write(&key("floor"))),
        (1, &["SET", "many"], Misplaced::Floor, None, read(&key("floor-read"))),
        (2, TEXT, Misplaced::Queue, Some(write(&key("queue"))), write(&key("queue"))),
        (2, TEXT, Misplaced::Queue, Some(read(&key("queue-read"))), write(&key("queue-read"))),
        (3, TEXT, Misplaced::Waiters, Some(write(&key("waiters"))), write(&key("waiters"))),
        (4, LIST, Misplaced::Holders, Some(read(&key("holders"))), read(&key("holders"))),
        (4, TEXT, Misplaced::Holders, Some(permit(&key("permits"))), permit(&key("permits"))),
    ] {
        let key = wanted.key.clone();
        let before = match held {
            Some(attempt) => Some(store.acquire(attempt).await.unwrap()),
            None => None,
        };
        put(&world, &store, &key, at, value).await;
        let refused = timeout(LIMIT, other.acquire(wanted.clone())).await.expect("it waits").unwrap_err();
        let named = matches!(&refused, LockError::Foreign { expected: named, .. } if *named == expected);
        assert!(named, "{expected}: {refused}");
        store.force(&key, Force::Now).await.unwrap();
        if let Some(before) = before {
            assert_eq!(store.release(&before).await.unwrap(), Released::Lost);
        }
        let held = other.acquire(wanted.clone()).await.unwrap();
        let next = waiting(&store, wanted.clone());
        if wanted.mode != crate::store::Mode::Read {
            until_waiting(&store, &key, 1).await;
        }
        other.release(&held).await.unwrap();
        let next = timeout(LIMIT, next).await.unwrap().unwrap().unwrap();
        store.release(&next).await.unwrap();
        world.until_nothing_is_left().await;
    }
    world.end().await;
}

#[tokio::test]
async fn waiters_keep_their_places_while_a_foreign_floor_makes_no_tokens() {
    let world = World::start().await;
    let (store, other) = (world.store().await, world.store().await);
    for wanted in [write(&key("placed")), read(&key("placed-read"))] {
        let key = wanted.key.clone();
        let held = store.acquire(write(&key)).await.unwrap();
        let waiters = [waiting(&other, wanted.clone()), waiting(&other, wanted.clone())];
        until_waiting(&store, &key, 2).await;
        put(&world, &store, &key, 1, &["SET", "many"]).await;
        let refused = store.release(&held).await.unwrap_err();
        assert!(matches!(&refused, LockError::Foreign { .. }), "{refused}");
        assert_eq!(other.inspect(&key).await.unwrap().waiting, 2);
        put(&world, &store, &key, 1, &["SET", "0"]).await;
        for waiter in waiters {
            let held = timeout(LIMIT, waiter).await.unwrap().unwrap().unwrap();
            other.release(&held).await.unwrap();
        }
        world.until_nothing_is_left().await;
    }
    world.end().await;
}

#[tokio::test]
async fn several_with_a_foreign_value_among_them_are_refused_by_its_name() {
    let world = World::start().await;
    let store = world.store().await;
    let attempts = [write(&key("several-1")), write(&key("several-2"))];
    for at in [0, 1] {
        put(&world, &store, &attempts[1].key, at, LIST).await;
        assert!(store.try_all(&attempts).await.unwrap().is_none(), "one by one they say why");
        assert!(matches!(store.acquire(attempts[1].clone()).await, Err(LockError::Foreign { .. })));
        store.force(&attempts[1].key, Force::Now).await.unwrap();
        let held = store.try_all(&attempts).await.unwrap().expect("both are free");
        for held in &held {
            store.release(held).await.unwrap();
        }
    }
    world.end().await;
}

#[tokio::test]
async fn a_downgrade_of_an_overwritten_lock_says_why() {
    let world = World::start().await;
    let store: Arc<RedisStore> = world.store().await;
    let key = key("downgraded");
    let held = store.acquire(write(&key)).await.unwrap();
    put(&world, &store, &key, 0, TEXT).await;
    let refused = store.downgrade(&held).await.unwrap_err();
    assert!(matches!(refused, LockError::Foreign { expected: Misplaced::State, .. }), "{refused}");
    assert_eq!(store.release(&held).await.unwrap(), Released::Lost);
    store.force(&key, Force::Now).await.unwrap();
    world.end().await;
}

#[tokio::test]
async fn a_new_run_with_a_foreign_floor_refuses_the_attempts_of_that_bucket_only() {
    let world = World::start().await;
    let store = world.store().await;
    let (floor, beside) = (key("floor"), key("beside"));
    assert_ne!(floor.bucket(), beside.bucket());
    let held = store.acquire(write(&beside)).await.unwrap();
    for value in [LIST, &["SET", "many"]] {
        let before = store.acquire(write(&floor)).await.unwrap();
        store.release(&before).await.unwrap();
        put(&world, &store, &floor, 1, value).await;
        world.begin_run(&store).await;
        store.renew(slice::from_ref(&held)).await.unwrap();
        assert!(held.loss().is_none());
        let refused = timeout(LIMIT, store.acquire(write(&floor))).await.expect("it waits").unwrap_err();
        assert!(matches!(refused, LockError::Foreign { expected: Misplaced::Floor, .. }), "{value:?}: {refused}");
        store.force(&floor, Force::Now).await.unwrap();
        let again = store.acquire(write(&floor)).await.unwrap();
        assert!(again.token > before.token);
        store.release(&again).await.unwrap();
    }
    store.release(&held).await.unwrap();
    world.end().await;
}
