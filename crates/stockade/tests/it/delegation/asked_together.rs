//! Readers of one process that ask together.

use std::time::Duration;

use stockade::{Guard, LockError, Locks, lock::Mode};
use stockade_testbed::eventually;
use tokio::task::JoinSet;

use super::support::{LIMIT, SHORT, Sku, delegations, locks, locks_of, read, read_within, scripts, waiting};
use crate::world::World;

/// A lock that a writer holds, after so many reads that the next read asks for a delegation.
async fn written(reader: &Locks, writer: &Locks) -> Guard {
    read(reader, "1").await.release().await.unwrap();
    writer.write(&Sku("1")).wait(LIMIT).acquire().await.unwrap()
}

type Attempts = JoinSet<Result<Guard, LockError>>;

#[tokio::test]
async fn one_attempt_serves_all_who_come_before_its_grant() {
    const READERS: usize = 100;
    let world = World::start().await;
    let (reader, writer) = (locks(&world).await, locks(&world).await);
    let held = written(&reader, &writer).await;
    let mut readers = Attempts::new();
    let sent = scripts(&world, async || {
        for _ in 0..READERS {
            readers.spawn(reader.read(&Sku("1")).wait(LIMIT).delegate().acquire());
        }
        waiting(&writer, "stock:1", 1).await;
        held.release().await.unwrap();
        let guards = readers.join_all().await;
        assert!(guards.iter().all(|guard| guard.as_ref().is_ok_and(Guard::is_held)));
    })
    .await;
    assert!(sent < 20, "{sent} scripts, of which some look at the queue");
    world.end().await;
}

#[tokio::test]
async fn what_was_handed_over_is_for_those_who_asked_only() {
    let world = World::start().await;
    let (reader, writer, other) = (locks(&world).await, locks(&world).await, locks(&world).await);
    let held = written(&reader, &writer).await;
    let mut readers = Attempts::new();
    for _ in 0..3 {
        readers.spawn(reader.read(&Sku("1")).wait(LIMIT).delegate().acquire());
    }
    waiting(&writer, "stock:1", 1).await;
    let mut writers = Attempts::new();
    writers.spawn(other.write(&Sku("1")).wait(LIMIT).acquire());
    waiting(&writer, "stock:1", 2).await;
    held.release().await.unwrap();
    let inside: Vec<_> = readers.join_all().await.into_iter().map(Result::unwrap).collect();
    assert_eq!(delegations(&writer, "1").await, 1, "one for all three");
    let late = read_within(&reader, "1", SHORT).await;
    assert!(matches!(late, Err(LockError::Timeout { .. })), "it comes after the writer: {late:?}");
    drop(inside);
    drop(writers.join_next().await.unwrap().unwrap().unwrap());
    world.end().await;
}

#[tokio::test]
async fn the_end_of_one_reader_is_no_end_for_the_others() {
    let world = World::start().await;
    let (reader, writer) = (locks(&world).await, locks(&world).await);
    let held = written(&reader, &writer).await;
    let mut readers = Attempts::new();
    // The reader that begins the attempt has the shortest wait, and the next one gives up.
    readers.spawn(reader.read(&Sku("1")).wait(SHORT).delegate().acquire());
    waiting(&writer, "stock:1", 1).await;
    let mut gone = Attempts::new();
    gone.spawn(reader.read(&Sku("1")).wait(LIMIT).delegate().acquire());
    let mut patient = Attempts::new();
    patient.spawn(reader.read(&Sku("1")).wait(LIMIT).delegate().acquire());
    let mut writers = Attempts::new();
    writers.spawn(writer.write(&Sku("1")).wait(LIMIT).acquire());
    let refused = readers.join_next().await.unwrap().unwrap();
    assert!(matches!(refused, Err(LockError::Timeout { position: Some(1), .. })), "{refused:?}");
    gone.shutdown().await;
    waiting(&writer, "stock:1", 2).await;
    // Wait until the store was told a later end than that of the first reader.
    eventually("told a later end", async || {
        let found = writer.inspect(&Sku("1")).await.unwrap();
        found.waiters.first().is_some_and(|first| first.mode == Mode::Read && first.remaining > SHORT * 10)
    })
    .await;
    held.release().await.unwrap();
    let inside = patient.join_next().await.unwrap().unwrap().unwrap();
    assert!(inside.is_held());
    drop(inside);
    drop(writers.join_next().await.unwrap().unwrap().unwrap());
    world.end().await;
}

