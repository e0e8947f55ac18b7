//! The state that each reader has alone, and the state that readers share.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use stockade::lock::{LossReason, Released};
use tokio::task::JoinSet;

use super::support::{LIMIT, SHORT, Sku, delegated, delegations, locks, read};
use crate::world::World;

#[tokio::test]
async fn the_longest_hold_of_one_ends_nothing_for_the_others() {
    let world = World::start().await;
    let locks = locks(&world).await;
    let token = delegated(&locks, "1").await;
    let brief = locks.read(&Sku("1")).wait(LIMIT).max_hold(SHORT).delegate().acquire().await.unwrap();
    let other = read(&locks, "1").await;
    assert_eq!((brief.token(), other.token()), (token, token));
    let lost = tokio::time::timeout(LIMIT, brief.lost()).await;
    assert_eq!(lost.ok(), Some(LossReason::Expired));
    assert_eq!(brief.release().await.unwrap(), Released::Lost);
    assert!(other.is_held());
    assert_eq!(read(&locks, "1").await.token(), token, "others enter");
    drop(other);
    world.end().await;
}

#[tokio::test]
async fn one_who_stays_for_too_long_keeps_nobody_waiting() {
    let world = World::start().await;
    let (reader, writer) = (locks(&world).await, locks(&world).await);
    delegated(&reader, "1").await;
    let stays = reader.read(&Sku("1")).wait(LIMIT).max_hold(SHORT).delegate().acquire().await.unwrap();
    // The guard of the reader that stays is not dropped meanwhile.
    drop(writer.write(&Sku("1")).wait(LIMIT).acquire().await.unwrap());
    assert_eq!(stays.loss(), Some(LossReason::Expired));
    drop(stays);
    world.end().await;
}

#[tokio::test]
async fn a_fence_that_outlives_its_guard_comes_to_an_end() {
    let world = World::start().await;
    let locks = locks(&world).await;
    delegated(&locks, "1").await;
    let guard = read(&locks, "1").await;
    let (fence, stays) = (guard.fence(), read(&locks, "1").await);
    drop(guard);
    let lost = tokio::time::timeout(LIMIT, fence.lost()).await.unwrap();
    assert_eq!((lost, stays.loss()), (LossReason::Released, None));
    assert_eq!((fence.is_held(), stays.is_held()), (false, true));
    drop(stays);
    world.end().await;
}

/// Readers and writers of two processes. Each of them notes when it is inside.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_enters_while_it_is_recalled_is_inside_before_the_writer_or_comes_after() {
    const WRITES: usize = 100;
    let world = World::start().await;
    // Below zero a writer is inside, above zero readers are.
    let inside = Arc::new(AtomicI64::new(0));
    let (mut readers, mut writers) = (JoinSet::new(), JoinSet::new());
    for _ in 0..2 {
        let locks = locks(&world).await;
        for _ in 0..8 {
            let (locks, inside) = (locks.clone(), Arc::clone(&inside));
            readers.spawn(async move {
                loop {
                    let guard = read(&locks, "1").await;
                    let before = inside.fetch_add(1, Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    assert!(!guard.is_held() || before >= 0, "beside a writer");
                    inside.fetch_sub(1, Ordering::SeqCst);
                    drop(guard);
                }
            });
        }
        let inside = Arc::clone(&inside);
        writers.spawn(async move {
            for _ in 0..WRITES {
                let guard = locks.write(&Sku("1")).wait(LIMIT).acquire().await.unwrap();
                let readers = inside.fetch_sub(1 << 32, Ordering::SeqCst);
                assert_eq!(readers, 0, "beside readers");
                tokio::task::yield_now().await;
                inside.fetch_add(1 << 32, Ordering::SeqCst);
                guard.release().await.unwrap();
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
    }
    writers.join_all().await;
    assert!(readers.try_join_next().is_none(), "a reader was beside a writer");
    readers.shutdown().await;
    assert!(delegations(&locks(&world).await, "1").await <= 2);
    world.end().await;
}
