//! Keys of a lock that somebody deletes, expires or restores while others wait for the lock.

use std::{sync::Arc, time::Duration};

use tokio::{
    task::JoinHandle,
    time::{Instant, timeout},
};

use super::{
    LIMIT, World, all_served, asked, connected, key, patient, permit, read, section, server, told, until_waiting,
    waiting, write,
};
use crate::store::{
    Attempt, Force, LockError, LockStore, LossReason, Owner, Released, Token,
    redis::{
        RedisStore,
        commands::{calls::GRANT, replies::Acquired},
    },
};

/// How long waiters may take after a loss that a command of their process notices. Shorter than the time to the next
/// poll, on a busy machine.
const SOON: Duration = Duration::from_millis(1500);
/// The same if another process must notice the loss by a poll.
const POKED: Duration = Duration::from_millis(3800);

type Sections = Vec<JoinHandle<Result<Token, LockError>>>;

/// Queues `count` waiters, each in the next of the stores.
async fn queued(stores: &[Arc<RedisStore>], attempt: &Attempt, count: usize) -> Sections {
    let mut sections = Vec::new();
    for (number, store) in stores.iter().cycle().take(count).enumerate() {
        sections.push(section(store, attempt.clone()));
        until_waiting(store, &attempt.key, number as u64 + 1).await;
    }
    sections
}

/// Waits until all were granted, in any order: some may be granted before others are back in their places.
async fn served(sections: Sections) {
    for section in sections {
        timeout(LIMIT, section).await.expect("stuck").unwrap().unwrap();
    }
}

async fn stores(world: &World, count: usize) -> Vec<Arc<RedisStore>> {
    let mut stores = Vec::new();
    for _ in 0..count {
        stores.push(world.store().await);
    }
    stores
}

#[tokio::test]
async fn waiters_of_a_flushed_server_are_all_served_as_soon_as_one_of_their_process_finds_out() {
    const WAITERS: usize = 50;
    let world = World::start().await;
    let stores = [connected(&patient(&world.server.url()).await).await];
    for (holder, attempt) in [
        (write(&key("flushed")), write(&key("flushed"))),
        (write(&key("flushed-read")), read(&key("flushed-read"))),
        (permit(&key("flushed-permit")), permit(&key("flushed-permit"))),
    ] {
        let held = stores[0].acquire(holder).await.unwrap();
        let sections = queued(&stores, &attempt, WAITERS).await;
        world.command(&["FLUSHALL"]).await;
        world.command(&["CONFIG", "RESETSTAT"]).await;
        let flushed = Instant::now();
        assert_eq!(stores[0].release(&held).await.unwrap(), Released::Lost);
        served(sections).await;
        assert!(flushed.elapsed() < SOON, "{:?}", flushed.elapsed());
        // One release and one question for each, and one more for the waiter that noticed the loss.
        let scripts = world.server.calls_of("evalsha").await.unwrap();
        assert!(scripts <= 2 * WAITERS as u64 + 12, "{scripts} scripts for {WAITERS} waiters");
        world.until_nothing_is_left().await;
    }
    world.end().await;
}

#[tokio::test]
async fn waiters_of_a_flushed_server_are_served_when_a_renewal_finds_out() {
    let world = World::start().await;
    let stores = stores(&world, 1).await;
    let attempt = write(&key("renewed"));
    let held = stores[0].acquire(attempt.clone()).await.unwrap();
    let sections = queued(&stores, &attempt, 20).await;
    world.command(&["FLUSHALL"]).await;
    let flushed = Instant::now();
    stores[0].renew(std::slice::from_ref(&held)).await.unwrap();
    assert!(held.loss().is_some());
    served(sections).await;
    assert!(flushed.elapsed() < SOON, "{:?}", flushed.elapsed());
    world.end().await;
}

#[tokio::test]
async fn waiters_of_many_processes_outlive_a_flushed_server() {
    let world = World::start().await;
    for (processes, waiters) in [(5, 50), (12, 12)] {
        let holder = world.store().await;
        let stores = stores(&world, processes).await;
        let attempt = write(&key(&format!("processes-{processes}")));
        let held = holder.acquire(attempt.clone()).await.unwrap();
        let sections = queued(&stores, &attempt, waiters).await;
        world.command(&["FLUSHALL"]).await;
        let flushed = Instant::now();
        assert_eq!(holder.release(&held).await.unwrap(), Released::Lost);
        served(sections).await;
        assert!(flushed.elapsed() < POKED, "{:?}", flushed.elapsed());
    }
    world.end().await;
}

