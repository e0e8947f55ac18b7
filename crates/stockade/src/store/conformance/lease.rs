use std::{slice, sync::Arc, time::Duration};

use futures_util::FutureExt;

use super::fixture::{Fixture, LATE, LIMIT, key, once, write};
use crate::{
    clock::Instant,
    store::{Attempt, Force, LockError, LossReason, Mode, Released},
};

const LEASE: Duration = Duration::from_millis(400);

pub(crate) async fn a_lease_that_is_not_renewed_passes_to_the_next_in_time(fixture: &Fixture) {
    let key = key("expiry");
    let since = Instant::now();
    let holder = fixture.take(0, Attempt { lease: LEASE, ..write(&key) }).await;
    assert!(holder.loss().is_none());
    let first = fixture.enqueue(1, write(&key), 1).await;
    // Nobody else touches the store: the waiter must be woken by the end of the lease alone.
    let next = first.granted().await;
    let took = since.elapsed();
    assert!(took >= LEASE - Duration::from_millis(10) && took < LEASE + LATE, "took {took:?}");
    assert_eq!(holder.loss(), Some(LossReason::Expired));
    assert!(next.token > holder.token);
    fixture.release(1, &next).await;
}

pub(crate) async fn a_lost_owner_cannot_free_its_successor(fixture: &Fixture) {
    let key = key("successor");
    let lost = fixture.take(0, Attempt { lease: LEASE, ..write(&key) }).await;
    let successor = fixture.take(1, write(&key)).await;
    assert_eq!(fixture.release(0, &lost).await, Released::Lost);
    assert!(!fixture.is_free(&key, Mode::Write).await);
    assert!(successor.loss().is_none());
    fixture.store(0).release_detached(Arc::clone(&lost));
    assert!(!fixture.is_free(&key, Mode::Write).await);
    assert_eq!(fixture.release(1, &successor).await, Released::Released);
}

pub(crate) async fn a_second_release_frees_nothing(fixture: &Fixture) {
    let key = key("twice");
    let first = fixture.take(0, write(&key)).await;
    assert_eq!(fixture.release(0, &first).await, Released::Released);
    let second = fixture.take(1, write(&key)).await;
    assert_ne!(fixture.release(0, &first).await, Released::Released);
    assert!(!fixture.is_free(&key, Mode::Write).await);
    fixture.release(1, &second).await;
}

pub(crate) async fn a_release_that_is_detached_serves_the_next(fixture: &Fixture) {
    let key = key("detached");
    let holder = fixture.take(0, write(&key)).await;
    let waiter = fixture.enqueue(1, write(&key), 1).await;
    let since = Instant::now();
    fixture.store(0).release_detached(holder);
    let next = waiter.granted().await;
    assert!(since.elapsed() < LATE, "the lease ran out instead");
    fixture.store(1).release_detached(next);
}

pub(crate) async fn renewal_keeps_a_lock_beyond_its_lease(fixture: &Fixture) {
    let key = key("renewed");
    let since = Instant::now();
    let lease = Duration::from_secs(1);
    let holder = fixture.take(0, Attempt { lease, ..write(&key) }).await;
    let waiter = fixture.enqueue(1, write(&key), 1).await;
    while since.elapsed() < lease * 3 {
        tokio::time::sleep(lease / 5).await;
        let before = holder.deadline();
        fixture.store(0).renew(slice::from_ref(&holder)).await.expect("not renewed");
        assert!(holder.deadline() > before, "a renewal must move the deadline");
        assert!(holder.deadline().remaining() <= lease, "and not beyond one lease");
        assert!(holder.loss().is_none() && waiter.is_waiting());
    }
    assert_eq!(fixture.release(0, &holder).await, Released::Released);
    fixture.release(1, &waiter.granted().await).await;
}

pub(crate) async fn renewal_of_what_is_gone_is_a_loss_and_creates_nothing(fixture: &Fixture) {
    let key = key("gone");
    let forced = fixture.take(0, write(&key)).await;
    fixture.store(1).force(&key, Force::Now).await.expect("not forced");
    fixture.store(0).renew(slice::from_ref(&forced)).await.expect("not renewed");
    assert!(forced.loss().is_some());
    fixture.until_nothing_is_left().await;

    let expired = fixture.take(0, Attempt { lease: LEASE, ..write(&key) }).await;
    let successor = fixture.take(1, write(&key)).await;
    fixture.store(0).renew(slice::from_ref(&expired)).await.expect("not renewed");
    assert_eq!(expired.loss(), Some(LossReason::Expired));
    assert!(successor.loss().is_none());
    fixture.release(1, &successor).await;
}

/// A waiter whose task is stuck must not delay those behind it by a whole lease.
pub(crate) async fn a_grant_that_nobody_takes_goes_to_the_next(fixture: &Fixture) {
    let key = key("stuck");
    let holder = fixture.take(0, write(&key)).await;
    let mut stuck = fixture.store(0).acquire(Attempt { lease: LIMIT * 2, ..write(&key) });
    let enqueued = tokio::time::timeout(LIMIT, async {
        while fixture.inspect(&key).await.waiting == 0 {
            assert!((&mut stuck).now_or_never().is_none());
        }
    });
    enqueued.await.expect("not enqueued");
    let next = fixture.enqueue(1, write(&key), 2).await;
    fixture.release(0, &holder).await;
    // From here on `stuck` is not polled, as if its task never ran.
    let next = next.granted().await;
    assert!((&mut stuck).now_or_never().is_none());
    assert!(next.loss().is_none());
    // It still has its old place, and is granted when its turn comes again.
    fixture.release(1, &next).await;
    let stuck = tokio::time::timeout(LIMIT, stuck).await.expect("hangs").expect("not granted");
    assert!(matches!(fixture.store(1).acquire(once(&key, Mode::Write)).await, Err(LockError::Busy { .. })));
    fixture.release(0, &stuck).await;
}
