use std::{
    slice,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use super::fixture::{Fixture, LASTING, LATE, LIMIT, key, permit, read, write};
use crate::{
    clock::Instant,
    store::{Attempt, Force, LockError, LossReason, Mode, Released},
};

pub(crate) async fn no_more_permits_are_out_than_the_semaphore_has(fixture: &Fixture) {
    const PERMITS: u32 = 7;
    let key = key("permits");
    let (inside, most) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicI64::new(0)));
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..40 {
        let (store, key) = (Arc::clone(fixture.store(n)), key.clone());
        let (inside, most) = (Arc::clone(&inside), Arc::clone(&most));
        tasks.spawn(async move {
            for _ in 0..6 {
                let ownership = store.acquire(permit(&key, PERMITS)).await.expect("not granted");
                let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(now, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(1)).await;
                inside.fetch_sub(1, Ordering::SeqCst);
                assert_eq!(store.release(&ownership).await.expect("not released"), Released::Released);
            }
        });
    }
    tasks.join_all().await;
    assert_eq!(most.load(Ordering::SeqCst), i64::from(PERMITS), "all of them and no more");
}

pub(crate) async fn a_permit_given_back_goes_to_the_head_of_the_queue(fixture: &Fixture) {
    let key = key("permit");
    let first = fixture.take(0, permit(&key, 2)).await;
    let second = fixture.take(1, permit(&key, 2)).await;
    assert!(second.token > first.token);
    match fixture.store(0).acquire(Attempt { wait: Duration::ZERO, ..permit(&key, 2) }).await {
        Err(LockError::Busy { remaining }) => {
            assert!(remaining > LASTING / 2 && remaining <= LASTING, "{remaining:?}");
        }
        other => panic!("{other:?}"),
    }
    let third = fixture.enqueue(1, permit(&key, 2), 1).await;
    let fourth = fixture.enqueue(0, permit(&key, 2), 2).await;
    let fifth = fixture.enqueue(1, permit(&key, 2), 3).await;
    fixture.release(0, &first).await;
    let third = third.granted().await;
    assert!(third.handed_off.is_some() && third.token > second.token);
    let inspection = fixture.inspect(&key).await;
    assert_eq!((inspection.holders.len(), inspection.waiting), (2, 2), "{inspection:?}");
    assert!(inspection.holders.iter().all(|party| party.mode == Mode::Permit && party.tag == "a tag"));
    assert!(inspection.waiters.iter().all(|party| party.mode == Mode::Permit));
    // A waiter in the middle of the queue leaves, and the others keep their order.
    fourth.cancel().await;
    fixture.until(&key, |inspection| inspection.waiting == 1).await;
    assert!(fifth.is_waiting());
    fixture.release(1, &third).await;
    let fifth = fifth.granted().await;
    fixture.release(1, &second).await;
    fixture.release(1, &fifth).await;
}

pub(crate) async fn free_permits_go_to_the_head_of_the_queue_together(fixture: &Fixture) {
    let key = key("batch");
    let writer = fixture.take(0, write(&key)).await;
    let mut waiters = Vec::new();
    for (n, place) in (0..5).zip(1..) {
        waiters.push(fixture.enqueue(n, permit(&key, 3), place).await);
    }
    fixture.release(0, &writer).await;
    let rest = waiters.split_off(3);
    let mut inside = Vec::new();
    for waiter in waiters {
        inside.push(waiter.granted().await);
    }
    let inspection = fixture.inspect(&key).await;
    assert_eq!((inspection.holders.len(), inspection.waiting), (3, 2), "{inspection:?}");
    assert!(rest.iter().all(super::fixture::Waiter::is_waiting));
    for (n, ownership) in inside.iter().enumerate() {
        fixture.release(n, ownership).await;
    }
    for waiter in rest {
        fixture.release(0, &waiter.granted().await).await;
    }
}

