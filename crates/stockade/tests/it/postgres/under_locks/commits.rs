//! Commits of writers that have lost their lock, while others read under it from memory.

use std::time::Duration;

use stockade::{
    Cache, Guard, Locks, Redis,
    cache::Source,
    lock::{Force, LockError},
    postgres::Tx,
};
use stockade_testbed::{Fault, Proxy};
use tokio::{task::JoinSet, time::Instant};

use super::{behind_a_proxy, visit::Visit};
use crate::postgres::{
    Sku,
    cached::{World, online},
    quantity, until,
};

/// After this time every process has heard of a write, or serves nothing from memory.
const HEARD: Duration = Duration::from_secs(3);

/// A transaction that has set the quantity to 9, invalidates it in this cache, and has not committed.
async fn nine(tx: Tx, cache: &Cache<Sku, i32>) -> Tx {
    let mut tx = tx;
    sqlx::query("update stock set quantity = 9 where sku = 'a'").execute(&mut *tx).await.unwrap();
    tx.invalidate(cache, &Sku("a"));
    tx
}

/// A writer claims, writes and loses its lock by `loses`. It commits when another process has read under the lock, and
/// that process hears late of the write.
async fn no_old_read_after_the_commit_of_one_that<F: Future<Output = Option<Guard>>>(
    loses: impl FnOnce(Guard, Locks) -> F,
) {
    let (world, proxy, [writer, reader], [here, there]) = behind_a_proxy().await;
    let guard = here.write(&Sku("a")).acquire().await.unwrap();
    let tx = nine(guard.begin(&world.pool).await.unwrap(), &writer).await;
    let lost = loses(guard, there.clone()).await;
    let mut visit = Visit::begin(&there, &reader).await;
    assert_eq!((*visit.read().await, visit.read().await.info().source), (10, Source::Local));
    proxy.set(Fault::Delay(Duration::from_secs(1)));
    tx.commit().await.unwrap();
    assert_eq!(*visit.read().await, 9, "older than a write that was acknowledged");
    proxy.set(Fault::None);
    drop((visit, lost));
    world.end_behind(proxy).await;
}

#[tokio::test]
async fn no_read_is_older_than_a_commit_whose_lock_was_forced() {
    no_old_read_after_the_commit_of_one_that(async |guard: Guard, others: Locks| {
        others.force_release("stock:a", Force::Now).await.unwrap();
        until(async || !guard.is_held()).await;
        Some(guard)
    })
    .await;
}

#[tokio::test]
async fn no_read_is_older_than_a_commit_whose_lock_was_given_back() {
    no_old_read_after_the_commit_of_one_that(async |guard: Guard, _| {
        guard.release().await.unwrap();
        None
    })
    .await;
}

#[tokio::test]
async fn no_read_is_older_than_a_commit_of_a_writer_that_stood_still_beyond_its_lease() {
    let (world, proxy, [writer, reader], [_, there]) = behind_a_proxy().await;
    let way = Proxy::start(world.redis.addr()).await.unwrap();
    let redis = Redis::connect(&way.url_for(&world.redis.url())).await.unwrap();
    let here = world.redis.locks_of(Locks::builder(), &redis).await;
    let guard = here.write(&Sku("a")).lease(Duration::from_secs(1)).acquire().await.unwrap();
    let tx = nine(guard.begin(&world.pool).await.unwrap(), &writer).await;
    // To the store the writer stands still, since none of its commands arrive.
    way.set(Fault::Hole);
    let mut visit = Visit::begin(&there, &reader).await;
    assert_eq!((*visit.read().await, visit.read().await.info().source), (10, Source::Local));
    assert!(!guard.is_held());
    proxy.set(Fault::Delay(Duration::from_secs(1)));
    tx.commit().await.unwrap();
    assert_eq!(*visit.read().await, 9, "older than a write that was acknowledged");
    proxy.set(Fault::None);
    way.set(Fault::None);
    drop((visit, guard));
    world.end_behind((proxy, way)).await;
}

#[tokio::test]
async fn a_commit_waits_when_its_lock_was_held_for_too_long_or_one_of_several_is_lost() {
    let (world, proxy, [writer, _], [here, there]) = behind_a_proxy().await;
    let commit = async |tx: Tx| {
        let began = Instant::now();
        nine(tx, &writer).await.commit().await.unwrap();
        began.elapsed()
    };
    let guard = here.write(&Sku("a")).max_hold(Duration::from_millis(500)).acquire().await.unwrap();
    let tx = guard.begin(&world.pool).await.unwrap();
    until(async || !guard.is_held()).await;
    assert!(commit(tx).await >= HEARD);
    drop(guard);
    // The commit waits whichever of the locks is lost.
    for lost in ["stock:a", "stock:b"] {
        let guard = here.write_all(&[Sku("a"), Sku("b")]).acquire().await.unwrap();
        let (fences, tx) = (guard.fences(), guard.begin(&world.pool).await.unwrap());
        there.force_release(lost, Force::Now).await.unwrap();
        until(async || fences.loss().is_some()).await;
        assert!(commit(tx).await >= HEARD, "{lost}");
    }
    world.end_behind(proxy).await;
}

