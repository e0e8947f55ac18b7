use std::{slice, sync::Arc, time::Duration};

use tokio::time::{Instant, sleep, timeout};

use super::{Cluster, granted, key_on, keys_on, neighbour, waiting};
use crate::{
    redis::eventually,
    store::{
        Attempt, LockError, LockStore, Recall, Released, Token, Unavailable,
        redis::tests::{LIMIT, read, until, until_waiting, write, yielding},
    },
};

#[tokio::test]
async fn what_gives_way_is_recalled_when_its_slot_moves() {
    let cluster = Cluster::start().await;
    let store = cluster.store().await;
    let key = key_on(0);
    let slot = key.bucket().slot();
    // The store does not listen in the bucket before its first lock there. Until it listens, no message could recall a
    // lock, so a lock serves only the reader that asked for it.
    let first_that_is_told = async {
        loop {
            let (attempt, readers) = yielding(read(&key));
            let held = store.acquire(attempt).await.unwrap();
            if readers.recalled().is_none() {
                return (held, readers);
            }
            assert_eq!(readers.recalled(), Some(Recall::Once));
            store.release(&held).await.unwrap();
        }
    };
    let (held, readers) = timeout(LIMIT, first_that_is_told).await.unwrap();
    cluster.nodes.begin_migration(slot, cluster.primary(1)).await.unwrap();
    cluster.nodes.move_keys(slot).await.unwrap();
    cluster.nodes.finish_migration(slot).await.unwrap();
    until("recalled", || readers.recalled() == Some(Recall::Disconnected)).await;
    assert_eq!(held.loss(), None, "the reader inside stays");
    store.release(&held).await.unwrap();
    cluster.end().await;
}

#[tokio::test]
async fn who_holds_or_waits_outlasts_the_migration_of_the_slot() {
    let cluster = Cluster::start().await;
    let (holder, other) = (cluster.store().await, cluster.store().await);
    let key = key_on(0);
    let slot = key.bucket().slot();
    let held = holder.acquire(write(&key)).await.unwrap();
    let kept = holder.acquire(write(&neighbour(&key))).await.unwrap();
    let mut waiters = Vec::new();
    for place in 1..=4 {
        waiters.push(waiting(&other, write(&key)));
        until_waiting(&holder, &key, place).await;
    }
    cluster.nodes.begin_migration(slot, cluster.primary(1)).await.unwrap();
    cluster.nodes.move_keys(slot).await.unwrap();
    // Neither node runs a script of this slot now.
    let since = Instant::now();
    let refused = other.acquire(Attempt { wait: Duration::ZERO, ..write(&key) }).await.unwrap_err();
    assert!(matches!(refused, LockError::Unavailable { reason: Unavailable::SlotMoving, .. }), "{refused}");
    assert!(since.elapsed() < Duration::from_secs(1), "{:?}", since.elapsed());
    cluster.reset_stats().await;
    holder.release_detached(Arc::clone(&held));
    cluster.until_scripts_refused(1).await;
    cluster.reset_stats().await;
    let patient = waiting(&holder, write(&kept.key));
    cluster.until_scripts_refused(1).await;
    assert!(waiters.iter().all(|waiter| !waiter.is_finished()));
    cluster.nodes.finish_migration(slot).await.unwrap();

    let mut last = held.token;
    for (n, waiter) in waiters.into_iter().enumerate() {
        let next = granted(waiter).await;
        assert!(next.token > last, "the {n}th");
        last = next.token;
        let since = Instant::now();
        assert_eq!(other.release(&next).await.unwrap(), Released::Released);
        if n > 0 {
            assert!(since.elapsed() < Duration::from_secs(1), "{:?}", since.elapsed());
        }
    }
    let channels = cluster.primary(1).command(&["PUBSUB", "SHARDCHANNELS"]).await.unwrap();
    let inbox = other.inner.keys.bucket_inbox(key.bucket(), &other.inner.process);
    assert!(channels.contains(&inbox), "{channels}");
    let before = kept.deadline();
    holder.renew(slice::from_ref(&kept)).await.unwrap();
    assert!(kept.loss().is_none() && kept.deadline() >= before);
    holder.release(&kept).await.unwrap();
    holder.release(&granted(patient).await).await.unwrap();
    cluster.end().await;
}