pub(crate) async fn permits_readers_and_writers_are_one_queue(fixture: &Fixture) {
    let key = key("kinds");
    let first = fixture.take(0, permit(&key, 3)).await;
    assert!(!fixture.is_free(&key, Mode::Read).await);
    assert!(!fixture.is_free(&key, Mode::Write).await);
    let reader = fixture.enqueue(1, read(&key), 1).await;
    // Two permits are free, but a reader waits in front.
    let late = fixture.store(0).acquire(Attempt { wait: Duration::ZERO, ..permit(&key, 3) }).await;
    assert!(matches!(late, Err(LockError::Busy { .. })), "{late:?}");
    let second = fixture.enqueue(0, permit(&key, 3), 2).await;
    let third = fixture.enqueue(1, permit(&key, 3), 3).await;
    let writer = fixture.enqueue(0, write(&key), 4).await;
    fixture.release(0, &first).await;
    let reader = reader.granted().await;
    assert!(second.is_waiting() && fixture.inspect(&key).await.waiting == 3);
    fixture.release(1, &reader).await;
    let (second, third) = (second.granted().await, third.granted().await);
    assert!(writer.is_waiting(), "a writer excludes permits");
    fixture.release(0, &second).await;
    assert_eq!(fixture.inspect(&key).await.waiting, 1, "one permit is out");
    fixture.release(1, &third).await;
    let writer = writer.granted().await;
    let late = fixture.store(1).acquire(Attempt { wait: Duration::ZERO, ..permit(&key, 3) }).await;
    assert!(matches!(late, Err(LockError::Busy { .. })), "{late:?}");
    fixture.release(0, &writer).await;
}

pub(crate) async fn a_waiter_that_goes_lets_those_behind_it_have_free_permits(fixture: &Fixture) {
    let key = key("blocked");
    let first = fixture.take(0, permit(&key, 2)).await;
    let writer = fixture.enqueue(1, write(&key), 1).await;
    let second = fixture.enqueue(0, permit(&key, 2), 2).await;
    writer.cancel().await;
    let second = second.granted().await;
    fixture.release(0, &first).await;
    fixture.release(0, &second).await;
}

pub(crate) async fn another_capacity_is_refused_while_the_semaphore_is_in_use(fixture: &Fixture) {
    let key = key("capacity");
    let refused = async |asked: u32, present: u32| {
        for wait in [Duration::ZERO, LIMIT] {
            match fixture.store(1).acquire(Attempt { wait, ..permit(&key, asked) }).await {
                Err(LockError::Capacity { asked: a, present: p }) => assert_eq!((a, p), (asked, present)),
                other => panic!("{other:?}"),
            }
        }
    };
    // Another capacity is refused while somebody holds a permit.
    let held = fixture.take(0, permit(&key, 2)).await;
    refused(3, 2).await;
    refused(1, 2).await;
    let inspection = fixture.inspect(&key).await;
    assert_eq!((inspection.holders.len(), inspection.waiting), (1, 0), "{inspection:?}");
    let other = fixture.take(1, permit(&key, 2)).await;
    fixture.release(0, &held).await;
    fixture.release(1, &other).await;
    // It is also refused while somebody waits for a permit behind a writer.
    let writer = fixture.take(0, write(&key)).await;
    let waiter = fixture.enqueue(1, permit(&key, 5), 1).await;
    refused(2, 5).await;
    assert_eq!(fixture.inspect(&key).await.waiting, 1);
    fixture.release(0, &writer).await;
    fixture.release(1, &waiter.granted().await).await;
    // After that any capacity is accepted.
    let third = fixture.take(0, permit(&key, 3)).await;
    fixture.release(0, &third).await;
}

pub(crate) async fn a_permit_that_is_not_renewed_ends_alone(fixture: &Fixture) {
    each_shared_lease_ends_alone(fixture, &permit(&key("dead-permit"), 2), &permit(&key("dead-permit"), 2)).await;
}

pub(crate) async fn a_reader_that_is_not_renewed_ends_alone(fixture: &Fixture) {
    each_shared_lease_ends_alone(fixture, &read(&key("dead-reader")), &write(&key("dead-reader"))).await;
}

