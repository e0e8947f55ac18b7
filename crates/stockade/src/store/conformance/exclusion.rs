use std::sync::{
    Arc,
    atomic::{AtomicI64, AtomicU64, Ordering},
};

use super::fixture::{Fixture, key, once, read, write};
use crate::store::{LockError, Mode};

pub(crate) async fn writers_exclude_one_another(fixture: &Fixture) {
    const TASKS: usize = 16;
    const ROUNDS: u64 = 25;
    let key = key("counter");
    let counter = Arc::new(AtomicU64::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..TASKS {
        let (store, key, counter) = (Arc::clone(fixture.store(n)), key.clone(), Arc::clone(&counter));
        tasks.spawn(async move {
            for _ in 0..ROUNDS {
                let ownership = store.acquire(write(&key)).await.expect("not granted");
                // Not one atomic step: an update in between is lost, and the sum is too low.
                let seen = counter.load(Ordering::Relaxed);
                tokio::task::yield_now().await;
                counter.store(seen + 1, Ordering::Relaxed);
                store.release(&ownership).await.expect("not released");
            }
        });
    }
    tasks.join_all().await;
    assert_eq!(counter.load(Ordering::Relaxed), ROUNDS * TASKS as u64);
}

pub(crate) async fn readers_share_and_writers_exclude(fixture: &Fixture) {
    let shared = key("shared");
    let first = fixture.take(0, read(&shared)).await;
    let second = fixture.take(1, read(&shared)).await;
    assert!(!fixture.is_free(&shared, Mode::Write).await);
    fixture.release(0, &first).await;
    assert!(!fixture.is_free(&shared, Mode::Write).await, "one reader is left");
    assert!(fixture.is_free(&shared, Mode::Read).await);
    fixture.release(1, &second).await;
    let writer = fixture.take(0, once(&shared, Mode::Write)).await;
    assert!(!fixture.is_free(&shared, Mode::Read).await);
    fixture.release(0, &writer).await;

    let mixed = key("mixed");
    let inside = Arc::new(AtomicI64::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..12 {
        let (store, key, inside) = (Arc::clone(fixture.store(n)), mixed.clone(), Arc::clone(&inside));
        tasks.spawn(async move {
            for round in 0..20 {
                let exclusive = (n + round) % 3 == 0;
                let ownership =
                    store.acquire(if exclusive { write(&key) } else { read(&key) }).await.expect("not granted");
                // A writer weighs more than all readers together.
                let weight = if exclusive { 1000 } else { 1 };
                let before = inside.fetch_add(weight, Ordering::SeqCst);
                let alone = before == 0;
                assert!(alone || (!exclusive && before < 1000), "{before} were inside");
                tokio::task::yield_now().await;
                inside.fetch_sub(weight, Ordering::SeqCst);
                store.release(&ownership).await.expect("not released");
            }
        });
    }
    tasks.join_all().await;
}

pub(crate) async fn resources_do_not_hinder_one_another(fixture: &Fixture) {
    let held = fixture.take(0, write(&key("one"))).await;
    let other = fixture.take(1, once(&key("two"), Mode::Write)).await;
    assert_eq!(fixture.store(0).list(10).await.unwrap().len(), 2);
    assert_eq!(fixture.store(0).list(1).await.unwrap().len(), 1);
    fixture.release(1, &other).await;
    fixture.release(0, &held).await;
}

pub(crate) async fn a_store_that_shut_down_refuses(fixture: &Fixture) {
    let held = fixture.take(0, write(&key("last"))).await;
    fixture.release(0, &held).await;
    fixture.store(0).shutdown(std::time::Duration::from_secs(1)).await;
    let refused = fixture.store(0).acquire(once(&key("late"), Mode::Write)).await;
    assert!(matches!(refused, Err(LockError::ShuttingDown)), "{refused:?}");
}