/// All keys of the resource exist, so the server of a migrating slot begins a script about them, unless the script
/// names a key that does not.
#[tokio::test]
async fn no_script_ends_half_way_while_a_slot_migrates() {
    let cluster = Cluster::start().await;
    let (dead, living) = (cluster.store().await, cluster.store().await);
    let key = key_on(0);
    let slot = key.bucket().slot();
    // Two readers, since the only one has no record of its own.
    let short = Attempt { lease: Duration::from_secs(3), ..read(&key) };
    let readers = [dead.acquire(short.clone()).await.unwrap(), dead.acquire(short).await.unwrap()];
    let waiter = waiting(&living, write(&key));
    until_waiting(&living, &key, 1).await;
    cluster.nodes.begin_migration(slot, cluster.primary(1)).await.unwrap();
    // Nobody renews the readers. The waiter asks once their leases are over.
    until("the leases are over", || readers.iter().all(|reader| reader.loss().is_some())).await;
    cluster.reset_stats().await;
    cluster.until_scripts_refused(2).await;
    assert!(!waiter.is_finished(), "granted by a script that did not write the grant down");
    let state = cluster.primary(0).command(&["GET", &living.inner.keys.of(&key)[0]]).await.unwrap();
    assert!(state.starts_with("r 1 "), "{state}");
    cluster.nodes.move_keys(slot).await.unwrap();
    cluster.nodes.finish_migration(slot).await.unwrap();
    let held = granted(waiter).await;
    assert_eq!(living.release(&held).await.unwrap(), Released::Released);
    cluster.end().await;
}

#[tokio::test]
async fn a_seed_while_a_slot_migrates_loses_no_floor() {
    let cluster = Cluster::start().await;
    let store = cluster.store().await;
    let key = key_on(0);
    let held = store.acquire(write(&key)).await.unwrap();
    cluster.nodes.begin_migration(key.bucket().slot(), cluster.primary(1)).await.unwrap();
    let higher = Token::new(held.token.get() + 60_000_000).unwrap();
    store.seed(&key, higher).await.unwrap();
    let floor = cluster.primary(0).command(&["GET", &store.inner.keys.floor(key.bucket())]).await.unwrap();
    assert_eq!(floor, higher.to_string());
    cluster.nodes.move_keys(key.bucket().slot()).await.unwrap();
    cluster.nodes.finish_migration(key.bucket().slot()).await.unwrap();
    eventually("released", async || store.release(&held).await.is_ok()).await;
    let next = store.acquire(write(&key)).await.unwrap();
    assert!(next.token > higher);
    store.release(&next).await.unwrap();
    cluster.end().await;
}

