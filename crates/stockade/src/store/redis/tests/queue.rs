use std::time::Duration;

use futures_util::FutureExt;
use redis::aio::PubSub;
use tokio::time::timeout;

use super::{LIMIT, World, asked, key, read, server, until, until_waiting, waiting, write};
use crate::store::{
    Attempt, Key, LockError, LockStore, Owner, Released,
    redis::{RedisStore, commands::calls::GRANT},
};

#[tokio::test]
async fn a_release_wakes_one_waiter_only() {
    let world = World::start().await;
    let (holder, other) = (world.store().await, world.store().await);
    let key = key("herd");
    let held = holder.acquire(write(&key)).await.unwrap();
    let mut waiters: Vec<_> = (0..20).map(|_| Box::pin(other.acquire(write(&key)))).collect();
    for (n, waiter) in waiters.iter_mut().enumerate() {
        assert!(waiter.as_mut().now_or_never().is_none());
        until_waiting(&holder, &key, n as u64 + 1).await;
        assert!(waiter.as_mut().now_or_never().is_none(), "queued");
    }
    world.command(&["CONFIG", "RESETSTAT"]).await;
    assert_eq!(holder.release(&held).await.unwrap(), Released::Released);
    let first = timeout(LIMIT, waiters.remove(0)).await.unwrap().unwrap();
    assert!(first.handed_off.unwrap() < Duration::from_secs(1));
    assert!(waiters.iter_mut().all(|waiter| waiter.as_mut().now_or_never().is_none()));
    let calls = world.server.calls().await.unwrap();
    assert_eq!((calls["evalsha"], calls["publish"]), (1, 1), "{calls:?}");
    assert_eq!((calls["zrange"], calls["hget"]), (1, 1), "only the first is looked at");
    drop(waiters);
    other.release(&first).await.unwrap();
    world.end().await;
}

/// Queues waiters of a process that will never act.
async fn dead_waiters(world: &World, attempt: &Attempt, count: u32) {
    let store = world.store().await;
    for number in 0..count {
        let owner = Owner::new(format!("{DEAD}.{number:011}"));
        asked(&store, attempt, &owner, 0).await;
    }
    store.shutdown(LIMIT).await;
}

const DEAD: &str = "dead-process-xyz";

/// Queues waiters of a process that will never act, until the wait of each is over by the clock of the server.
async fn overdue_waiters(world: &World, key: &Key, count: u32) {
    let wait = Duration::from_millis(1);
    dead_waiters(world, &Attempt { wait, ..write(key) }, count).await;
    world.until_passed(wait).await;
}

#[tokio::test]
async fn a_dead_waiter_is_passed_over_at_once() {
    let world = World::start().await;
    let store = world.store().await;
    let key = key("dead");
    let held = store.acquire(write(&key)).await.unwrap();
    dead_waiters(&world, &write(&key), 1).await;
    let mut next = store.acquire(write(&key));
    assert!((&mut next).now_or_never().is_none());
    until_waiting(&store, &key, 2).await;
    store.release(&held).await.unwrap();
    let next = timeout(Duration::from_secs(1), next).await.expect("waited for the dead").unwrap();
    store.release(&next).await.unwrap();
    world.end().await;
}

/// A process that is stopped, or cut off without a word, still counts as a subscriber.
async fn subscription_of_the_dead(world: &World, store: &RedisStore) -> PubSub {
    let client = redis::Client::open(world.server.url()).unwrap();
    let mut subscribed = client.get_async_pubsub().await.unwrap();
    subscribed.subscribe(format!("{}{DEAD}", store.inner.keys.inbox_prefix())).await.unwrap();
    subscribed
}

