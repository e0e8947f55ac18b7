use std::time::Duration;

use super::support::{Faulty, LEASE, SHORT, Sku, idle, until};
use crate::{
    clock::Instant,
    lock::{Force, LockError, Locks, LossReason, Mode, Released, Token},
};

#[tokio::test]
async fn a_guard_holds_until_it_is_released() {
    let locks = Locks::memory();
    let guard = locks.write(&Sku("1")).tag("first").acquire().await.unwrap();
    assert_eq!((guard.mode(), guard.key().as_str()), (Mode::Write, "stock:1"));
    assert!(guard.is_held() && guard.remaining() > Duration::from_secs(9));
    assert!(locks.write(&Sku("1")).try_acquire().await.unwrap().is_none());
    assert!(locks.read(&Sku("1")).try_acquire().await.unwrap().is_none());
    assert!(matches!(locks.write(&Sku("1")).wait(SHORT).acquire().await, Err(LockError::Timeout { .. })));
    assert_eq!(locks.inspect("stock:1").await.unwrap().holders[0].tag, "first");
    let token = guard.token();
    assert_eq!(guard.release().await.unwrap(), Released::Released);
    assert!(locks.write(&Sku("1")).acquire().await.unwrap().token() > token);
    idle(&locks).await;
}

#[tokio::test]
async fn guards_and_fences_show_what_is_locked_and_how() {
    let locks = Locks::memory();
    let guard = locks.write(&Sku("1")).acquire().await.unwrap();
    let fence = format!("Fence {{ key: \"stock:1\", mode: Write, token: {:?}, loss: None }}", guard.token());
    assert_eq!(format!("{:?}", guard.fence()), fence);
    assert_eq!(format!("{guard:?}"), format!("Guard({fence})"));
    let several = locks.write_all(&[Sku("2")]).acquire().await.unwrap();
    assert_eq!(format!("{several:?}"), format!("MultiGuard([{:?}])", several.fence_of(&Sku("2")).unwrap()));
    assert_eq!(format!("{locks:?}"), "Locks { shared: Shared { lease: 10s, max_waiters: 1000, .. } }");
}

#[test]
fn a_guard_dropped_outside_of_a_runtime_releases() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let locks = Locks::memory();
    let guard = runtime.block_on(locks.write(&Sku("1")).acquire()).unwrap();
    drop(guard);
    assert!(runtime.block_on(locks.write(&Sku("1")).try_acquire()).unwrap().is_some());
}

#[tokio::test]
async fn the_lock_goes_with_the_last_guard_of_an_ownership() {
    let locks = Locks::memory();
    let outer = locks.write(&Sku("1")).acquire().await.unwrap();
    let inner = outer.reenter();
    assert_eq!(inner.token(), outer.token());
    assert_eq!(outer.release().await.unwrap(), Released::StillHeld);
    assert!(locks.write(&Sku("1")).try_acquire().await.unwrap().is_none());
    assert_eq!(inner.release().await.unwrap(), Released::Released);
    assert!(locks.write(&Sku("1")).try_acquire().await.unwrap().is_some());
}

#[tokio::test]
async fn a_hold_beyond_its_limit_is_told_and_hands_over() {
    let locks = Locks::memory();
    let guard = locks.write(&Sku("1")).max_hold(SHORT).acquire().await.unwrap();
    // Well before the lease of 10 s would have ended.
    let next = locks.write(&Sku("1")).wait(Duration::from_secs(5)).acquire().await.unwrap();
    assert_eq!(guard.loss(), Some(LossReason::Expired));
    assert!(next.token() > guard.token());
    assert!(next.fence().is_held() && !guard.fence().is_held());
    assert_eq!(guard.release().await.unwrap(), Released::Lost);
    assert!(next.is_held());
}

#[tokio::test]
async fn a_guard_that_is_dropped_releases() {
    let locks = Locks::memory();
    // The lease is so long that only a release can free the lock during the test.
    drop(locks.write(&Sku("1")).lease(Duration::from_secs(300)).acquire().await.unwrap());
    idle(&locks).await;
}

