use std::time::Duration;

use super::support::{Downgrades, Faulty, LEASE, LIMIT, SHORT, Sku, idle, until};
use crate::lock::{Force, LockError, Locks, LossReason, Mode, Released};

#[tokio::test]
async fn a_downgraded_guard_reads_beside_others_and_is_renewed() {
    let locks = Locks::memory();
    let writer = locks.write(&Sku("1")).lease(LEASE).acquire().await.unwrap();
    let (token, fence) = (writer.token(), writer.fence());
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(locks.read(&Sku("1")).acquire());
    until("it waits", async || locks.inspect("stock:1").await.unwrap().waiting == 1).await;
    let reader = writer.downgrade().await.unwrap();
    assert_eq!((reader.mode(), reader.token(), fence.mode()), (Mode::Read, token, Mode::Read));
    let second = tokio::time::timeout(LIMIT, tasks.join_next()).await.unwrap().unwrap().unwrap().unwrap();
    second.release().await.unwrap();
    // The renewed read lock keeps writers out far beyond its lease.
    assert!(matches!(locks.write(&Sku("1")).wait(LEASE * 2).acquire().await, Err(LockError::Timeout { .. })));
    assert!(reader.is_held());
    assert_eq!(reader.release().await.unwrap(), Released::Released);
    idle(&locks).await;
}

#[tokio::test]
async fn a_guard_that_was_lost_is_not_downgraded() {
    let locks = Locks::memory();
    let guard = locks.write(&Sku("1")).acquire().await.unwrap();
    locks.force_release("stock:1", Force::Now).await.unwrap();
    let refused = guard.downgrade().await.unwrap_err();
    assert!(matches!(refused.error, LockError::Lost { reason: LossReason::Forced, .. }), "{refused}");
    assert!(!refused.guard.is_held());
}

#[tokio::test]
async fn a_guard_with_others_of_its_ownership_is_neither_downgraded_nor_handed_over() {
    let locks = Locks::memory();
    let outer = locks.write(&Sku("1")).acquire().await.unwrap();
    let inner = outer.reenter();
    let refused = outer.downgrade().await.unwrap_err();
    assert!(matches!(refused.error, LockError::Unsupported { operation: "downgrade", .. }), "{refused}");
    let refused = refused.guard.hand_over().unwrap_err();
    assert!(matches!(refused.error, LockError::Unsupported { operation: "handing over", .. }), "{refused}");
    assert_eq!((refused.guard.mode(), inner.mode()), (Mode::Write, Mode::Write));
    drop(inner);
    assert_eq!(refused.guard.downgrade().await.unwrap().mode(), Mode::Read);
}

#[tokio::test]
async fn a_downgrade_that_is_dropped_on_its_way_releases() {
    let (locks, store) = Faulty::locks();
    store.set_downgrades(Downgrades::Hang);
    let guard = locks.write(&Sku("1")).acquire().await.unwrap();
    assert!(tokio::time::timeout(SHORT, guard.downgrade()).await.is_err());
    idle(&locks).await;
    // A downgrade that is dropped before its first poll.
    let guard = locks.write(&Sku("1")).acquire().await.unwrap();
    drop(guard.downgrade());
    idle(&locks).await;
}

#[tokio::test]
async fn a_downgrade_without_an_answer_gives_back_a_guard_that_reads() {
    let (locks, store) = Faulty::locks();
    store.set_downgrades(Downgrades::Unanswered);
    let guard = locks.write(&Sku("1")).acquire().await.unwrap();
    let fence = guard.fence();
    let failed = guard.downgrade().await.unwrap_err();
    assert!(matches!(failed.error, LockError::Unavailable { .. }), "{failed}");
    // The store may have let readers in, so nobody may write under the guard.
    assert_eq!((failed.guard.mode(), fence.mode()), (Mode::Read, Mode::Read));
    assert!(failed.guard.is_held());
    store.set_downgrades(Downgrades::Answered);
    let reader = failed.guard.downgrade().await.unwrap();
    assert_eq!(reader.release().await.unwrap(), Released::Released);
    idle(&locks).await;
}

#[tokio::test]
async fn nobody_becomes_a_writer_while_he_reads() {
    let (locks, store) = Faulty::locks();
    let reader = locks.read(&Sku("1")).acquire().await.unwrap();
    let permit = locks.semaphore(&Sku("2"), 2).acquire().await.unwrap();
    let writer = locks.write(&Sku("3")).acquire().await.unwrap();
    let asked = store.acquires();
    for guard in [&reader, &permit] {
        let refused = guard.upgrade().unwrap_err();
        assert!(matches!(refused, LockError::Unsupported { operation: "upgrade", .. }), "{refused}");
        assert!(refused.to_string().contains("acquire the lock for writing"), "{refused}");
    }
    let again = writer.upgrade().unwrap();
    assert_eq!(again.token(), writer.token());
    assert_eq!(store.acquires(), asked, "the store is not asked");
    let refused = permit.downgrade().await.unwrap_err();
    assert!(matches!(refused.error, LockError::Unsupported { store: "semaphore", .. }), "{refused}");
    assert_eq!(refused.guard.mode(), Mode::Permit);
}

#[tokio::test]
async fn the_longest_hold_ends_readers_permits_and_who_was_downgraded() {
    let locks = Locks::memory();
    let guards = [
        locks.read(&Sku("1")).max_hold(SHORT).acquire().await.unwrap(),
        locks.semaphore(&Sku("2"), 1).max_hold(SHORT).acquire().await.unwrap(),
        locks.write(&Sku("3")).max_hold(SHORT).acquire().await.unwrap().downgrade().await.unwrap(),
    ];
    // Well before the leases of 10 s would have ended.
    for (guard, sku) in guards.iter().zip([Sku("1"), Sku("2"), Sku("3")]) {
        let next = locks.write(&sku).wait(Duration::from_secs(5)).acquire().await.unwrap();
        assert_eq!(guard.loss(), Some(LossReason::Expired));
        assert!(next.token() > guard.token());
    }
    for guard in guards {
        assert_eq!(guard.release().await.unwrap(), Released::Lost);
    }
}

#[tokio::test]
async fn permits_out_of_range_are_refused_before_the_store_sees_them() {
    let (locks, store) = Faulty::locks();
    for given in [0, 65_536, u32::MAX] {
        let refused = locks.semaphore(&Sku("1"), given).acquire().await.unwrap_err();
        assert!(matches!(refused, LockError::Permits { given: told, max: 65_535 } if told == given), "{refused}");
    }
    assert_eq!(store.acquires(), 0);
    assert!(locks.semaphore(&Sku("1"), 65_535).acquire().await.is_ok());
}
