//! Shared holders that release when somebody waits.

use std::time::Duration;

use super::{
    LIMIT, World, connected, key, patient, permit, read, server, told, until, until_waiting, waiting, write, yielding,
};
use crate::store::{Attempt, LockError, LockStore, Recall};

#[tokio::test]
async fn a_message_that_comes_before_the_grant_counts() {
    let world = World::start().await;
    for overtakes in [false, true] {
        let store = connected(&patient(&world.server.url()).await).await;
        let (attempt, readers) = yielding(read(&key("1")));
        world.server.pause().unwrap();
        let attempt = waiting(&store, attempt);
        until("it is under way", || !store.inner.waiters.is_settled()).await;
        if overtakes {
            told(&store, &server(&store), &format!("W {}.00000000000 1", store.inner.process));
        }
        world.server.resume().unwrap();
        let held = attempt.await.unwrap().unwrap();
        assert_eq!(readers.recalled(), overtakes.then_some(Recall::Once));
        store.release(&held).await.unwrap();
    }
    world.end().await;
}

#[tokio::test]
async fn every_holder_that_gives_way_is_told_once() {
    let world = World::start().await;
    let (reader, writer) = (world.store().await, world.store().await);
    let key = key("1");
    let mut held = Vec::new();
    for _ in 0..3 {
        let (attempt, readers) = yielding(read(&key));
        held.push((reader.acquire(attempt).await.unwrap(), readers));
    }
    assert!(held.iter().all(|(_, readers)| readers.recalled().is_none()));
    world.command(&["CONFIG", "RESETSTAT"]).await;
    let first = waiting(&writer, write(&key));
    for (_, readers) in &held {
        until("told", || readers.recalled() == Some(Recall::Wanted)).await;
    }
    until_waiting(&writer, &key, 1).await;
    let second = waiting(&writer, permit(&key));
    until_waiting(&writer, &key, 2).await;
    assert_eq!(world.server.calls_of("publish").await.unwrap(), 3, "once each, by the first who waits");
    for (held, _) in &held {
        reader.release(held).await.unwrap();
    }
    for waiter in [first, second] {
        let held = waiter.await.unwrap().unwrap();
        writer.release(&held).await.unwrap();
    }
    world.end().await;
}

#[tokio::test]
async fn a_grant_with_somebody_behind_it_is_recalled_from_the_start() {
    let world = World::start().await;
    let (store, other) = (world.store().await, world.store().await);
    let key = key("1");
    let held = other.acquire(write(&key)).await.unwrap();
    let (attempt, readers) = yielding(read(&key));
    let reader = waiting(&store, attempt);
    until_waiting(&other, &key, 1).await;
    let writer = waiting(&other, write(&key));
    until_waiting(&other, &key, 2).await;
    other.release(&held).await.unwrap();
    let reader = reader.await.unwrap().unwrap();
    assert_eq!(readers.recalled(), Some(Recall::Once));
    store.release(&reader).await.unwrap();
    let writer = writer.await.unwrap().unwrap();
    other.release(&writer).await.unwrap();
    world.end().await;
}

/// Sets whether the only holder is told of waiters.
async fn set_yield(world: &World, yields: u8) {
    let script = "local l, m = redis.call('KEYS', '*l:test:1')[1], redis.call('KEYS', '*m:test:1')[1] \
                  local state, all = redis.call('GET', l), m and redis.call('HGETALL', m) \
                  if m then \
                    redis.call('HSET', m, all[1], (string.gsub(all[2], '^(%d+ %d+ %d %d+) %d', '%1 ' .. ARGV[1]))) \
                  else \
                    state = string.gsub(state, '^(r 0 0 %S+ %d+ %d+ %d+) %d', '%1 ' .. ARGV[1]) \
                    redis.call('SET', l, state, 'KEEPTTL') \
                  end";
    world.command(&["EVAL", script, "0", &yields.to_string()]).await;
}

#[tokio::test]
async fn a_poll_tells_those_who_were_not_told() {
    let world = World::start().await;
    let (reader, writer) = (world.store().await, world.store().await);
    let key = key("1");
    let (attempt, readers) = yielding(read(&key));
    let held = reader.acquire(attempt).await.unwrap();
    set_yield(&world, 0).await;
    let waiter = waiting(&writer, write(&key));
    until_waiting(&writer, &key, 1).await;
    assert_eq!(readers.recalled(), None, "as if the message had been lost");
    set_yield(&world, 1).await;
    until("told by a poll", || readers.recalled() == Some(Recall::Wanted)).await;
    reader.release(&held).await.unwrap();
    let held = waiter.await.unwrap().unwrap();
    writer.release(&held).await.unwrap();
    world.end().await;
}

#[tokio::test]
async fn an_attempt_that_does_not_wait_asks_again_only_where_all_give_way() {
    let world = World::start().await;
    let (reader, writer) = (world.store().await, world.store().await);
    let key = key("1");
    let (attempt, readers) = yielding(read(&key));
    let gives_way = reader.acquire(attempt).await.unwrap();
    let stays = reader.acquire(read(&key)).await.unwrap();
    let once = || Attempt { wait: Duration::ZERO, ..write(&key) };
    assert!(matches!(writer.acquire(once()).await, Err(LockError::Busy { .. })));
    assert_eq!(readers.recalled(), None, "it would be of no use");
    reader.release(&stays).await.unwrap();
    let attempt = waiting(&writer, once());
    until("told", || readers.recalled() == Some(Recall::Wanted)).await;
    reader.release(&gives_way).await.unwrap();
    let held = tokio::time::timeout(LIMIT, attempt).await.unwrap().unwrap();
    // A busy machine may take longer than such an attempt waits.
    match held {
        Ok(held) => drop(writer.release(&held).await.unwrap()),
        Err(error) => assert!(matches!(error, LockError::Busy { .. }), "{error}"),
    }
    world.end().await;
}
