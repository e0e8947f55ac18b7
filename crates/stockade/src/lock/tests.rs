use std::{borrow::Cow, time::Duration};

use super::{LockError, Locks, LossReason, Mode, Released, RunError};
use crate::Resource;

struct Sku(&'static str);

impl Resource for Sku {
    const KIND: &'static str = "stock";

    fn id(&self) -> Cow<'_, str> {
        Cow::Borrowed(self.0)
    }
}

const SHORT: Duration = Duration::from_millis(100);
const LIMIT: Duration = Duration::from_secs(5);

/// Polls until nothing is held or waited for.
async fn idle(locks: &Locks) {
    tokio::time::timeout(LIMIT, async {
        while !locks.list(10).await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await
    .expect("locks are left behind");
}

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
async fn renewal_keeps_a_lock_far_beyond_its_lease() {
    let locks = Locks::memory();
    let guard = locks.write(&Sku("1")).lease(SHORT).acquire().await.unwrap();
    assert!(matches!(locks.write(&Sku("1")).wait(SHORT * 5).acquire().await, Err(LockError::Timeout { .. })));
    assert!(guard.is_held());
    assert_eq!(guard.release().await.unwrap(), Released::Released);
}

#[tokio::test]
async fn a_hold_beyond_its_limit_is_told_and_hands_over() {
    let locks = Locks::memory();
    let guard = locks.write(&Sku("1")).max_hold(SHORT).acquire().await.unwrap();
    let next = locks.write(&Sku("1")).wait(LIMIT).acquire().await.unwrap();
    assert_eq!(guard.loss(), Some(LossReason::Expired));
    assert!(next.token() > guard.token());
    assert_eq!(guard.release().await.unwrap(), Released::Lost);
    assert!(next.is_held());
}

#[tokio::test]
async fn work_that_ends_gives_its_result_and_its_error() {
    let locks = Locks::memory();
    let sum = locks.write(&Sku("1")).run(async |_| Ok::<_, String>(2)).await;
    assert_eq!(sum.unwrap(), 2);
    let failed = locks.write(&Sku("1")).run(async |_| Err::<(), _>("broken")).await;
    assert!(matches!(failed, Err(RunError::Work("broken"))));
    idle(&locks).await;
}