#[tokio::test]
async fn waiters_are_handed_the_lock_at_the_new_place_without_a_poll() {
    let cluster = Cluster::start().await;
    let (holder, other) = (cluster.store().await, cluster.store().await);
    let key = key_on(0);
    let held = holder.acquire(write(&key)).await.unwrap();
    let mut waiters = Vec::new();
    for place in 1..=3 {
        waiters.push(waiting(&other, write(&key)));
        until_waiting(&holder, &key, place).await;
    }
    // The push that ends the old subscription is enough to find the new place. By chance a poll may come first.
    let mut unasked = false;
    for round in 0..8 {
        cluster.reset_stats().await;
        let (old, new) = (cluster.primary(round % 2), cluster.primary(1 - round % 2));
        let place = other.inner.shard(&key).unwrap().node.clone();
        cluster.nodes.migrate(key.bucket().slot(), new).await.unwrap();
        until("a subscription at the new place", || {
            other.inner.shard(&key).is_ok_and(|shard| shard.node != place && shard.hears(key.bucket()))
        })
        .await;
        let stats = old.command(&["INFO", "commandstats"]).await.unwrap();
        let scripts = stats.lines().find(|line| line.starts_with("cmdstat_evalsha:"));
        unasked = scripts.is_none_or(|line| line.contains("rejected_calls=0"));
        if unasked {
            break;
        }
    }
    assert!(unasked, "it was found by commands that were refused");
    until_waiting(&holder, &key, 3).await;
    let mut held = held;
    let mut store = &holder;
    for waiter in waiters {
        store.release(&held).await.unwrap();
        held = timeout(Duration::from_secs(1), waiter).await.expect("not told").unwrap().unwrap();
        store = &other;
    }
    other.release(&held).await.unwrap();
    cluster.end().await;
}

#[tokio::test]
async fn an_attempt_waits_for_a_slot_on_its_way_as_long_as_for_a_lock() {
    let cluster = Cluster::start().await;
    let store = cluster.store().await;
    let key = key_on(2);
    let slot = key.bucket().slot();
    store.release(&store.acquire(write(&key)).await.unwrap()).await.unwrap();
    cluster.nodes.begin_migration(slot, cluster.primary(0)).await.unwrap();
    let short = store.acquire(Attempt { wait: Duration::from_millis(600), ..write(&key) });
    let since = Instant::now();
    let refused = short.await.unwrap_err();
    assert!(matches!(refused, LockError::Unavailable { reason: Unavailable::SlotMoving, .. }), "{refused}");
    assert!(since.elapsed() >= Duration::from_millis(600), "{:?}", since.elapsed());
    cluster.reset_stats().await;
    let long = waiting(&store, write(&key));
    // More refusals than an attempt would take if it gave up after some.
    cluster.until_scripts_refused(5).await;
    assert!(!long.is_finished());
    cluster.nodes.move_keys(slot).await.unwrap();
    cluster.nodes.finish_migration(slot).await.unwrap();
    store.release(&granted(long).await).await.unwrap();
    cluster.end().await;
}

/// A server that gives a slot away ends subscriptions with a push that looks like the reply to a command.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_command_gets_the_reply_of_another_when_a_slot_leaves() {
    let cluster = Cluster::start().await;
    let store = cluster.store().await;
    let moving = key_on(0);
    let guard = waiting(&store, write(&moving));
    let guard = granted(guard).await;
    let tasks: Vec<_> = keys_on(0)
        .skip(1)
        .take(12)
        .map(|key| {
            let store = Arc::clone(&store);
            tokio_util::task::TaskTracker::new().spawn(async move {
                let mut taken = 0;
                while taken < 300 {
                    let Ok(held) = store.acquire(write(&key)).await else {
                        // A refusal comes at once. Asking again without a pause would leave no thread to reconnect on.
                        sleep(Duration::from_millis(1)).await;
                        continue;
                    };
                    if let Ok(seen) = store.inspect(&key).await {
                        let holders: Vec<_> = seen.holders.iter().map(|party| party.token).collect();
                        assert_eq!(holders, [Some(held.token)], "somebody else's reply");
                    }
                    while store.release(&held).await.is_err() {
                        sleep(Duration::from_millis(1)).await;
                    }
                    taken += 1;
                }
            })
        })
        .collect();
    for round in 0..6 {
        let to = cluster.primary(1 - round % 2);
        cluster.nodes.migrate(moving.bucket().slot(), to).await.unwrap();
        until("a subscription at the new place", || {
            store.inner.shard(&moving).is_ok_and(|shard| shard.hears(moving.bucket()))
        })
        .await;
    }
    for task in tasks {
        timeout(LIMIT * 2, task).await.unwrap().unwrap();
    }
    store.release(&guard).await.unwrap();
    cluster.end().await;
}