#[tokio::test]
async fn a_guard_knows_that_its_lease_is_over_although_nothing_ran() {
    let locks = Locks::memory();
    let guard = locks.write(&Sku("1")).lease(SHORT).acquire().await.unwrap();
    let until = Instant::now() + SHORT * 2;
    // No task runs meanwhile: neither the renewal nor the task that reports the loss.
    while !until.remaining().is_zero() {
        std::hint::spin_loop();
    }
    assert_eq!((guard.loss(), guard.remaining()), (Some(LossReason::Expired), Duration::ZERO));
}

#[tokio::test]
async fn a_release_that_is_dropped_on_its_way_still_releases() {
    let (locks, store) = Faulty::locks();
    store.hang_releases(true);
    let guard = locks.write(&Sku("1")).acquire().await.unwrap();
    assert!(tokio::time::timeout(SHORT, guard.release()).await.is_err());
    idle(&locks).await;
    store.hang_releases(false);
    let guard = locks.write(&Sku("1")).acquire().await.unwrap();
    // A release that is dropped before its first poll.
    drop(guard.release());
    idle(&locks).await;
}

#[tokio::test]
async fn a_guard_lives_on_without_its_locks() {
    let (locks, store) = Faulty::locks();
    let other = Locks::builder().on(store);
    let guard = locks.write(&Sku("1")).lease(LEASE).acquire().await.unwrap();
    drop(locks);
    assert!(matches!(other.write(&Sku("1")).wait(LEASE * 2).acquire().await, Err(LockError::Timeout { .. })));
    assert!(guard.is_held());
}

#[tokio::test]
async fn a_forced_release_is_told_through_guard_and_fence() {
    let locks = Locks::memory();
    let guard = locks.write(&Sku("1")).acquire().await.unwrap();
    let fence = guard.fence();
    let forced = locks.force_release("stock:1", Force::Now).await.unwrap();
    assert_eq!((forced.holders, fence.lost().await), (1, LossReason::Forced));
    assert_eq!((guard.loss(), guard.remaining()), (Some(LossReason::Forced), Duration::ZERO));
    assert!(!guard.is_held());
    assert_eq!(guard.release().await.unwrap(), Released::Lost);
    assert!(locks.write(&Sku("1")).acquire().await.unwrap().token() > forced.token);
}

#[tokio::test]
async fn a_bad_request_is_refused_before_the_store_sees_it() {
    let (locks, store) = Faulty::locks();
    let sku = Sku("1");
    let refused = [
        locks.write(&Sku("")).acquire().await,
        locks.write(&sku).tag("x".repeat(65)).acquire().await,
        locks.write(&sku).tag("a\nb").acquire().await,
        locks.write(&sku).lease(Duration::from_millis(99)).acquire().await,
        locks.write(&sku).lease(Duration::from_secs(301)).acquire().await,
        locks.write(&sku).max_hold(Duration::ZERO).acquire().await,
    ];
    let errors = refused.map(Result::unwrap_err);
    assert!(matches!(
        errors,
        [
            LockError::Key(_),
            LockError::Tag,
            LockError::Tag,
            LockError::Duration { what: "lease", .. },
            LockError::Duration { what: "lease", .. },
            LockError::Duration { what: "max_hold", .. },
        ]
    ));
    assert_eq!(store.acquires(), 0);
    let longest = locks.write(&sku).tag("x".repeat(64)).lease(Duration::from_secs(300)).acquire().await;
    assert!(longest.is_ok());
}

#[tokio::test]
async fn a_fence_raises_the_tokens_of_its_resource() {
    let locks = Locks::memory();
    let guard = locks.write(&Sku("1")).acquire().await.unwrap();
    let seen = Token::new(guard.token().get() + 86_400_000_000).unwrap();
    guard.fence().seed(seen).await.unwrap();
    drop(guard);
    assert!(locks.write(&Sku("1")).acquire().await.unwrap().token() > seen);
}