/// What an administrator does to the state of a lock whose holder lives.
#[tokio::test]
async fn a_queue_whose_state_was_deleted_is_served_to_its_end() {
    let world = World::start().await;
    let (holder, stores) = (world.store().await, stores(&world, 3).await);
    for (attempt, command) in [
        (write(&key("deleted")), vec!["DEL"]),
        (permit(&key("deleted-permit")), vec!["DEL"]),
        (write(&key("expired")), vec!["PEXPIRE", "1"]),
    ] {
        let names = holder.inner.keys.of(&attempt.key);
        let held = holder.acquire(attempt.clone()).await.unwrap();
        let sections = queued(&stores, &attempt, 30).await;
        let mut words = vec![command[0], names[0].as_str()];
        words.extend(&command[1..]);
        world.command(&words).await;
        let gone = Instant::now();
        while world.command(&["EXISTS", &names[0]]).await.trim() != "0" {}
        assert_eq!(holder.release(&held).await.unwrap(), Released::Lost);
        all_served(sections, held.token).await;
        assert!(gone.elapsed() < SOON, "{:?}", gone.elapsed());
        world.until_nothing_is_left().await;
    }
    world.end().await;
}

/// No command notices that the lock is free. The polls of the queue must.
#[tokio::test]
async fn a_queue_whose_holder_vanished_with_its_state_finds_out_by_its_poke() {
    let world = World::start().await;
    let (holder, stores) = (world.store().await, stores(&world, 3).await);
    let attempt = write(&key("vanished"));
    let names = holder.inner.keys.of(&attempt.key);
    let held = holder.acquire(attempt.clone()).await.unwrap();
    let sections = queued(&stores, &attempt, 30).await;
    world.command(&["DEL", &names[0]]).await;
    let gone = Instant::now();
    all_served(sections, held.token).await;
    assert!(gone.elapsed() < POKED, "{:?}", gone.elapsed());
    assert_eq!(holder.release(&held).await.unwrap(), Released::Lost);
    world.end().await;
}

#[tokio::test]
async fn a_waiter_with_a_place_takes_no_free_lock_before_the_head_of_its_queue() {
    let world = World::start().await;
    let store = world.store().await;
    let attempt = write(&key("barge"));
    let held = store.acquire(attempt.clone()).await.unwrap();
    let mut first = store.acquire(attempt.clone());
    assert!(futures_util::FutureExt::now_or_never(&mut first).is_none());
    until_waiting(&store, &attempt.key, 1).await;
    let second = Owner::new(format!("{}.99999999999", store.inner.process));
    let Acquired::Queued { seq, .. } = asked(&store, &attempt, &second, 0).await else { panic!("not queued") };
    world.command(&["DEL", &store.inner.keys.of(&attempt.key)[0]]).await;
    let asked = asked(&store, &attempt, &second, seq).await;
    assert!(matches!(asked, Acquired::Queued { seq: same, position: 1, .. } if same == seq), "{asked:?}");
    let first = timeout(LIMIT, first).await.unwrap().unwrap();
    assert!(first.token > held.token);
    assert_eq!(store.release(&first).await.unwrap(), Released::Released);
    // The grant to the other attempt, which has ended, is released.
    world.until_nothing_is_left().await;
    world.end().await;
}

#[tokio::test]
async fn a_grant_that_its_process_knows_nothing_of_is_given_back_at_once() {
    let world = World::start().await;
    let (store, other) = (world.store().await, world.store().await);
    for attempt in [write(&key("un known")), permit(&key("unknown-permit"))] {
        let held = store.acquire(attempt.clone()).await.unwrap();
        for number in 0..10 {
            let process = &if number % 2 == 0 { &store } else { &other }.inner.process;
            let nobody = Owner::new(format!("{process}.9999999999{number}"));
            assert!(matches!(asked(&store, &attempt, &nobody, 0).await, Acquired::Queued { .. }));
        }
        let next = waiting(&store, attempt.clone());
        until_waiting(&store, &attempt.key, 11).await;
        let released = Instant::now();
        store.release(&held).await.unwrap();
        let next = timeout(LIMIT, next).await.unwrap().unwrap().unwrap();
        assert!(released.elapsed() < GRANT / 2, "it waited for the lease of nobody: {:?}", released.elapsed());
        store.release(&next).await.unwrap();
        world.until_nothing_is_left().await;
    }
    world.end().await;
}

/// The message of a grant comes when the reply of a script has already told the attempt.
#[tokio::test]
async fn a_grant_that_its_process_holds_is_kept() {
    let world = World::start().await;
    let store = world.store().await;
    let held = store.acquire(write(&key("told-twice"))).await.unwrap();
    let (owner, now) = (held.owner.as_str(), server(&store).state.clock.stamp());
    let message = format!("G {owner} {} {} {now} {}", held.token, now + 10_000_000, held.key);
    // Commands arrive in their order, so that a release would be over.
    let is_held = async || store.inspect(&held.key).await.unwrap().holders.len() == 1;
    told(&store, &server(&store), &message);
    assert!(is_held().await);
    // The message of an earlier grant to the same owner, from a server that had the bucket before.
    let late = format!("G {owner} {} {} {now} {}", held.token.get() - 1, now + 10_000_000, held.key);
    told(&store, &server(&store), &late);
    assert!(is_held().await, "the lock was released under its holder");
    let handed = store.hand_over(&held).unwrap();
    told(&store, &server(&store), &message);
    assert!(is_held().await, "nobody can adopt it");
    let adopted = store.adopt(&handed).await.unwrap();
    assert_eq!(store.release(&adopted).await.unwrap(), Released::Released);
    world.end().await;
}

