use std::time::Duration;

use tokio::runtime::Handle;

use super::support::{LEASE, LIMIT, Sku, until};
use crate::{
    clock::Instant,
    lock::{LockError, Locks, LossReason},
};

#[tokio::test]
async fn a_shutdown_refuses_those_who_come_and_those_who_wait() {
    let locks = Locks::memory();
    let guard = locks.write(&Sku("1")).acquire().await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(locks.write(&Sku("1")).acquire());
    until("it waits", async || locks.inspect("stock:1").await.unwrap().waiting == 1).await;
    let stopping = locks.clone();
    let mut shutdown = tokio::task::JoinSet::new();
    shutdown.spawn(async move { stopping.shutdown(LIMIT).await });
    let waiter = tasks.join_next().await.unwrap().unwrap();
    assert!(matches!(waiter, Err(LockError::ShuttingDown)));
    assert!(matches!(locks.write(&Sku("2")).acquire().await, Err(LockError::ShuttingDown)));
    assert!(matches!(locks.write(&Sku("2")).try_acquire().await, Err(LockError::ShuttingDown)));
    assert!(guard.is_held());
    assert!(shutdown.try_join_next().is_none(), "a guard still lives");
    drop(guard);
    shutdown.join_next().await.unwrap().unwrap();
}

#[tokio::test]
async fn a_shutdown_renews_until_its_limit_and_then_releases() {
    let locks = Locks::memory();
    let guard = locks.write(&Sku("1")).lease(LEASE).acquire().await.unwrap();
    let fence = guard.fence();
    let since = Instant::now();
    let limit = LEASE * 2;
    let mut told = tokio::task::JoinSet::new();
    told.spawn(async move { (fence.lost().await, since.elapsed()) });
    locks.shutdown(limit).await;
    let (reason, after) = told.join_next().await.unwrap().unwrap();
    assert_eq!(reason, LossReason::Forced);
    assert!(after >= limit, "lost after {after:?} already: renewal stopped first");
    assert!(locks.list(10).await.unwrap().is_empty());
    assert!(!guard.is_held());
    drop(guard);
    until("no task", async || Handle::current().metrics().num_alive_tasks() == 0).await;
}

#[tokio::test]
async fn an_idle_shutdown_is_immediate_and_may_be_repeated() {
    let locks = Locks::memory();
    drop(locks.write(&Sku("1")).acquire().await.unwrap());
    let since = Instant::now();
    locks.shutdown(LIMIT).await;
    locks.shutdown(LIMIT).await;
    assert!(since.elapsed() < Duration::from_secs(2));
    assert_eq!(Handle::current().metrics().num_alive_tasks(), 0);
}
