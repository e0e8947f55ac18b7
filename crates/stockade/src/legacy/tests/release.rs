//! Which locks a release deletes, and which it leaves alone.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use rand::Rng;
use tokio::{task::JoinSet, time::timeout};

use super::support::{KEY, LIMIT, World, lock};
use crate::{
    legacy::{SetnxError, Unit, core::RELEASE},
    lock::Released,
};

#[tokio::test]
async fn a_late_holder_does_not_free_its_successor() {
    let world = World::start().await;
    let (one, two) = (world.locks().await, world.locks().await);
    let late = lock(&one).lease(Duration::from_secs(1)).acquire().await.unwrap();
    let dropped_late = one.lock("other").lease(Duration::from_secs(1)).acquire().await.unwrap();
    let successor = lock(&two).acquire().await.unwrap();
    let other = two.lock("other").lease(Duration::from_secs(60)).acquire().await.unwrap();
    assert!(!late.is_held() && late.remaining().is_zero());
    let before = world.value().await;
    assert_eq!(late.release().await.unwrap(), Released::Lost);
    drop(dropped_late);
    one.shutdown(LIMIT).await;
    assert_eq!((world.value().await, world.command(&["EXISTS", "other"]).await), (before, "1".to_owned()));
    assert_eq!(successor.release().await.unwrap(), Released::Released);
    assert_eq!(other.release().await.unwrap(), Released::Released);
}

#[tokio::test]
async fn a_release_that_arrives_late_leaves_a_successor_alone() {
    let world = World::start().await;
    let now = Unit::Seconds.now();
    // The holder's time, the value of the key by now, whether it may be deleted, and why. The lease was ten seconds.
    let cases = [
        (now + 5, (now + 5).to_string(), true, "its own"),
        (now - 5, (now - 5).to_string(), true, "its own, over, and nobody came"),
        (now + 5, (now + 7).to_string(), true, "moved by one who lost a race"),
        (now - 5, (now + 4).to_string(), false, "over, so it may be a successor with a shorter lease"),
        (now + 5, (now + 15).to_string(), false, "a successor's, by a clock that is ahead"),
        (now + 5, "text".to_owned(), false, "something else"),
    ];
    for (mine, there, deleted, why) in cases {
        world.command(&["SET", KEY, &there]).await;
        let [mine, later] = [mine, mine + 10].map(|time| time.to_string());
        let reply = world.command(&["EVAL", RELEASE.text, "1", KEY, &mine, &later, "1000000"]).await;
        assert_eq!(reply == "1", deleted, "{why}");
        assert_eq!(world.value().await.is_empty(), deleted, "{why}");
    }
    world.command(&["DEL", KEY]).await;
    assert_eq!(world.command(&["EVAL", RELEASE.text, "1", KEY, "1", "2", "1000000"]).await, "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attempts_dropped_at_any_point_leave_nothing() {
    let world = World::start().await;
    let granted = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..4 {
        let (locks, granted) = (world.locks().await, Arc::clone(&granted));
        tasks.spawn(async move {
            for _ in 0..50 {
                let limit = Duration::from_micros(rand::rng().random_range(0..3_000));
                match timeout(limit, lock(&locks).wait(limit).acquire()).await {
                    Ok(Ok(guard)) => {
                        granted.fetch_add(1, Ordering::Relaxed);
                        if rand::rng().random_bool(0.5) {
                            let _ = timeout(limit / 8, guard.release()).await;
                        }
                    }
                    Ok(Err(SetnxError::Timeout { .. })) | Err(_) => {}
                    Ok(Err(error)) => panic!("{error}"),
                }
            }
        });
    }
    tasks.join_all().await;
    assert!(granted.load(Ordering::Relaxed) > 0, "nothing was ever granted, so nothing was tested");
    // The wait ends long before any lease does, so only releases can free the lock.
    world.until_free().await;
}

#[test]
fn a_guard_dropped_outside_of_a_runtime_releases() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let world = runtime.block_on(World::start());
    let locks = runtime.block_on(world.locks());
    let guard = runtime.block_on(lock(&locks).acquire()).unwrap();
    drop(guard);
    runtime.block_on(world.until_free());
}