#[tokio::test]
async fn waiters_of_a_stopped_process_cost_one_grant_together() {
    let world = World::start().await;
    let store = world.store().await;
    let key = key("stopped");
    let subscribed = subscription_of_the_dead(&world, &store).await;
    let held = store.acquire(write(&key)).await.unwrap();
    dead_waiters(&world, &write(&key), 5).await;
    let mut next = store.acquire(write(&key));
    assert!((&mut next).now_or_never().is_none());
    until_waiting(&store, &key, 6).await;
    assert!((&mut next).now_or_never().is_none());
    let since = tokio::time::Instant::now();
    store.release(&held).await.unwrap();
    let next = timeout(LIMIT, next).await.unwrap().unwrap();
    let took = since.elapsed();
    assert!(took > GRANT / 2 && took < GRANT * 2, "{took:?}");
    store.release(&next).await.unwrap();
    world.until_nothing_is_left().await;
    world.end_behind(subscribed).await;
}

#[tokio::test]
async fn a_waiter_of_a_stopped_process_whose_wait_is_over_costs_no_grant() {
    let world = World::start().await;
    let store = world.store().await;
    let key = key("overdue");
    let subscribed = subscription_of_the_dead(&world, &store).await;
    let held = store.acquire(write(&key)).await.unwrap();
    overdue_waiters(&world, &key, 1).await;
    let mut next = store.acquire(write(&key));
    assert!((&mut next).now_or_never().is_none());
    until_waiting(&store, &key, 2).await;
    store.release(&held).await.unwrap();
    let next = timeout(GRANT / 2, next).await.expect("waited for who gave up").unwrap();
    store.release(&next).await.unwrap();
    world.end_behind(subscribed).await;
}

#[tokio::test]
async fn waiters_of_stopped_processes_whose_wait_is_over_do_not_fill_the_queue() {
    let world = World::start().await;
    let store = world.store().await;
    let key = key("many-overdue");
    let subscribed = subscription_of_the_dead(&world, &store).await;
    let held = store.acquire(write(&key)).await.unwrap();
    overdue_waiters(&world, &key, 300).await;
    let waiting = store.inspect(&key).await.unwrap().waiting;
    assert!(waiting < 150, "{waiting} of 300 are left");
    store.release(&held).await.unwrap();
    world.end_behind(subscribed).await;
}

/// A waiter that lives is at the head, and the holder keeps the lock.
#[tokio::test]
async fn waiters_of_dead_processes_whose_wait_is_over_leave_a_full_queue() {
    let world = World::start().await;
    let store = world.store().await;
    let key = key("full-of-overdue");
    let subscribed = subscription_of_the_dead(&world, &store).await;
    let held = store.acquire(write(&key)).await.unwrap();
    let first = waiting(&store, write(&key));
    until_waiting(&store, &key, 1).await;
    overdue_waiters(&world, &key, 20).await;
    let last = async {
        loop {
            match store.acquire(Attempt { max_waiters: 2, ..write(&key) }).await {
                Err(LockError::QueueFull { .. }) => {}
                other => break other,
            }
        }
    };
    let served = async {
        until_waiting(&store, &key, 2).await;
        store.release(&held).await.unwrap();
        store.release(&first.await.unwrap().unwrap()).await.unwrap();
    };
    let (last, ()) = timeout(LIMIT, async { tokio::join!(last, served) }).await.unwrap();
    store.release(&last.unwrap()).await.unwrap();
    world.end_behind(subscribed).await;
}

#[tokio::test]
async fn a_dead_writer_does_not_keep_readers_from_readers() {
    let world = World::start().await;
    let store = world.store().await;
    let key = key("dead-writer");
    let first = store.acquire(read(&key)).await.unwrap();
    dead_waiters(&world, &write(&key), 1).await;
    let second = timeout(Duration::from_secs(1), store.acquire(read(&key))).await.expect("blocked").unwrap();
    store.release(&first).await.unwrap();
    store.release(&second).await.unwrap();
    world.end().await;
}

