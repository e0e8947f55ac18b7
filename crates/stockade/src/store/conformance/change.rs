//! Ownerships that go on in another form: a writer becomes a reader, or another process adopts the ownership.

use std::{slice, sync::Arc, time::Duration};

use futures_util::{FutureExt, future::join_all};

use super::fixture::{Fixture, LATE, LIMIT, attempt, key, permit, read, write};
use crate::{
    clock::Instant,
    store::{Attempt, Force, Handed, LockError, LossReason, Mode, Ownership, Released},
};

async fn downgrade(fixture: &Fixture, n: usize, ownership: &Arc<Ownership>) -> Result<(), LockError> {
    tokio::time::timeout(LIMIT, fixture.store(n).downgrade(ownership)).await.expect("the store does not answer")
}

/// Hands over as a guard does. This process renews the ownership no more.
fn hand_over(fixture: &Fixture, n: usize, ownership: &Arc<Ownership>) -> Handed {
    let handed = fixture.store(n).hand_over(ownership).expect("not handed over");
    ownership.hand_over();
    handed
}

async fn adopt(fixture: &Fixture, n: usize, handed: &Handed) -> Result<Arc<Ownership>, LockError> {
    tokio::time::timeout(LIMIT, fixture.store(n).adopt(handed)).await.expect("the store does not answer")
}

pub(crate) async fn a_downgrade_lets_the_readers_at_the_head_in_and_no_writer(fixture: &Fixture) {
    let key = key("downgraded");
    let writer = fixture.take(0, write(&key)).await;
    let token = writer.token;
    let first = fixture.enqueue(1, read(&key), 1).await;
    let second = fixture.enqueue(0, read(&key), 2).await;
    let next = fixture.enqueue(1, write(&key), 3).await;
    let last = fixture.enqueue(0, read(&key), 4).await;
    downgrade(fixture, 0, &writer).await.expect("not downgraded");
    assert_eq!((writer.mode(), writer.token), (Mode::Read, token));
    // The downgrade itself grants to the readers; they need not ask again.
    let inspection = fixture.inspect(&key).await;
    assert_eq!((inspection.holders.len(), inspection.waiting), (3, 2), "{inspection:?}");
    let (first, second) = (first.granted().await, second.granted().await);
    assert!(first.token > token);
    assert!(inspection.holders.iter().all(|party| party.mode == Mode::Read && party.tag == "a tag"));
    assert!(inspection.holders.iter().any(|party| party.token == Some(token)), "with its token");
    fixture.release(1, &first).await;
    fixture.release(0, &second).await;
    assert!(next.is_waiting() && last.is_waiting(), "who was downgraded still reads");
    assert_eq!(fixture.release(0, &writer).await, Released::Released);
    fixture.release(1, &next.granted().await).await;
    fixture.release(0, &last.granted().await).await;
}

pub(crate) async fn a_downgrade_with_a_writer_at_the_head_lets_nobody_in(fixture: &Fixture) {
    let key = key("writer-first");
    let held = fixture.take(0, write(&key)).await;
    let writer = fixture.enqueue(1, write(&key), 1).await;
    let reader = fixture.enqueue(0, read(&key), 2).await;
    downgrade(fixture, 0, &held).await.expect("not downgraded");
    let inspection = fixture.inspect(&key).await;
    assert_eq!((inspection.holders.len(), inspection.waiting), (1, 2), "{inspection:?}");
    fixture.release(0, &held).await;
    fixture.release(1, &writer.granted().await).await;
    fixture.release(0, &reader.granted().await).await;
}

pub(crate) async fn a_downgraded_lock_is_renewed_as_a_reader(fixture: &Fixture) {
    let key = key("downgraded-lease");
    let lease = Duration::from_millis(1500);
    let held = fixture.take(0, Attempt { lease, ..write(&key) }).await;
    tokio::time::sleep(lease / 2).await;
    let before = held.deadline();
    let since = Instant::now();
    downgrade(fixture, 0, &held).await.expect("not downgraded");
    assert!(held.deadline() > before && held.deadline().remaining() <= lease, "the lease begins anew");
    while since.elapsed() < lease * 2 {
        tokio::time::sleep(lease / 6).await;
        // A renewal that a busy machine does not answer in time is no loss: the next one counts.
        let _ = fixture.store(0).renew(slice::from_ref(&held)).await;
        assert!(held.loss().is_none());
        assert!(fixture.is_free(&key, Mode::Read).await && !fixture.is_free(&key, Mode::Write).await);
    }
    // A repeated downgrade, as after a lost reply, changes nothing.
    downgrade(fixture, 0, &held).await.expect("not repeated");
    assert_eq!(fixture.inspect(&key).await.holders.len(), 1);
    assert_eq!(fixture.release(0, &held).await, Released::Released);
    fixture.until_nothing_is_left().await;
    // A downgraded lock that nobody renews ends with its lease.
    let held = fixture.take(0, Attempt { lease, ..write(&key) }).await;
    downgrade(fixture, 0, &held).await.expect("not downgraded");
    let since = Instant::now();
    let next = fixture.enqueue(1, write(&key), 1).await.granted().await;
    assert!(since.elapsed() < lease + LATE, "{:?}", since.elapsed());
    assert_eq!(held.loss(), Some(LossReason::Expired));
    fixture.release(1, &next).await;
}

