//! Readers that come and go at the same time while nobody waits. They never reach the second part of the scripts.

use std::{slice, sync::Arc, time::Duration};

use tokio::time::{Instant, timeout};

use super::{LIMIT, World, asked, key, patient, permit, read, server, until_waiting, waiting, world::connected, write};
use crate::{
    redis::eventually,
    resource::Key,
    store::{
        Attempt, Force, LockError, LockStore, Mode, Owner, Ownership, Released,
        redis::{
            RedisStore,
            commands::{
                calls::{self, GRANT},
                replies::Acquired,
            },
            scripts::ACQUIRE,
        },
    },
};

const BRIEF: Duration = Duration::from_millis(300);

/// Another owner of the process, which nobody renews.
fn forgotten(store: &RedisStore) -> Owner {
    Owner::new(format!("{}.99999999999", store.inner.process))
}

fn brief(key: &Key) -> Attempt {
    Attempt { lease: BRIEF, ..read(key) }
}

async fn number(world: &World, words: &[&str]) -> i64 {
    world.command(words).await.trim().parse().unwrap()
}

/// A writer is granted as soon as the leases of the readers before it have ended.
async fn a_writer_enters(store: &Arc<RedisStore>, key: &Key) {
    let began = Instant::now();
    let next = timeout(LIMIT, store.acquire(write(key))).await.expect("stuck").unwrap();
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    assert_eq!(store.release(&next).await.unwrap(), Released::Released);
}

#[tokio::test]
async fn the_record_of_a_reader_has_all_that_it_asked_with() {
    let world = World::start().await;
    let store = connected(&patient(&world.server.url()).await).await;
    let attempt = read(&key("record"));
    let names = store.inner.keys.of(&attempt.key);
    let mut records = Vec::new();
    for (index, yields) in ["0", "1"].into_iter().enumerate() {
        let owner = Owner::new(format!("{}.9999999999{index}", store.inner.process));
        let (wait, stale_after) = (Some(attempt.wait), Duration::from_secs(1));
        let asking = calls::Asking { attempt: &attempt, owner: &owner, wait, seq: 0, stamp: 0, stale_after };
        let mut args = asking.args(&server(&store).handing(&store.inner.keys, attempt.key.bucket()));
        let pack = &mut args[4];
        *pack.last_mut().unwrap() = yields.as_bytes()[0];
        let reply = server(&store).link.call(&ACQUIRE, names.clone(), args).await.unwrap();
        let Acquired::Free { token } = Acquired::read(&reply).unwrap() else { panic!("{reply:?}") };
        // The lease ends this long after the grant, whose time is the token.
        let x = token.get() + 60_000_000;
        records.push((owner, format!("{x} {token} 0 60000000 {yields} a tag")));
        let state = world.command(&["GET", &names[0]]).await;
        let holders = number(&world, &["HLEN", &names[4]]).await;
        if let [(owner, _)] = records.as_slice() {
            assert_eq!(state.trim(), format!("r 0 0 {} {token} {x} 60000000 {yields} a tag", owner.as_str()));
            assert_eq!(holders, 0, "the state has it all");
        } else {
            assert_eq!(state.trim().len(), "r 0 1763668800000000 1763668800000000".len(), "{state}");
            assert_eq!(holders, 2);
        }
    }
    for (owner, record) in records {
        assert_eq!(world.command(&["HGET", &names[4], owner.as_str()]).await.trim(), record);
    }
    store.force(&attempt.key, Force::Now).await.unwrap();
    world.end().await;
}

