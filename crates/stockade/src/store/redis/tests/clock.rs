//! A server whose clock jumps while locks are held and waited for.

use std::{slice, sync::Arc, time::Duration};

use stockade_testbed::RedisServer;
use tokio::{
    task::JoinSet,
    time::{Instant, timeout},
};

use super::{LIMIT, World, all_served, granted, key, permit, read, section, seen::Seen, until_waiting, waiting, write};
use crate::{
    resource::Key,
    store::{
        Attempt, LockStore, LossReason, Released,
        redis::{RedisStore, commands::calls::GRANT},
    },
};

const HOUR: Duration = Duration::from_secs(3600);
const BACK: Duration = Duration::from_secs(600);
const LEASE: Duration = Duration::from_secs(1);
/// Of a lock that is renewed: a machine that stands still for seconds does not end it.
const KEPT: Duration = Duration::from_secs(4);
/// How much longer than a lease something may take: until the next poll of a process, on a busy machine.
const LATE: Duration = Duration::from_secs(6);

async fn world() -> World {
    World::on(RedisServer::builder().own_clock().start().await.unwrap())
}

/// Checks all invariants of the keys, except that leases may look longer than they are.
async fn look(world: &World, store: &RedisStore, key: &Key) -> Seen {
    let names = store.inner.keys.of(key);
    let client = redis::Client::open(world.server.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let mut command = redis::cmd("EVAL");
    command.arg(include_str!("scripts/invariants.lua")).arg(names.len()).arg(&names).arg("stepped");
    let seen = Seen::read(&command.query_async(&mut connection).await.unwrap());
    assert!(seen.broken.is_empty(), "{seen:?}");
    seen
}

#[tokio::test]
async fn a_clock_set_back_under_a_dead_holder_costs_its_waiters_one_lease() {
    let world = world().await;
    let (store, other) = (world.store().await, world.store().await);
    let key = key("back-dead");
    // Nobody renews it.
    let dead = store.acquire(Attempt { lease: LEASE, ..write(&key) }).await.unwrap();
    let tagged = |tag: &str| Attempt { tag: tag.into(), ..write(&key) };
    let first = waiting(&other, tagged("first"));
    until_waiting(&store, &key, 1).await;
    let second = waiting(&store, tagged("second"));
    until_waiting(&store, &key, 2).await;
    world.server.step_clock_backwards(BACK).unwrap();
    let stepped = Instant::now();
    let first = granted(first).await;
    assert!(stepped.elapsed() < LEASE + LATE, "{:?}", stepped.elapsed());
    let seen = look(&world, &store, &key).await;
    assert_eq!((seen.holders.len(), seen.queue.len()), (1, 1), "{seen:?}");
    assert!(first.token > dead.token, "the clock is {BACK:?} behind the last token");
    assert_eq!(dead.loss(), Some(LossReason::Expired));
    let released = Instant::now();
    other.release(&first).await.unwrap();
    let second = granted(second).await;
    assert!(released.elapsed() < LATE, "{:?}", released.elapsed());
    assert!(second.token > first.token);
    store.release(&second).await.unwrap();
    world.end().await;
}

#[tokio::test]
async fn a_clock_set_back_takes_no_lock_from_those_who_renew() {
    let world = world().await;
    let (store, other) = (world.store().await, world.store().await);
    for attempt in [write(&key("back-kept")), read(&key("back-shared"))] {
        let key = attempt.key.clone();
        let held = store.acquire(Attempt { lease: KEPT, ..attempt }).await.unwrap();
        let mut next = waiting(&other, write(&key));
        until_waiting(&store, &key, 1).await;
        world.server.step_clock_backwards(BACK).unwrap();
        let stepped = Instant::now();
        while stepped.elapsed() < LEASE * 5 {
            store.renew(slice::from_ref(&held)).await.unwrap();
            assert_eq!(held.loss(), None);
            assert!(timeout(LEASE / 5, &mut next).await.is_err(), "it was taken from its holder");
        }
        // The lease ends one lease from now, whatever end the state held before.
        let seen = look(&world, &store, &key).await;
        let (_, x) = seen.holders.values().next().copied().unwrap();
        assert!(u128::from(x) <= u128::from(seen.now) + KEPT.as_micros(), "{seen:?}");
        assert_eq!(store.release(&held).await.unwrap(), Released::Released);
        let next = granted(next).await;
        assert!(next.token > held.token);
        other.release(&next).await.unwrap();
        world.until_nothing_is_left().await;
    }
    world.end().await;
}

#[tokio::test]
async fn a_clock_that_jumps_ahead_ends_leases_and_no_wait() {
    let world = world().await;
    let (store, other) = (world.store().await, world.store().await);
    let key = key("ahead");
    let held = store.acquire(write(&key)).await.unwrap();
    let mut waiters = JoinSet::new();
    for by in [&other, &other, &store] {
        let (by, attempt) = (Arc::clone(by), write(&key));
        waiters.spawn(async move {
            let granted = by.acquire(attempt).await.unwrap();
            by.release(&granted).await.unwrap();
            granted.token
        });
    }
    until_waiting(&store, &key, 3).await;
    // After the jump all keys of the lock have expired, the queue too.
    world.server.step_clock_forwards(HOUR).unwrap();
    let stepped = Instant::now();
    let mut last = held.token;
    while let Some(token) = timeout(LIMIT, waiters.join_next()).await.expect("stuck") {
        let token = token.unwrap();
        assert!(token > last, "{token} after {last}");
        last = token;
    }
    assert!(stepped.elapsed() < LATE * 2, "{:?}", stepped.elapsed());
    store.renew(slice::from_ref(&held)).await.unwrap();
    assert!(held.loss().is_some(), "the server has given it to others");
    assert_eq!(store.release(&held).await.unwrap(), Released::Lost);
    world.end().await;
}

/// The jump ends the lease of the holder, and not the queue behind it.
#[tokio::test]
async fn a_holder_whose_lease_was_ended_by_a_jump_of_the_clock_is_told() {
    let world = world().await;
    let (store, other) = (world.store().await, world.store().await);
    let key = key("ahead-told");
    let held = store.acquire(Attempt { lease: Duration::from_secs(10), ..write(&key) }).await.unwrap();
    let next = waiting(&other, write(&key));
    until_waiting(&store, &key, 1).await;
    world.server.step_clock_forwards(held.lease + Duration::from_secs(2)).unwrap();
    let told = timeout(LATE, held.lost()).await;
    assert_eq!(told.expect("it learns of it when its own clock has come so far"), LossReason::Expired);
    other.release(&granted(next).await).await.unwrap();
    world.end().await;
}

#[tokio::test]
async fn tokens_rise_over_every_step_of_the_clock() {
    let world = world().await;
    let store = world.store().await;
    let key = key("rising");
    let floor = &store.inner.keys.of(&key)[1];
    let mut last = 0;
    for (ahead, by) in [(true, HOUR), (false, HOUR), (false, BACK), (true, BACK), (false, HOUR * 24)] {
        match ahead {
            true => world.server.step_clock_forwards(by).unwrap(),
            false => world.server.step_clock_backwards(by).unwrap(),
        }
        for attempt in [write(&key), read(&key), write(&key)] {
            let held = store.acquire(Attempt { lease: LEASE, ..attempt }).await.unwrap();
            assert!(held.token.get() > last, "{} after {last}", held.token);
            last = held.token.get();
            assert_eq!(world.command(&["GET", floor]).await.trim(), last.to_string());
            let left: i64 = world.command(&["PTTL", &store.inner.keys.of(&key)[0]]).await.trim().parse().unwrap();
            assert!((0..=1001).contains(&left), "{left} ms of a lease of one second");
            assert_eq!(look(&world, &store, &key).await.holders.len(), 1);
            assert_eq!(store.release(&held).await.unwrap(), Released::Released);
        }
    }
    world.end().await;
}

/// After the jump every message of the server looks older than the waiters' last answers.
#[tokio::test]
async fn a_clock_set_back_under_a_queue_delays_nobody() {
    const WAITERS: u64 = 20;
    let world = world().await;
    let (store, other) = (world.store().await, world.store().await);
    let attempts = [write(&key("back-queue")), permit(&key("back-permits"))];
    for attempt in attempts {
        let key = attempt.key.clone();
        let held = store.acquire(attempt.clone()).await.unwrap();
        let mut sections = Vec::new();
        for n in 0..WAITERS {
            sections.push(section(if n % 4 == 0 { &other } else { &store }, attempt.clone()));
            until_waiting(&store, &key, n + 1).await;
        }
        world.command(&["CONFIG", "RESETSTAT"]).await;
        world.server.step_clock_backwards(Duration::from_secs(60)).unwrap();
        let stepped = Instant::now();
        store.release(&held).await.unwrap();
        all_served(sections, held.token).await;
        assert!(stepped.elapsed() < GRANT * 3 / 4, "{:?}", stepped.elapsed());
        // One release and one question for each, and a few commands that carried the time from before the jump.
        let (scripts, most) = (world.server.calls_of("evalsha").await.unwrap(), 3 * WAITERS + 10);
        assert!(scripts <= most, "{scripts} scripts for {WAITERS} waiters");
        world.until_nothing_is_left().await;
    }
    world.end().await;
}

/// The server takes waiters out of its queue, and says so with a time before that of their places.
#[tokio::test]
async fn a_waiter_that_was_dropped_after_the_clock_was_set_back_asks_again() {
    let world = world().await;
    let (store, other) = (world.store().await, world.store().await);
    let key = key("back-dropped");
    let held = store.acquire(write(&key)).await.unwrap();
    let next = waiting(&other, write(&key));
    until_waiting(&store, &key, 1).await;
    world.server.step_clock_backwards(BACK).unwrap();
    let names = store.inner.keys.of(&key);
    let owner = world.command(&["ZRANGE", &names[2], "0", "0"]).await.trim().to_owned();
    world.command(&["DEL", &names[2], &names[3]]).await;
    let inbox = format!("{}{}", store.inner.keys.inbox_prefix(), &owner[..16]);
    let dropped = Instant::now();
    world.command(&["PUBLISH", &inbox, &format!("D {owner} 1")]).await;
    until_waiting(&store, &key, 1).await;
    assert!(dropped.elapsed() < GRANT / 2, "only its poke found out: {:?}", dropped.elapsed());
    store.release(&held).await.unwrap();
    other.release(&granted(next).await).await.unwrap();
    world.end().await;
}

/// The loss that one waiter finds makes all of them ask, although it looks older than their last answers.
#[tokio::test]
async fn waiters_of_a_flushed_server_whose_clock_was_set_back_are_served_at_once() {
    let world = world().await;
    let store = world.store().await;
    let key = key("back-flushed");
    let held = store.acquire(write(&key)).await.unwrap();
    let mut sections = Vec::new();
    for n in 0..20 {
        sections.push(section(&store, write(&key)));
        until_waiting(&store, &key, n + 1).await;
    }
    world.server.step_clock_backwards(BACK).unwrap();
    world.command(&["FLUSHALL"]).await;
    let flushed = Instant::now();
    assert_eq!(store.release(&held).await.unwrap(), Released::Lost);
    for section in sections {
        timeout(LIMIT, section).await.expect("stuck").unwrap().unwrap();
    }
    assert!(flushed.elapsed() < GRANT * 3 / 4, "{:?}", flushed.elapsed());
    world.end().await;
}