#[tokio::test]
async fn a_writer_that_leaves_the_queue_lets_readers_in_by_its_own_command() {
    let world = World::start().await;
    let store = world.store().await;
    let key = key("leaves");
    let first = store.acquire(read(&key)).await.unwrap();
    let mut writer = store.acquire(write(&key));
    assert!((&mut writer).now_or_never().is_none());
    until_waiting(&store, &key, 1).await;
    let readers = [waiting(&store, read(&key)), waiting(&store, read(&key))];
    until_waiting(&store, &key, 3).await;
    world.command(&["CONFIG", "RESETSTAT"]).await;
    drop(writer);
    for reader in readers {
        let reader = timeout(LIMIT, reader).await.unwrap().unwrap().unwrap();
        store.release(&reader).await.unwrap();
    }
    let scripts = world.server.calls_of("evalsha").await.unwrap();
    assert_eq!(scripts, 3, "one cancel, two releases, and no poll");
    store.release(&first).await.unwrap();
    world.end().await;
}

#[tokio::test]
async fn a_waiter_that_was_dropped_from_the_queue_comes_back_to_its_place() {
    let world = World::start().await;
    let (store, other) = (world.store().await, world.store().await);
    let key = key("place");
    let held = store.acquire(write(&key)).await.unwrap();
    let tagged = |tag: &str| Attempt { tag: tag.into(), ..write(&key) };
    let mut tasks = Vec::new();
    for (n, tag) in ["first", "second", "third"].into_iter().enumerate() {
        tasks.push(waiting(&other, tagged(tag)));
        until_waiting(&store, &key, n as u64 + 1).await;
    }
    let names = store.inner.keys.of(&key);
    let owner = world.command(&["ZRANGE", &names[2], "0", "0"]).await.trim().to_owned();
    world.command(&["ZREM", &names[2], &owner]).await;
    world.command(&["HDEL", &names[3], &owner]).await;
    let now = server(&store).state.clock.stamp().to_string();
    let inbox = format!("{}{}", store.inner.keys.inbox_prefix(), &owner[..16]);
    world.command(&["PUBLISH", &inbox, &format!("D {owner} {now}")]).await;
    until_waiting(&store, &key, 3).await;
    let tags: Vec<_> = store.inspect(&key).await.unwrap().waiters.into_iter().map(|party| party.tag).collect();
    assert_eq!(tags, ["first", "second", "third"]);
    for task in &tasks {
        task.abort();
    }
    store.release(&held).await.unwrap();
    world.end().await;
}

/// Drops an attempt after every number of polls that it takes, at every stage of its life.
#[tokio::test]
async fn an_attempt_dropped_in_any_state_leaves_nothing() {
    let world = World::start().await;
    let (store, other) = (world.store().await, world.store().await);
    let key = key("dropped");
    // Attempts on a free lock, dropped before the first poll, before the answer, and with the answer unread.
    drop(store.acquire(write(&key)));
    for read_first in [false, true] {
        let mut attempt = store.acquire(write(&key));
        assert!((&mut attempt).now_or_never().is_none());
        if read_first {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        drop(attempt);
        world.until_nothing_is_left().await;
    }
    // Attempts dropped in the queue, and after a hand-off that they have not read.
    for handed_over in [false, true] {
        let held = other.acquire(write(&key)).await.unwrap();
        let mut attempt = store.acquire(write(&key));
        assert!((&mut attempt).now_or_never().is_none());
        until_waiting(&other, &key, 1).await;
        if handed_over {
            other.release(&held).await.unwrap();
            until_waiting(&other, &key, 0).await;
            drop(attempt);
        } else {
            drop(attempt);
            until_waiting(&other, &key, 0).await;
            other.release(&held).await.unwrap();
        }
        world.until_nothing_is_left().await;
        // The server may have run the cancel before its reply is read here.
        until("the answer to the cancel", || store.inner.waiters.is_settled()).await;
    }
    // An attempt whose wait ends.
    let held = other.acquire(write(&key)).await.unwrap();
    let brief = Attempt { wait: Duration::from_millis(30), ..write(&key) };
    assert!(store.acquire(brief).await.is_err());
    until_waiting(&other, &key, 0).await;
    other.release(&held).await.unwrap();
    world.end().await;
}