pub(crate) async fn what_was_lost_is_not_downgraded(fixture: &Fixture) {
    let key = key("lost-writer");
    let expired = fixture.take(0, Attempt { lease: Duration::from_millis(200), ..write(&key) }).await;
    let successor = fixture.take(1, write(&key)).await;
    assert!(matches!(downgrade(fixture, 0, &expired).await, Err(LockError::Lost { .. })));
    assert!(expired.loss().is_some() && successor.loss().is_none());
    assert_eq!(fixture.inspect(&key).await.holders.len(), 1);
    fixture.store(0).force(&key, Force::Now).await.expect("not forced");
    assert!(matches!(downgrade(fixture, 1, &successor).await, Err(LockError::Lost { .. })));
}

pub(crate) async fn an_adopted_lock_has_a_token_of_its_own(fixture: &Fixture) {
    let modes = [write(&key("adopted")), read(&key("adopted-read")), permit(&key("adopted-permit"), 1)];
    join_all(modes.into_iter().map(async |of| {
        let (key, lease) = (of.key.clone(), Duration::from_secs(1));
        let given = fixture.take(0, Attempt { lease, ..of.clone() }).await;
        let waiter = fixture.enqueue(1, write(&key), 1).await;
        let (handed, since) = (hand_over(fixture, 0, &given), Instant::now());
        let adopted = adopt(fixture, 1, &handed).await.expect("not adopted");
        assert!(adopted.token > given.token && adopted.mode() == of.mode);
        assert_ne!(adopted.owner, given.owner);
        let holders = fixture.inspect(&key).await.holders;
        assert!(holders.len() == 1 && holders[0].age.unwrap() <= since.elapsed(), "{holders:?}");
        // The first process can neither renew nor release any more. The second keeps the lock beyond the first lease.
        let since = Instant::now();
        while since.elapsed() < lease * 2 {
            fixture.store(0).renew(slice::from_ref(&given)).await.expect("not renewed");
            fixture.store(1).renew(slice::from_ref(&adopted)).await.expect("not renewed");
            assert!(adopted.loss().is_none() && waiter.is_waiting());
            assert!(adopted.deadline().remaining() <= lease);
            tokio::time::sleep(lease / 6).await;
        }
        assert_eq!(fixture.release(0, &given).await, Released::Lost);
        assert!(waiter.is_waiting());
        let handed = hand_over(fixture, 1, &adopted);
        let again = adopt(fixture, 0, &handed).await.expect("not adopted");
        assert!(again.token > adopted.token);
        assert_eq!(fixture.release(0, &again).await, Released::Released);
        fixture.release(1, &waiter.granted().await).await;
    }))
    .await;
}

pub(crate) async fn a_handover_is_adopted_once(fixture: &Fixture) {
    let key = key("once");
    let given = fixture.take(0, write(&key)).await;
    let handed = hand_over(fixture, 0, &given);
    let adopted = adopt(fixture, 1, &handed).await.expect("not adopted");
    for n in [0, 1] {
        let second = adopt(fixture, n, &handed).await;
        assert!(matches!(second, Err(LockError::HandoverVoid)), "{second:?}");
    }
    assert!(adopted.loss().is_none());
    assert_eq!(fixture.release(1, &adopted).await, Released::Released);
    let late = adopt(fixture, 0, &handed).await;
    assert!(matches!(late, Err(LockError::HandoverVoid)), "{late:?}");
}

pub(crate) async fn a_handover_that_nobody_adopts_ends_with_its_lease(fixture: &Fixture) {
    let key = key("nobody");
    let lease = Duration::from_millis(600);
    let given = fixture.take(0, Attempt { lease, ..write(&key) }).await;
    let since = Instant::now();
    let waiter = fixture.enqueue(1, write(&key), 1).await;
    let handed = hand_over(fixture, 0, &given);
    let next = waiter.granted().await;
    assert!(since.elapsed() >= lease / 2 && since.elapsed() < lease + LATE, "{:?}", since.elapsed());
    let late = adopt(fixture, 0, &handed).await;
    assert!(matches!(late, Err(LockError::HandoverVoid)), "{late:?}");
    assert!(next.loss().is_none());
    assert_eq!(fixture.release(1, &next).await, Released::Released);
}

pub(crate) async fn a_handover_that_was_forced_or_forged_is_not_adopted(fixture: &Fixture) {
    let key = key("void");
    let given = fixture.take(0, write(&key)).await;
    let handed = hand_over(fixture, 0, &given);
    let reader = Handed { mode: Mode::Read, ..handed.clone() };
    let token = crate::store::Token::new(handed.token.get() + 1).expect("a token");
    for forged in [reader, Handed { token, ..handed.clone() }] {
        let refused = adopt(fixture, 1, &forged).await;
        assert!(matches!(refused, Err(LockError::HandoverVoid)), "{refused:?}");
    }
    assert_eq!(fixture.store(1).force(&key, Force::Now).await.expect("not forced").holders, 1);
    let refused = adopt(fixture, 1, &handed).await;
    assert!(matches!(refused, Err(LockError::HandoverVoid)), "{refused:?}");
}

pub(crate) async fn an_adoption_that_is_dropped_leaves_nothing(fixture: &Fixture) {
    // The lease outlives the test, so a lock that is left behind stays visible.
    let lease = Duration::from_secs(60);
    for mode in [Mode::Write, Mode::Read] {
        let key = key("dropped");
        let given = fixture.take(0, Attempt { lease, ..attempt(&key, mode) }).await;
        let handed = hand_over(fixture, 0, &given);
        let mut adoption = fixture.store(1).adopt(&handed);
        if let Some(adopted) = (&mut adoption).now_or_never() {
            fixture.release(1, &adopted.expect("not adopted")).await;
        }
        drop(adoption);
        fixture.until_nothing_is_left().await;
    }
}
