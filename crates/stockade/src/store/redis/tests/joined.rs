//! Calls of one script that come together.

use std::time::Duration;

use futures_util::future::join_all;
use redis::Value;
use tokio::time::timeout;

use super::{LIMIT, World, key, permit, read, server, write};
use crate::store::{
    Attempt, Force, LockError, LockStore, Misplaced, Owner,
    redis::{RedisStore, commands::calls, commands::replies::Acquired, scripts::ACQUIRE},
};

/// Enough for several commands of as many calls as one takes.
const CALLS: u32 = 200;

/// The replies to calls that come in one command.
async fn together(store: &RedisStore, attempts: &[Attempt]) -> Vec<Acquired> {
    let (keys, shard) = (&store.inner.keys, server(store));
    let (mut names, mut args) = (Vec::new(), Vec::new());
    for (attempt, number) in attempts.iter().zip(0..) {
        let owner = Owner::new(format!("some-process-xyz.{number:011}"));
        let (wait, stale_after) = (Some(attempt.wait), Duration::from_secs(1));
        let asking = calls::Asking { attempt, owner: &owner, wait, seq: 0, stamp: 0, stale_after };
        names.extend(keys.of(&attempt.key).into_iter().take(2));
        let words = asking.args(&shard.handing(keys, attempt.key.bucket()));
        args.extend(words.into_iter().skip(if number == 0 { 0 } else { 2 }));
    }
    let Value::Array(replies) = shard.link.call(&ACQUIRE, names, args).await.unwrap() else { panic!() };
    replies.iter().map(|reply| Acquired::read(reply).unwrap()).collect()
}

#[tokio::test]
async fn calls_for_one_resource_are_answered_in_their_order() {
    let world = World::start().await;
    let store = world.store().await;
    for (number, first) in [permit, read, write].into_iter().enumerate() {
        let (one, other) = (key(&format!("one-{number}")), key(&format!("other-{number}")));
        let attempts = [first(&one), write(&one), write(&other), read(&one), read(&other)];
        let replies = together(&store, &attempts).await;
        assert!(
            matches!(
                replies.as_slice(),
                [
                    Acquired::Free { .. } | Acquired::Granted { .. },
                    Acquired::Queued { position: 1, .. },
                    Acquired::Free { .. },
                    Acquired::Queued { position: 2, .. },
                    Acquired::Queued { position: 1, .. },
                ]
            ),
            "{replies:?}"
        );
        for key in [one, other] {
            // The first is the holder, and those behind it have no process that would take the lock.
            while store.force(&key, Force::Now).await.unwrap().holders > 0 {}
        }
    }
    world.end().await;
}

#[tokio::test]
async fn a_crowd_takes_few_commands_and_a_foreign_key_refuses_only_its_own_caller() {
    let world = World::start().await;
    let store = world.store().await;
    let keys: Vec<_> = (0..CALLS).map(|number| key(&format!("crowd-{number}"))).collect();
    let of = |number: usize| store.inner.keys.of(&keys[number]);
    world.command(&["SET", &of(50)[0], "of another program"]).await;
    world.command(&["RPUSH", &of(70)[0], "of another program"]).await;
    world.command(&["CONFIG", "RESETSTAT"]).await;
    let attempts = keys.iter().zip(0..).map(|(key, number)| match number % 2 {
        0 => store.acquire(write(key)),
        _ => store.acquire(read(key)),
    });
    let held = timeout(LIMIT, join_all(attempts)).await.unwrap();
    for (number, held) in held.iter().enumerate() {
        match (number, held) {
            (50 | 70, Err(LockError::Foreign { expected: Misplaced::State, .. })) => {}
            (_, Ok(_)) if number != 50 && number != 70 => {}
            (_, other) => panic!("{number}: {other:?}"),
        }
    }
    let held: Vec<_> = held.into_iter().flatten().collect();
    for released in join_all(held.iter().map(|held| store.release(held))).await {
        released.unwrap();
    }
    let took = world.server.calls_of("evalsha").await.unwrap();
    // How many come together depends on the window, which is narrow while the machine is slow.
    let calls = held.len() as u64 * 2;
    assert!(took < calls, "{took} scripts for {calls} calls");
    world.command(&["DEL", &of(50)[0], &of(70)[0]]).await;
    drop(held);
    world.end().await;
}