/// One of two shared holders dies, and `next` waits until the dead one's lease ends.
async fn each_shared_lease_ends_alone(fixture: &Fixture, shared: &Attempt, next: &Attempt) {
    const LEASE: Duration = Duration::from_millis(900);
    let key = shared.key.clone();
    let since = Instant::now();
    let dead = fixture.take(0, Attempt { lease: LEASE, ..shared.clone() }).await;
    let alive = fixture.take(1, Attempt { lease: LEASE * 4, ..shared.clone() }).await;
    let waiter = fixture.enqueue(0, next.clone(), 1).await;
    // The renewals of the living holder must not extend the dead one's lease. The end of that lease must not end the
    // living holder.
    let renewing = async {
        while fixture.inspect(&key).await.holders.iter().any(|party| party.token == Some(dead.token)) {
            fixture.store(1).renew(slice::from_ref(&alive)).await.expect("not renewed");
            assert!(alive.loss().is_none());
            tokio::time::sleep(LEASE / 20).await;
        }
    };
    tokio::time::timeout(LIMIT, renewing).await.expect("it outlives its lease");
    let took = since.elapsed();
    assert!(took >= LEASE - Duration::from_millis(10) && took < LEASE + LATE, "took {took:?}");
    assert_eq!(dead.loss(), Some(LossReason::Expired));
    let holders = fixture.inspect(&key).await.holders;
    assert!(holders.iter().any(|party| party.token == Some(alive.token)), "{holders:?}");
    if next.mode == Mode::Permit {
        let next = waiter.granted().await;
        fixture.release(0, &next).await;
        assert_eq!(fixture.release(1, &alive).await, Released::Released);
    } else {
        assert!(waiter.is_waiting(), "a reader is left");
        assert_eq!(fixture.release(1, &alive).await, Released::Released);
        fixture.release(0, &waiter.granted().await).await;
    }
    assert_eq!(fixture.release(0, &dead).await, Released::Lost);
}

pub(crate) async fn a_dead_permit_holder_costs_at_most_its_lease(fixture: &Fixture) {
    const LEASE: Duration = Duration::from_millis(400);
    let key = key("permit-expiry");
    let since = Instant::now();
    let dead = fixture.take(0, Attempt { lease: LEASE, ..permit(&key, 1) }).await;
    // Nobody else touches the store.
    let next = fixture.enqueue(1, permit(&key, 1), 1).await.granted().await;
    let took = since.elapsed();
    assert!(took >= LEASE - Duration::from_millis(10) && took < LEASE + LATE, "took {took:?}");
    assert_eq!(dead.loss(), Some(LossReason::Expired));
    fixture.release(1, &next).await;
}

pub(crate) async fn a_forced_semaphore_goes_to_those_who_wait(fixture: &Fixture) {
    let key = key("forced-permits");
    let held = [fixture.take(0, permit(&key, 2)).await, fixture.take(1, permit(&key, 2)).await];
    let writer = fixture.enqueue(1, write(&key), 1).await;
    let forced = fixture.store(0).force(&key, Force::Now).await.expect("not forced");
    assert_eq!(forced.holders, 2);
    for ownership in &held {
        let told = tokio::time::timeout(LIMIT, ownership.lost()).await.expect("a holder is not told");
        assert_eq!(told, LossReason::Forced);
        assert!(ownership.token < forced.token);
    }
    let writer = writer.granted().await;
    assert!(writer.token > forced.token);
    fixture.release(1, &writer).await;
    fixture.until_nothing_is_left().await;

    // This force lets the holders keep the rest of their leases.
    let lease = Duration::from_secs(1);
    let since = Instant::now();
    let held = fixture.take(0, Attempt { lease, ..permit(&key, 2) }).await;
    let writer = fixture.enqueue(1, write(&key), 1).await;
    assert_eq!(fixture.store(1).force(&key, Force::AfterLeases).await.expect("not forced").holders, 1);
    fixture.store(0).renew(slice::from_ref(&held)).await.expect("not renewed");
    let writer = writer.granted().await;
    let took = since.elapsed();
    assert!(took >= lease - Duration::from_millis(20) && took < lease + LATE, "took {took:?}");
    fixture.release(1, &writer).await;
    assert!(fixture.is_free(&key, Mode::Write).await);
}