/// The state and the records last as long as the longest lease, whichever reader comes first.
#[tokio::test]
async fn readers_outlast_the_leases_of_those_beside_them() {
    let world = World::start().await;
    let store = world.store().await;
    for long_first in [false, true] {
        let key = key(&format!("outlasts-{long_first}"));
        let names = store.inner.keys.of(&key);
        let mut held = None;
        if long_first {
            held = Some(store.acquire(read(&key)).await.unwrap());
        }
        let asked = asked(&store, &brief(&key), &forgotten(&store), 0).await;
        assert!(matches!(asked, Acquired::Free { .. }), "{asked:?}");
        let held = match held {
            Some(held) => held,
            None => store.acquire(read(&key)).await.unwrap(),
        };
        let state = number(&world, &["PEXPIRETIME", &names[0]]).await;
        assert!(number(&world, &["PEXPIRETIME", &names[4]]).await >= state, "without records it would be free");
        assert!(number(&world, &["PTTL", &names[0]]).await > 5_000);
        store.renew(slice::from_ref(&held)).await.unwrap();
        assert_eq!(held.loss(), None);
        assert_eq!(store.release(&held).await.unwrap(), Released::Released);
        a_writer_enters(&store, &key).await;
    }
    world.end().await;
}

/// The record of a dead reader ends with its lease, whichever reader comes first.
#[tokio::test]
async fn a_reader_that_died_keeps_no_writer_beyond_its_lease() {
    let world = World::start().await;
    let store = world.store().await;
    for long_first in [false, true] {
        let key = key(&format!("ends-{long_first}"));
        let record = store.inner.keys.of(&key).remove(4);
        let mut held: Vec<Arc<Ownership>> = Vec::new();
        if long_first {
            held.push(store.acquire(read(&key)).await.unwrap());
        }
        let granted = Instant::now();
        asked(&store, &brief(&key), &forgotten(&store), 0).await;
        if !long_first {
            held.push(store.acquire(read(&key)).await.unwrap());
        }
        assert_eq!(number(&world, &["HLEN", &record]).await, 2);
        tokio::time::sleep_until(granted + BRIEF + Duration::from_millis(20)).await;
        for held in held {
            assert_eq!(store.release(&held).await.unwrap(), Released::Released);
        }
        a_writer_enters(&store, &key).await;
    }
    world.end().await;
}

/// Its lease counts from the last renewal, and it is asked about waiting writers as before.
#[tokio::test]
async fn the_only_reader_renews_its_lease_and_nothing_else() {
    let world = World::start().await;
    let store = world.store().await;
    let key = key("renewed-alone");
    let names = store.inner.keys.of(&key);
    let held = store.acquire(read(&key)).await.unwrap();
    let before = world.command(&["GET", &names[0]]).await;
    world.command(&["PEXPIRE", &names[0], "5000"]).await;
    store.renew(slice::from_ref(&held)).await.unwrap();
    assert_eq!(held.loss(), None);
    let after = world.command(&["GET", &names[0]]).await;
    let end = |state: &str| state.split(' ').nth(5).unwrap().parse::<u64>().unwrap();
    assert!(end(&after) > end(&before), "{before} {after}");
    assert_eq!(after.replace(&end(&after).to_string(), &end(&before).to_string()), before);
    assert!(number(&world, &["PTTL", &names[0]]).await > 50_000, "with its lease, which is a minute");
    assert_eq!(world.keys().await.len(), 1, "the state has it all");
    assert_eq!(store.inspect(&key).await.unwrap().holders[0].mode, Mode::Read);
    assert_eq!(store.release(&held).await.unwrap(), Released::Released);
    world.end().await;
}

/// The state of a reader whose lease is over, before the server has expired the key.
#[tokio::test]
async fn the_only_reader_that_died_is_no_reader_beside_the_next() {
    let world = World::start().await;
    let store = world.store().await;
    let key = key("dead-alone");
    let names = store.inner.keys.of(&key);
    let over = server(&store).state.clock.stamp() - 1_000_000;
    let state = format!("r 0 0 dead-process-xyz.00000000000 {over} {over} 500000 0 ");
    world.command(&["SET", &names[0], &state, "PX", "600500"]).await;
    let held = store.acquire(read(&key)).await.unwrap();
    assert_eq!(world.command(&["HKEYS", &names[4]]).await.trim(), held.owner.as_str());
    assert_eq!(store.release(&held).await.unwrap(), Released::Released);
    a_writer_enters(&store, &key).await;
    world.end().await;
}

