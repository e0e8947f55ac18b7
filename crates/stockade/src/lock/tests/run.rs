use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use super::support::{LIMIT, SHORT, Sku, idle, until};
use crate::lock::{Force, LockError, Locks, LossReason, RunError};

struct SetOnDrop(Arc<AtomicBool>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn work_that_ends_gives_its_result_or_its_error() {
    let locks = Locks::memory();
    let result = locks.write(&Sku("1")).run(async |fence| fence.token()).await;
    assert!(result.unwrap().get() > 0);
    let failed = locks.write(&Sku("1")).run(async |_| Err::<(), _>("broken")).await;
    assert_eq!(failed.unwrap(), Err("broken"));
    idle(&locks).await;
}

#[tokio::test]
async fn work_does_not_start_without_the_lock() {
    let locks = Locks::memory();
    let _held = locks.write(&Sku("1")).acquire().await.unwrap();
    let started = AtomicBool::new(false);
    let refused = locks.write(&Sku("1")).wait(SHORT).run(async |_| {
        started.store(true, Ordering::SeqCst);
    });
    assert!(matches!(refused.await, Err(RunError::Lock(LockError::Timeout { .. }))));
    assert!(!started.load(Ordering::SeqCst));
}

#[tokio::test]
async fn work_is_cancelled_when_its_lock_is_lost() {
    let locks = Locks::memory();
    let dropped = Arc::new(AtomicBool::new(false));
    let work = locks.write(&Sku("1")).run(async |_| {
        let _watched = SetOnDrop(Arc::clone(&dropped));
        locks.force_release("stock:1", Force::Now).await.unwrap();
        std::future::pending::<()>().await;
    });
    let lost = tokio::time::timeout(LIMIT, work).await.expect("the work goes on");
    assert!(matches!(lost, Err(RunError::Lost(LossReason::Forced))));
    assert!(dropped.load(Ordering::SeqCst));
    idle(&locks).await;
}

#[tokio::test]
async fn work_that_is_dropped_or_panics_releases() {
    let locks = Locks::memory();
    let work = locks.write(&Sku("1")).run(async |_| std::future::pending::<()>().await);
    assert!(tokio::time::timeout(SHORT, work).await.is_err());
    idle(&locks).await;

    let mut tasks = tokio::task::JoinSet::new();
    let request = locks.write(&Sku("1"));
    tasks.spawn(request.run(async |_| {
        if true {
            panic!("on purpose")
        }
    }));
    assert!(tasks.join_next().await.unwrap().is_err());
    until("the lock is free", async || locks.write(&Sku("1")).try_acquire().await.unwrap().is_some()).await;
}