#[tokio::test]
async fn a_reader_knows_since_when_it_keeps_writers_out() {
    let locks = Locks::memory();
    let asked = Instant::now();
    let reader = locks.read(&Sku("1")).acquire().await.unwrap();
    let fence = reader.fence();
    let since = fence.ownership.shared_since().unwrap();
    assert!(asked <= since && since <= Instant::now());
    assert_eq!(fence.ownership.shared_since(), Some(since));
    // A handed-over lock counts as shared since the grant, not since the request.
    let waiting = locks.write(&Sku("1")).acquire();
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(waiting);
    until("it waits", async || locks.inspect("stock:1").await.unwrap().waiting == 1).await;
    tasks.spawn(locks.read(&Sku("1")).acquire());
    until("both wait", async || locks.inspect("stock:1").await.unwrap().waiting == 2).await;
    // A fence outlives its guard.
    reader.release().await.unwrap();
    assert_eq!(fence.ownership.shared_since(), None);
    let writer = tasks.join_next().await.unwrap().unwrap().unwrap();
    assert_eq!(writer.fence().ownership.shared_since(), None);
    let written = Instant::now();
    writer.release().await.unwrap();
    let reader = tasks.join_next().await.unwrap().unwrap().unwrap();
    assert!(reader.fence().ownership.shared_since().unwrap() > written);
    locks.force_release("stock:1", Force::Now).await.unwrap();
    assert_eq!(reader.fence().ownership.shared_since(), None);
}

#[tokio::test]
async fn a_downgraded_guard_keeps_writers_out_as_a_reader_since_it_is_one() {
    let locks = Locks::memory();
    let writer = locks.write(&Sku("1")).acquire().await.unwrap();
    let written = Instant::now();
    let reader = writer.downgrade().await.unwrap();
    let since = reader.fence().ownership.shared_since().unwrap();
    assert!(since > written);
    // The guard is a reader already, so the downgrade only renews it.
    let reader = reader.downgrade().await.unwrap();
    assert_eq!(reader.fence().ownership.shared_since(), Some(since));
}

#[tokio::test]
async fn a_fence_knows_that_its_guard_gave_the_lock_back() {
    let locks = Locks::memory();
    let guard = locks.write(&Sku("1")).acquire().await.unwrap();
    let (fence, asked) = (guard.fence(), guard.fence());
    assert!(fence.is_held());
    let mut told = tokio::task::JoinSet::new();
    told.spawn(async move { asked.lost().await });
    // It waits by then.
    tokio::task::yield_now().await;
    drop(guard);
    assert_eq!((fence.is_held(), fence.loss()), (false, Some(LossReason::Released)));
    assert_eq!((fence.remaining(), fence.lost().await), (Duration::ZERO, LossReason::Released));
    let told = tokio::time::timeout(Duration::from_secs(5), told.join_next()).await.expect("not before its lease ends");
    assert_eq!(told.unwrap().unwrap(), LossReason::Released);
    // Its lease would be over, and the store says that it does not know it.
    let guard = locks.write(&Sku("1")).lease(LEASE).acquire().await.unwrap();
    let fence = guard.fence();
    drop(guard);
    until("the lease is over", async || fence.ownership.loss() == Some(LossReason::Expired)).await;
    fence.ownership.lose(LossReason::Stolen);
    assert_eq!(fence.loss(), Some(LossReason::Released));

    let several = locks.write_all(&[Sku("1"), Sku("2")]).acquire().await.unwrap();
    let fences = several.fences();
    drop(several);
    assert_eq!((fences.is_held(), fences.loss()), (false, Some(LossReason::Released)));
    let several = locks.write_all(&[Sku("1"), Sku("2")]).acquire().await.unwrap();
    let fences = several.fences();
    locks.force_release("stock:2", Force::Now).await.unwrap();
    drop(several);
    assert_eq!(fences.loss(), Some(LossReason::Forced));
}