/// The server deletes keys by the millisecond: the record of a reader whose lease ends within this millisecond is gone
/// as soon as it is moved. At any time before and after, a writer is granted or told that somebody reads.
#[tokio::test]
async fn the_only_reader_is_asked_for_at_the_very_end_of_its_lease() {
    let world = World::start().await;
    let store = world.store().await;
    let key = key("ends-alone");
    let name = store.inner.keys.of(&key).remove(0);
    for number in 0..300 {
        let end = server(&store).state.clock.stamp() + number * 20;
        let state = format!("r 0 0 dead-process-xyz.00000000000 {end} {end} 500000 0 ");
        world.command(&["SET", &name, &state, "PX", "600500"]).await;
        match store.acquire(Attempt { wait: Duration::ZERO, ..write(&key) }).await {
            Ok(held) => assert_eq!(store.release(&held).await.unwrap(), Released::Released),
            Err(LockError::Busy { .. }) => {}
            Err(error) => panic!("{number}: {error}"),
        }
    }
    a_writer_enters(&store, &key).await;
    world.end().await;
}

/// The state of a dead reader with a lease of 0.5 s, from before the clock was set back by ten minutes.
#[tokio::test]
async fn readers_notice_a_clock_that_was_set_back() {
    let world = World::start().await;
    let store = world.store().await;
    let key = key("stepped-readers");
    let names = store.inner.keys.of(&key);
    let ahead = server(&store).state.clock.stamp() + 600_000_000;
    let dead = "dead-process-xyz.00000000000";
    for only in [false, true] {
        if only {
            let state = format!("r 0 0 {dead} {ahead} {ahead} 500000 0 ");
            world.command(&["SET", &names[0], &state, "PX", "600500"]).await;
        } else {
            world.command(&["SET", &names[0], &format!("r 0 {ahead} {ahead}"), "PX", "600500"]).await;
            world.command(&["HSET", &names[4], dead, &format!("{ahead} {ahead} 0 500000 0 ")]).await;
            world.command(&["PEXPIRE", &names[4], "600500"]).await;
        }
        let held = store.acquire(read(&key)).await.unwrap();
        assert_eq!(store.release(&held).await.unwrap(), Released::Released);
        a_writer_enters(&store, &key).await;
    }
    world.end().await;
}

#[tokio::test]
async fn records_of_a_deleted_state_are_no_readers_beside_the_next() {
    let world = World::start().await;
    let store = world.store().await;
    for before in [permit(&key("old-permits")), read(&key("old-readers"))] {
        let key = before.key.clone();
        let old = store.acquire(before).await.unwrap();
        world.command(&["DEL", &store.inner.keys.of(&key)[0]]).await;
        let held = store.acquire(read(&key)).await.unwrap();
        assert_eq!(store.inspect(&key).await.unwrap().holders.len(), 1);
        store.renew(slice::from_ref(&old)).await.unwrap();
        assert!(old.loss().is_some(), "its lease had ended with the state");
        assert_eq!(store.release(&held).await.unwrap(), Released::Released);
        world.until_nothing_is_left().await;
    }
    world.end().await;
}

