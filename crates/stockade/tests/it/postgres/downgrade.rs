//! A commit in one task, and a downgrade of its lock in another task or in the process that adopts the lock. Nobody may
//! read in between.

use stockade::{
    Guard,
    lock::{GuardError, LockError, Mode, Released},
    postgres::{CommitError, FenceError, Tx},
};
use tokio::task::JoinSet;

use super::{
    Sku, blocked,
    cached::{World, online, release},
    claim, quantity, until,
};

/// A transaction that has set the quantity to 4 and has not committed. It may wait longer for locks than others.
async fn write(world: &World, writer: &Guard) -> Tx {
    let mut tx = writer.begin(&world.pool).await.unwrap();
    sqlx::query("set local lock_timeout = '20s'").execute(&mut *tx).await.unwrap();
    sqlx::query("update stock set quantity = 4").execute(&mut *tx).await.unwrap();
    tx
}

fn commit(tx: Tx) -> JoinSet<Result<(), CommitError>> {
    let mut commits = JoinSet::new();
    commits.spawn(tx.commit());
    commits
}

/// A commit that has arrived at the database, where commits are held.
async fn held_commit(world: &World, writer: &Guard) -> JoinSet<Result<(), CommitError>> {
    let commits = commit(write(world, writer).await);
    world.committing().await;
    commits
}

async fn refused(writer: Guard) -> Guard {
    still_writing(writer.downgrade().await.unwrap_err())
}

fn still_writing(refused: GuardError) -> Guard {
    assert!(matches!(refused.error, LockError::Committing { .. }), "{refused}");
    assert_eq!((refused.guard.mode(), refused.guard.fence().mode()), (Mode::Write, Mode::Write));
    refused.guard
}

#[tokio::test]
async fn nobody_reads_before_a_commit_under_the_lock_is_answered() {
    let world = World::start().await;
    let (here, there) = (world.redis.locks().await, world.redis.locks().await);
    let holder = world.hold_commits().await;
    let writer = here.write(&Sku("a")).acquire().await.unwrap();
    let mut commits = held_commit(&world, &writer).await;
    let writer = refused(writer).await;
    assert!(there.read(&Sku("a")).try_acquire().await.unwrap().is_none());
    release(holder).await;
    commits.join_next().await.unwrap().unwrap().unwrap();

    let reader = writer.downgrade().await.unwrap();
    let beside = there.read(&Sku("a")).acquire().await.unwrap();
    let mut tx = beside.begin(&world.pool).await.unwrap();
    assert_eq!(quantity(&mut tx).await, 4);
    tx.rollback().await.unwrap();
    drop((reader, beside));
    world.end().await;
}

#[tokio::test]
async fn a_lock_under_which_a_commit_was_never_answered_is_not_shared() {
    let world = World::start().await;
    let here = world.redis.locks().await;
    let holder = world.hold_commits().await;

    let writer = here.write(&Sku("a")).acquire().await.unwrap();
    let mut commits = held_commit(&world, &writer).await;
    sqlx::query("select pg_terminate_backend(pid, 5000) from pg_stat_activity where wait_event = 'advisory'")
        .execute(&world.pool)
        .await
        .unwrap();
    let unknown = commits.join_next().await.unwrap().unwrap().unwrap_err();
    assert!(matches!(unknown, CommitError::Unknown(_)), "{unknown:?}");
    assert_eq!(unknown.applied(), None);
    assert_eq!(refused(writer).await.release().await.unwrap(), Released::Released);

    let writer = here.write(&Sku("a")).acquire().await.unwrap();
    let mut commits = held_commit(&world, &writer).await;
    commits.shutdown().await;
    let writer = refused(writer).await;
    // Another transaction under the guard has to wait for the commit.
    assert!(matches!(writer.begin(&world.pool).await, Err(FenceError::Busy(_))));
    // The commit is applied, although nobody waits for its answer.
    release(holder).await;
    until(async || quantity(&mut world.pool.acquire().await.unwrap()).await == 4).await;
    writer.begin(&world.pool).await.unwrap().rollback().await.unwrap();
    assert_eq!(refused(writer).await.release().await.unwrap(), Released::Released);
    world.end().await;
}

