use std::time::Duration;

use super::fixture::{Fixture, LASTING, LATE, key, once, read, write};
use crate::{
    clock::Instant,
    store::{Attempt, LockError, Mode},
};

pub(crate) async fn waiters_are_served_in_the_order_they_came(fixture: &Fixture) {
    const WAITERS: usize = 200;
    let key = key("fifo");
    let mut holder = fixture.take(0, write(&key)).await;
    let mut waiters = Vec::new();
    for (n, place) in (0..WAITERS).zip(1..) {
        waiters.push(fixture.enqueue(n, write(&key), place).await);
    }
    let mut handed_off = 0;
    for (n, waiter) in waiters.into_iter().enumerate() {
        fixture.release(n, &holder).await;
        holder = waiter.granted().await;
        handed_off += usize::from(holder.handed_off.is_some());
        // The waiters behind it stay where they are.
        assert_eq!(fixture.inspect(&key).await.waiting, (WAITERS - 1 - n) as u64);
    }
    // If a waiter happens to ask at that moment, it reads its grant in the reply.
    assert!(handed_off > WAITERS / 2, "{handed_off} of {WAITERS}");
    fixture.release(WAITERS, &holder).await;
}

pub(crate) async fn the_run_of_readers_at_the_head_enters_together(fixture: &Fixture) {
    let key = key("prefix");
    let holder = fixture.take(0, write(&key)).await;
    let first = fixture.enqueue(1, read(&key), 1).await;
    let second = fixture.enqueue(0, read(&key), 2).await;
    let writer = fixture.enqueue(1, write(&key), 3).await;
    let last = fixture.enqueue(0, read(&key), 4).await;

    fixture.release(0, &holder).await;
    let (first, second) = (first.granted().await, second.granted().await);
    let inspection = fixture.inspect(&key).await;
    assert_eq!((inspection.holders.len(), inspection.waiting), (2, 2), "{inspection:?}");
    assert!(writer.is_waiting() && last.is_waiting());

    fixture.release(1, &first).await;
    assert_eq!(fixture.inspect(&key).await.waiting, 2, "one reader is left");
    fixture.release(0, &second).await;
    let writer = writer.granted().await;
    assert!(last.is_waiting());
    fixture.release(1, &writer).await;
    fixture.release(0, &last.granted().await).await;
}

pub(crate) async fn a_reader_waits_behind_a_waiting_writer(fixture: &Fixture) {
    let key = key("overtake");
    let reader = fixture.take(0, read(&key)).await;
    let writer = fixture.enqueue(1, write(&key), 1).await;
    let late = fixture.store(0).acquire(once(&key, Mode::Read)).await;
    assert!(matches!(late, Err(LockError::Busy { .. })), "{late:?}");
    fixture.release(0, &reader).await;
    fixture.release(1, &writer.granted().await).await;
}

pub(crate) async fn a_writer_that_stops_waiting_lets_the_readers_behind_it_in(fixture: &Fixture) {
    let key = key("unblock");
    let reader = fixture.take(0, read(&key)).await;
    let writer = fixture.enqueue(1, write(&key), 1).await;
    let second = fixture.enqueue(0, read(&key), 2).await;
    let third = fixture.enqueue(1, read(&key), 3).await;
    writer.cancel().await;
    // The first reader still holds, so the readers were granted because the writer left.
    let (second, third) = (second.granted().await, third.granted().await);
    assert_eq!(fixture.inspect(&key).await.holders.len(), 3);
    for (n, ownership) in [reader, second, third].iter().enumerate() {
        fixture.release(n, ownership).await;
    }
    fixture.until_nothing_is_left().await;

    let reader = fixture.take(0, read(&key)).await;
    let impatient = Attempt { wait: Duration::from_millis(300), ..write(&key) };
    let writer = fixture.enqueue(1, impatient, 1).await;
    let second = fixture.enqueue(0, read(&key), 2).await;
    assert!(matches!(writer.result().await, Err(LockError::Timeout { .. })));
    let second = second.granted().await;
    fixture.release(0, &reader).await;
    fixture.release(0, &second).await;
}

pub(crate) async fn an_attempt_that_does_not_wait_is_told_the_time_left(fixture: &Fixture) {
    let key = key("busy");
    let holder = fixture.take(0, write(&key)).await;
    match fixture.store(1).acquire(once(&key, Mode::Write)).await {
        Err(LockError::Busy { remaining }) => {
            assert!(remaining > LASTING / 2 && remaining <= LASTING, "{remaining:?}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(fixture.inspect(&key).await.waiting, 0);
    fixture.release(0, &holder).await;
}

pub(crate) async fn a_wait_ends_within_its_limit(fixture: &Fixture) {
    let key = key("timed");
    let wait = Duration::from_millis(300);
    let holder = fixture.take(0, write(&key)).await;
    let since = Instant::now();
    let refused = fixture.store(1).acquire(Attempt { wait, ..write(&key) }).await;
    let took = since.elapsed();
    match refused {
        Err(LockError::Timeout { key: named, waited, remaining, .. }) => {
            assert_eq!(named, key);
            assert!(waited >= wait && waited <= took, "waited {waited:?} of {took:?}");
            assert!(remaining <= LASTING, "{remaining:?}");
        }
        other => panic!("{other:?}"),
    }
    assert!(took >= wait && took < wait + LATE, "took {took:?}");
    fixture.until(&key, |inspection| inspection.waiting == 0).await;
    assert!(since.elapsed() < wait + LATE * 2, "its place was left to expire");
    fixture.release(0, &holder).await;
}

pub(crate) async fn a_waiter_that_gives_up_knows_its_place(fixture: &Fixture) {
    let key = key("place");
    let holder = fixture.take(0, write(&key)).await;
    let first = fixture.enqueue(0, write(&key), 1).await;
    let brief = Attempt { wait: Duration::from_millis(300), ..write(&key) };
    let refused = fixture.store(1).acquire(brief).await;
    assert!(matches!(refused, Err(LockError::Timeout { position: Some(2), .. })), "{refused:?}");
    fixture.until(&key, |inspection| inspection.waiting == 1).await;
    fixture.release(0, &holder).await;
    fixture.release(0, &first.granted().await).await;
}

pub(crate) async fn a_waiter_without_limit_is_served(fixture: &Fixture) {
    let key = key("unbounded");
    let holder = fixture.take(0, write(&key)).await;
    let waiter = fixture.enqueue(1, Attempt { wait: Duration::MAX, ..write(&key) }, 1).await;
    fixture.release(0, &holder).await;
    fixture.release(1, &waiter.granted().await).await;
}

pub(crate) async fn the_queue_is_bounded(fixture: &Fixture) {
    let key = key("full");
    let bounded = || Attempt { max_waiters: 2, ..write(&key) };
    let holder = fixture.take(0, bounded()).await;
    let first = fixture.enqueue(0, bounded(), 1).await;
    let second = fixture.enqueue(1, bounded(), 2).await;
    match fixture.store(0).acquire(Attempt { wait: LATE, ..bounded() }).await {
        Err(LockError::QueueFull { waiters, position, remaining }) => {
            assert_eq!((waiters, position), (2, 3));
            assert!(remaining > Duration::ZERO, "{remaining:?}");
        }
        other => panic!("{other:?}"),
    }
    first.cancel().await;
    fixture.until(&key, |inspection| inspection.waiting == 1).await;
    let third = fixture.enqueue(0, bounded(), 2).await;
    fixture.release(0, &holder).await;
    fixture.release(1, &second.granted().await).await;
    fixture.release(0, &third.granted().await).await;
}