/// The state of the only reader was restored from a dump, and the records of others are there.
#[tokio::test]
async fn records_of_a_deleted_state_are_no_readers_beside_one_that_was_restored() {
    let world = World::start().await;
    let store = world.store().await;
    for wanted in [read(&key("restored-read")), write(&key("restored-write"))] {
        // Longer than the test waits, so that no record goes by itself.
        let lease = LIMIT * 3;
        let (key, wanted) = (wanted.key.clone(), Attempt { lease, ..wanted });
        let names = store.inner.keys.of(&key);
        let old = store.acquire(Attempt { lease, ..permit(&key) }).await.unwrap();
        let (now, dead) = (server(&store).state.clock.stamp(), "dead-process-xyz.00000000000");
        let state = format!("r 0 0 {dead} {now} {} 500000 0 ", now + 500_000);
        world.command(&["SET", &names[0], &state, "PX", "500"]).await;
        let wanted = waiting(&store, wanted);
        eventually("the records are gone", async || {
            !world.command(&["HKEYS", &names[4]]).await.contains(old.owner.as_str())
        })
        .await;
        store.renew(slice::from_ref(&old)).await.unwrap();
        assert!(old.loss().is_some(), "it holds a permit, and another one reads");
        store.release(&timeout(LIMIT, wanted).await.unwrap().unwrap().unwrap()).await.unwrap();
        // The record of the dead one is kept as long as those beside it.
        store.force(&key, Force::Now).await.unwrap();
    }
    world.end().await;
}

#[tokio::test]
async fn a_reader_finds_the_queue_of_a_state_that_was_deleted() {
    let world = World::start().await;
    let store = world.store().await;
    let key = key("left-queue");
    let held = store.acquire(write(&key)).await.unwrap();
    let writer = waiting(&store, write(&key));
    until_waiting(&store, &key, 1).await;
    world.command(&["DEL", &store.inner.keys.of(&key)[0]]).await;
    let deleted = Instant::now();
    let asked = asked(&store, &read(&key), &forgotten(&store), 0).await;
    assert!(matches!(asked, Acquired::Queued { .. }), "it overtook a writer: {asked:?}");
    let writer = timeout(LIMIT, writer).await.unwrap().unwrap().unwrap();
    assert!(deleted.elapsed() < GRANT / 2, "only its poke found out: {:?}", deleted.elapsed());
    assert_eq!(store.release(&held).await.unwrap(), Released::Lost);
    assert_eq!(store.release(&writer).await.unwrap(), Released::Released);
    // The reader's grant is released, since no attempt in its process knows it.
    world.until_nothing_is_left().await;
    world.end().await;
}

#[tokio::test]
async fn the_last_reader_leaves_no_key() {
    let world = World::start().await;
    let store = world.store().await;
    let key = key("leaves-nothing");
    let (first, second) = (store.acquire(read(&key)).await.unwrap(), store.acquire(read(&key)).await.unwrap());
    assert_eq!(store.release(&first).await.unwrap(), Released::Released);
    assert_eq!(world.keys().await.len(), 2, "another one reads");
    assert_eq!(store.release(&second).await.unwrap(), Released::Released);
    assert_eq!(world.keys().await, [""; 0]);
    world.end().await;
}

/// A state that was restored from an old dump, and does not say that somebody waits.
#[tokio::test]
async fn the_last_reader_serves_a_queue_that_its_state_does_not_tell_of() {
    let world = World::start().await;
    let store = world.store().await;
    let key = key("untold");
    let state = store.inner.keys.of(&key).remove(0);
    let first = store.acquire(read(&key)).await.unwrap();
    let second = store.acquire(read(&key)).await.unwrap();
    let alone = world.command(&["GET", &state]).await;
    let writer = waiting(&store, write(&key));
    until_waiting(&store, &key, 1).await;
    world.command(&["SET", &state, alone.trim(), "KEEPTTL"]).await;
    let released = Instant::now();
    assert_eq!(store.release(&first).await.unwrap(), Released::Released);
    assert_eq!(store.inspect(&key).await.unwrap().holders[0].mode, Mode::Read, "another one reads");
    assert_eq!(store.release(&second).await.unwrap(), Released::Released);
    let writer = timeout(LIMIT, writer).await.unwrap().unwrap().unwrap();
    assert!(released.elapsed() < GRANT / 2, "only its poke found out: {:?}", released.elapsed());
    store.release(&writer).await.unwrap();
    world.end().await;
}