#[tokio::test]
async fn a_downgrade_on_the_way_to_a_commit_refuses_it() {
    let world = World::start().await;
    let here = world.redis.locks().await;
    let eventual = online(world.at(&world.redis.url()).await).await;
    let strict = online(world.at(&world.redis.url()).await.name("strict").strict(&world.pool)).await;
    for cache in [&strict, &eventual] {
        let writer = here.write(&Sku("a")).acquire().await.unwrap();
        let mut tx = write(&world, &writer).await;
        tx.invalidate(cache, &Sku("a"));
        // The transaction has been told to commit, and waits to write its invalidations into the outbox.
        let mut busy = world.pool.begin().await.unwrap();
        sqlx::query("lock table stockade.outbox in access exclusive mode").execute(&mut *busy).await.unwrap();
        let mut commits = commit(tx);
        blocked(&world.pool, 1).await;
        let released = if std::ptr::eq(cache, &strict) {
            // With a strict cache, COMMIT is sent after the cache was told, so the downgrade can still refuse it.
            let reader = writer.downgrade().await.unwrap();
            busy.rollback().await.unwrap();
            let refused = commits.join_next().await.unwrap().unwrap().unwrap_err();
            assert!(matches!(refused, CommitError::Downgraded), "{refused:?}");
            assert_eq!(quantity(&mut world.pool.acquire().await.unwrap()).await, 10);
            reader.release().await.unwrap()
        } else {
            // With an eventual cache, COMMIT is in the same message as the outbox rows, so the downgrade is refused.
            let writer = refused(writer).await;
            busy.rollback().await.unwrap();
            commits.join_next().await.unwrap().unwrap().unwrap();
            assert_eq!(quantity(&mut world.pool.acquire().await.unwrap()).await, 4);
            writer.release().await.unwrap()
        };
        assert_eq!(released, Released::Released);
    }
    drop((eventual, strict));
    world.end().await;
}

#[tokio::test]
async fn a_downgrade_on_the_way_to_a_begin_refuses_the_commit() {
    let world = World::patient().await;
    let (here, there) = (world.redis.locks().await, world.redis.locks().await);
    let writer = here.write(&Sku("a")).acquire().await.unwrap();
    let mut busy = world.pool.begin().await.unwrap();
    assert!(claim(&mut busy, "stock:a", 1, "earlier").await);
    let (fence, pool) = (writer.fence(), world.pool.clone());
    let mut begins = JoinSet::new();
    begins.spawn(async move { fence.begin(&pool).await });
    blocked(&world.pool, 1).await;
    let reader = writer.downgrade().await.unwrap();
    let beside = there.read(&Sku("a")).acquire().await.unwrap();
    busy.commit().await.unwrap();
    let mut tx = begins.join_next().await.unwrap().unwrap().unwrap();
    sqlx::query("update stock set quantity = 4").execute(&mut *tx).await.unwrap();
    let refused = tx.commit().await.unwrap_err();
    assert!(matches!(refused, CommitError::Downgraded), "{refused:?}");
    assert_eq!(quantity(&mut world.pool.acquire().await.unwrap()).await, 10);
    drop((reader, beside));
    world.end().await;
}

#[tokio::test]
async fn a_lock_is_not_handed_over_beside_a_commit_and_none_follows() {
    let world = World::start().await;
    let (here, there) = (world.redis.locks().await, world.redis.locks().await);
    let holder = world.hold_commits().await;
    let writer = here.write(&Sku("a")).acquire().await.unwrap();
    let mut commits = held_commit(&world, &writer).await;
    let writer = still_writing(writer.hand_over().unwrap_err());
    release(holder).await;
    commits.join_next().await.unwrap().unwrap().unwrap();

    // This transaction begins before the handover, and is told to commit when others may read.
    let mut late = write(&world, &writer).await;
    sqlx::query("update stock set quantity = 3").execute(&mut *late).await.unwrap();
    let adopted = there.adopt(writer.hand_over().unwrap()).await.unwrap();
    let reader = adopted.downgrade().await.unwrap();
    let beside = here.read(&Sku("a")).acquire().await.unwrap();
    let refused = late.commit().await.unwrap_err();
    assert!(matches!(refused, CommitError::Downgraded), "{refused:?}");
    assert_eq!(quantity(&mut world.pool.acquire().await.unwrap()).await, 4);
    drop((reader, beside));
    world.end().await;
}