/// The message comes after the reply, and before the attempt has read the reply.
#[tokio::test]
async fn a_forced_release_reaches_an_attempt_that_has_not_read_its_grant() {
    let world = World::start().await;
    let store = world.store().await;
    let mut attempt = store.acquire(write(&key("not-read")));
    assert!(futures_util::FutureExt::now_or_never(&mut attempt).is_none());
    // Replies arrive in the order of the commands.
    assert_eq!(store.inspect(&key("not-read")).await.unwrap().holders.len(), 1);
    let state = world.command(&["GET", &store.inner.keys.of(&key("not-read"))[0]]).await;
    let (owner, shard) = (&state[6..34], server(&store));
    told(&store, &shard, &format!("F {owner} {}", shard.state.clock.stamp()));
    let held = timeout(LIMIT, attempt).await.unwrap().unwrap();
    assert_eq!(held.loss(), Some(LossReason::Forced));
    store.release(&held).await.unwrap();
    world.end().await;
}

/// Queue, records of the waiters, records of shared holders: each deleted alone.
#[tokio::test]
async fn a_queue_with_one_of_its_keys_deleted_is_served_to_its_end() {
    let world = World::start().await;
    let stores = stores(&world, 2).await;
    for (deleted, holder, waiter) in [
        (2, write(&key("no-queue")), write(&key("no-queue"))),
        (3, write(&key("no-records")), write(&key("no-records"))),
        (2, read(&key("no-queue-r")), write(&key("no-queue-r"))),
        (4, read(&key("no-readers")), write(&key("no-readers"))),
        (4, permit(&key("no-permits")), permit(&key("no-permits"))),
    ] {
        let names = stores[0].inner.keys.of(&holder.key);
        let held = stores[0].acquire(holder).await.unwrap();
        let sections = queued(&stores, &waiter, 20).await;
        world.command(&["DEL", &names[deleted]]).await;
        let gone = Instant::now();
        stores[0].release(&held).await.unwrap();
        served(sections).await;
        assert!(gone.elapsed() < POKED, "{deleted}: {:?}", gone.elapsed());
        world.until_nothing_is_left().await;
    }
    world.end().await;
}

#[tokio::test]
async fn records_of_a_semaphore_whose_state_was_deleted_take_nobodys_permit() {
    let world = World::start().await;
    let store = world.store().await;
    let key = key("permits");
    let attempt = Attempt { permits: 3, ..permit(&key) };
    let mut before = Vec::new();
    for _ in 0..3 {
        before.push(store.acquire(attempt.clone()).await.unwrap());
    }
    world.command(&["DEL", &store.inner.keys.of(&key)[0]]).await;
    let mut after = Vec::new();
    for _ in 0..3 {
        after.push(store.acquire(Attempt { wait: Duration::ZERO, ..attempt.clone() }).await.unwrap());
    }
    store.renew(&before).await.unwrap();
    assert!(before.iter().all(|held| held.loss().is_some()), "their leases had ended with the state");
    for held in after {
        assert_eq!(store.release(&held).await.unwrap(), Released::Released);
    }
    world.end().await;
}

#[tokio::test]
async fn a_queue_that_was_restored_from_an_old_dump_holds_nobody_up() {
    let world = World::start().await;
    let stores = stores(&world, 2).await;
    let attempt = write(&key("restored"));
    let names = stores[0].inner.keys.of(&attempt.key);
    let held = stores[0].acquire(attempt.clone()).await.unwrap();
    let sections = queued(&stores, &attempt, 10).await;
    for name in [&names[2], &names[3]] {
        world.command(&["COPY", name, &format!("{name}-copy")]).await;
    }
    stores[0].release(&held).await.unwrap();
    all_served(sections, held.token).await;
    while world.keys().await.iter().any(|key| !key.ends_with("-copy")) {}
    let held = stores[0].acquire(attempt.clone()).await.unwrap();
    for name in [&names[2], &names[3]] {
        world.command(&["RENAME", &format!("{name}-copy"), name]).await;
    }
    let next = waiting(&stores[1], attempt.clone());
    until_waiting(&stores[1], &attempt.key, 11).await;
    let released = Instant::now();
    stores[0].release(&held).await.unwrap();
    let next = timeout(LIMIT, next).await.unwrap().unwrap().unwrap();
    assert!(released.elapsed() < SOON, "{:?}", released.elapsed());
    stores[1].release(&next).await.unwrap();
    world.end().await;
}

/// A forced release serves the queue even if the state of the holder is gone.
#[tokio::test]
async fn a_forced_release_serves_a_queue_without_its_state() {
    let world = World::start().await;
    let stores = stores(&world, 2).await;
    let attempt = write(&key("forced"));
    let held = stores[0].acquire(attempt.clone()).await.unwrap();
    let sections = queued(&stores, &attempt, 10).await;
    world.command(&["DEL", &stores[0].inner.keys.of(&attempt.key)[0]]).await;
    let gone = Instant::now();
    stores[1].force(&attempt.key, Force::Now).await.unwrap();
    all_served(sections, held.token).await;
    assert!(gone.elapsed() < SOON, "{:?}", gone.elapsed());
    world.end().await;
}
