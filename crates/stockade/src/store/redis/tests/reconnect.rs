//! Waiters and holders whose connection breaks while others go on.

use std::time::Duration;

use stockade_testbed::{Fault, Proxy};
use tokio::time::{sleep, timeout};

use super::{LIMIT, World, connected, key, until, until_waiting, waiting, write};
use crate::{
    redis::{Redis, eventually},
    store::{Attempt, LockStore},
};

/// Waits until the server has exactly this many inboxes.
async fn until_subscribed(world: &World, inboxes: usize) {
    let channels = async || world.command(&["PUBSUB", "CHANNELS", "*i:*"]).await;
    let count = async || channels().await.lines().filter(|name| !name.trim().is_empty()).count();
    eventually("the inboxes", async || count().await == inboxes).await;
}

#[tokio::test]
async fn a_waiter_that_was_passed_over_while_it_was_cut_off_comes_back_to_its_place() {
    let world = World::start().await;
    let proxy = Proxy::start(world.server.addr()).await.unwrap();
    let other = world.store().await;
    let store = connected(&Redis::connect(proxy.url_for(&world.server.url())).await.unwrap()).await;
    let key = key("cut-off");
    let tagged = |tag: &str| Attempt { tag: tag.into(), ..write(&key) };
    let held = other.acquire(write(&key)).await.unwrap();
    let first = waiting(&store, tagged("first"));
    until_waiting(&other, &key, 1).await;
    let second = waiting(&other, tagged("second"));
    until_waiting(&other, &key, 2).await;
    let third = waiting(&other, tagged("third"));
    until_waiting(&other, &key, 3).await;

    proxy.set(Fault::Reset);
    until_subscribed(&world, 1).await;
    other.release(&held).await.unwrap();
    let second = timeout(LIMIT, second).await.unwrap().unwrap().unwrap();
    assert!(!first.is_finished() && !third.is_finished());
    proxy.set(Fault::None);
    until_waiting(&other, &key, 2).await;
    let tags: Vec<_> = other.inspect(&key).await.unwrap().waiters.into_iter().map(|party| party.tag).collect();
    assert_eq!(tags, ["first", "third"]);

    other.release(&second).await.unwrap();
    let first = timeout(LIMIT, first).await.unwrap().unwrap().unwrap();
    assert!(first.token > second.token && !third.is_finished());
    store.release(&first).await.unwrap();
    other.release(&timeout(LIMIT, third).await.unwrap().unwrap().unwrap()).await.unwrap();
    world.until_nothing_is_left().await;
    world.end_behind(proxy).await;
}

#[tokio::test]
async fn a_release_while_every_waiter_is_cut_off_loses_none_of_them() {
    const WAITERS: u64 = 12;
    let world = World::start().await;
    let proxy = Proxy::start(world.server.addr()).await.unwrap();
    let other = world.store().await;
    let store = connected(&Redis::connect(proxy.url_for(&world.server.url())).await.unwrap()).await;
    let key = key("all-cut-off");
    let held = other.acquire(write(&key)).await.unwrap();
    let mut waiters = tokio::task::JoinSet::new();
    for n in 1..=WAITERS {
        let (store, attempt) = (std::sync::Arc::clone(&store), write(&key));
        waiters.spawn(async move { store.acquire(attempt).await });
        until_waiting(&other, &key, n).await;
    }
    proxy.set(Fault::Reset);
    until_subscribed(&world, 1).await;
    other.release(&held).await.unwrap();
    world.until_nothing_is_left().await;
    let held = other.acquire(write(&key)).await.unwrap();
    proxy.set(Fault::None);
    // Each waiter asks at once. With polls alone, one every two seconds for a process, it would take long.
    timeout(Duration::from_secs(8), until_waiting(&other, &key, WAITERS)).await.expect("some did not come back");
    other.release(&held).await.unwrap();
    let mut tokens = Vec::new();
    while let Some(granted) = timeout(LIMIT, waiters.join_next()).await.expect("one is never served") {
        let granted = granted.unwrap().unwrap();
        tokens.push(granted.token);
        store.release(&granted).await.unwrap();
    }
    assert!(tokens.is_sorted() && tokens.len() == 12, "{tokens:?}");
    world.until_nothing_is_left().await;
    world.end_behind(proxy).await;
}

#[tokio::test]
async fn two_believe_after_a_restart_without_data() {
    let world = World::start().await;
    let proxy = Proxy::start(world.server.addr()).await.unwrap();
    let holder = connected(&Redis::connect(proxy.url_for(&world.server.url())).await.unwrap()).await;
    let held = holder.acquire(write(&key("believed"))).await.unwrap();
    proxy.set(Fault::Hole);
    world.server.restart().await.unwrap();
    let store = world.store().await;
    let second = store.acquire(write(&key("believed"))).await.unwrap();
    assert!(held.loss().is_none() && second.loss().is_none(), "then this limit is gone");
    store.release(&second).await.unwrap();
    proxy.set(Fault::None);
    world.end_behind(proxy).await;
}

#[tokio::test]
async fn a_lock_that_was_given_back_during_an_outage_is_passed_on_soon_after_it() {
    let world = World::start().await;
    let proxy = Proxy::start(world.server.addr()).await.unwrap();
    let holder = connected(&Redis::connect(format!("redis://{}", proxy.addr())).await.unwrap()).await;
    let other = world.store().await;
    let key = key("given back");
    let held = holder.acquire(Attempt { lease: Duration::from_secs(60), ..write(&key) }).await.unwrap();
    let waiter = waiting(&other, write(&key));
    until_waiting(&other, &key, 1).await;
    proxy.set(Fault::Reset);
    until("the connection is lost", || !holder.is_up()).await;
    holder.release_detached(held);
    // As long as the pauses between the attempts need to grow.
    sleep(Duration::from_secs(7)).await;
    proxy.set(Fault::None);
    until("a connection", || holder.is_up()).await;
    let next = timeout(Duration::from_secs(2), waiter).await.expect("at once").unwrap().unwrap();
    other.release(&next).await.unwrap();
    world.end_behind(proxy).await;
}