#[tokio::test]
async fn the_place_of_a_process_that_dies_ends_with_the_waits_of_its_readers() {
    let world = World::start().await;
    let (reader, writer) = (locks(&world).await, locks(&world).await);
    let held = written(&reader, &writer).await;
    let wait = Duration::from_secs(2);
    let mut readers = Attempts::new();
    for _ in 0..2 {
        readers.spawn(reader.read(&Sku("1")).wait(wait).delegate().acquire());
    }
    waiting(&writer, "stock:1", 1).await;
    let found = writer.inspect(&Sku("1")).await.unwrap();
    assert!(found.waiters.iter().all(|waiter| waiter.remaining <= wait), "{found:?}");
    held.release().await.unwrap();
    assert!(readers.join_all().await.iter().all(Result::is_ok));
    world.end().await;
}

#[tokio::test]
async fn an_attempt_ends_with_the_last_of_its_readers() {
    let world = World::start().await;
    let (reader, writer) = (locks(&world).await, locks(&world).await);
    let held = written(&reader, &writer).await;
    let mut readers = Attempts::new();
    for _ in 0..3 {
        readers.spawn(reader.read(&Sku("1")).wait(LIMIT).delegate().acquire());
    }
    waiting(&writer, "stock:1", 1).await;
    readers.shutdown().await;
    waiting(&writer, "stock:1", 0).await;
    held.release().await.unwrap();
    world.end().await;
}

#[tokio::test]
async fn readers_that_nobody_keeps_waiting_are_not_counted_as_waiters() {
    let world = World::start().await;
    let reader = locks_of(&world, Locks::builder().max_waiters(0)).await;
    read(&reader, "1").await.release().await.unwrap();
    // The second read begins a delegation, and the third joins its attempt or enters the delegation.
    let (second, third) = tokio::join!(read_within(&reader, "1", LIMIT), read_within(&reader, "1", LIMIT));
    assert!(second.is_ok() && third.is_ok(), "{second:?} {third:?}");
    drop((second, third));
    world.end().await;
}

#[tokio::test]
async fn a_crowd_of_readers_of_a_free_resource_is_let_in_with_default_settings() {
    // Twice as many as may wait for a resource.
    const READERS: usize = 2_000;
    let world = World::start().await;
    let reader = locks(&world).await;
    read(&reader, "1").await.release().await.unwrap();
    let mut readers = Attempts::new();
    for _ in 0..READERS {
        readers.spawn(reader.read(&Sku("1")).wait(LIMIT).delegate().acquire());
    }
    let refused = readers.join_all().await.into_iter().filter_map(Result::err).collect::<Vec<_>>();
    assert!(refused.is_empty(), "{} of {READERS}, the first by {:?}", refused.len(), refused.first());
    world.end().await;
}

#[tokio::test]
async fn readers_that_ask_together_count_as_waiters_each() {
    let world = World::start().await;
    let (reader, writer) = (locks_of(&world, Locks::builder().max_waiters(2)).await, locks(&world).await);
    let held = written(&reader, &writer).await;
    let mut readers = Attempts::new();
    for _ in 0..2 {
        readers.spawn(reader.read(&Sku("1")).wait(LIMIT).delegate().acquire());
    }
    waiting(&writer, "stock:1", 1).await;
    let mut refused = None;
    eventually("full", async || {
        refused = read_within(&reader, "1", Duration::from_millis(20)).await.err();
        matches!(refused, Some(LockError::QueueFull { waiters: 2, position: 3, .. }))
    })
    .await;
    held.release().await.unwrap();
    assert!(readers.join_all().await.iter().all(Result::is_ok));
    world.end().await;
}