#[tokio::test]
async fn a_commit_that_keeps_its_lock_and_one_that_no_lock_serves_wait_for_nobody() {
    let (world, proxy, [writer, _], [here, there]) = behind_a_proxy().await;
    let plain = online(world.at(&world.redis.url()).await.name("plain")).await;
    let guard = here.write(&Sku("a")).acquire().await.unwrap();
    let began = Instant::now();
    nine(guard.begin(&world.pool).await.unwrap(), &writer).await.commit().await.unwrap();
    nine(Tx::unfenced(&world.pool).await.unwrap(), &writer).await.commit().await.unwrap();
    let tx = guard.begin(&world.pool).await.unwrap();
    there.force_release("stock:a", Force::Now).await.unwrap();
    until(async || !guard.is_held()).await;
    nine(tx, &plain).await.commit().await.unwrap();
    assert!(began.elapsed() < HEARD, "{:?}", began.elapsed());
    drop(guard);
    world.end_behind(proxy).await;
}

#[tokio::test]
async fn a_commit_that_is_dropped_while_it_waits_leaves_nothing_behind() {
    let (world, proxy, [writer, reader], [here, there]) = behind_a_proxy().await;
    let guard = here.write(&Sku("a")).acquire().await.unwrap();
    let tx = nine(guard.begin(&world.pool).await.unwrap(), &writer).await;
    guard.release().await.unwrap();
    let mut visit = Visit::begin(&there, &reader).await;
    visit.read().await;
    let mut commits = JoinSet::new();
    commits.spawn(tx.commit());
    until(async || reader.get(&Sku("a")).await.unwrap().value.as_deref() == Some(&9)).await;
    assert!(commits.try_join_next().is_none());
    commits.shutdown().await;
    until(async || world.pool.num_idle() == usize::try_from(world.pool.size()).unwrap()).await;
    drop(visit);
    drop(there.write(&Sku("a")).acquire().await.unwrap().downgrade().await.unwrap());
    world.end_behind(proxy).await;
}

/// A commit that is in the database, while the cache of its writer does not answer. `None` if it ended too soon.
async fn being_flushed(world: &World, tx: Tx) -> Option<JoinSet<()>> {
    let mut commits = JoinSet::new();
    commits.spawn(async move { tx.commit().await.unwrap() });
    until(async || quantity(&mut world.pool.acquire().await.unwrap()).await == 9).await;
    commits.try_join_next().is_none().then_some(commits)
}

#[tokio::test]
async fn a_lock_is_not_downgraded_before_what_was_written_under_it_is_dropped() {
    let (world, proxy, [_, writer], [here, _]) = behind_a_proxy().await;
    // The flush ends after a quarter of a second, so on a slow machine the test may have to try again.
    for attempt in 0.. {
        assert!(attempt < 10, "each commit had ended too soon");
        let ten = "update stock set quantity = 10 where sku = 'a'";
        sqlx::query(ten).execute(&world.pool).await.unwrap();
        let guard = here.write(&Sku("a")).acquire().await.unwrap();
        let tx = nine(guard.begin(&world.pool).await.unwrap(), &writer).await;
        proxy.set(Fault::Hole);
        let commits = being_flushed(&world, tx).await;
        let downgraded = guard.downgrade().await;
        proxy.set(Fault::None);
        let Some(mut commits) = commits else { continue };
        match downgraded {
            Err(refused) => {
                assert!(matches!(refused.error, LockError::Committing { .. }), "{refused}");
                commits.join_next().await.unwrap().unwrap();
                drop(refused.guard.downgrade().await.unwrap());
                break;
            }
            Ok(_) => {
                assert!(commits.try_join_next().is_some(), "others may read what is from before it");
            }
        }
    }
    world.end_behind(proxy).await;
}

#[tokio::test]
async fn a_lock_is_downgraded_after_a_commit_that_was_dropped_while_caches_were_told() {
    let (world, proxy, [_, writer], [here, _]) = behind_a_proxy().await;
    for attempt in 0.. {
        assert!(attempt < 10, "each commit had ended too soon, or its outcome was unknown");
        let ten = "update stock set quantity = 10 where sku = 'a'";
        sqlx::query(ten).execute(&world.pool).await.unwrap();
        let guard = here.write(&Sku("a")).acquire().await.unwrap();
        let tx = nine(guard.begin(&world.pool).await.unwrap(), &writer).await;
        proxy.set(Fault::Hole);
        let mut commits = being_flushed(&world, tx).await;
        if let Some(commits) = &mut commits {
            commits.shutdown().await;
        }
        let downgraded = guard.downgrade().await;
        proxy.set(Fault::None);
        match downgraded {
            Ok(_) if commits.is_some() => break,
            Ok(_) => {}
            // The commit was dropped after its effect and before its answer, so its outcome is unknown here.
            Err(refused) => {
                assert!(matches!(refused.error, LockError::Committing { .. }), "{}", refused.error);
            }
        }
    }
    world.end_behind(proxy).await;
}
