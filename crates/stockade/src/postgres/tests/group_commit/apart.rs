//! Changes that must not be made: alone they fail, and the others of their group are applied.

use sqlx::{query, query_scalar};

use super::{
    super::{Sku, database, until},
    world::{LONG, NO_ANSWER, World, claimed_by_another, patient, soon},
};
use crate::{
    Guard, Locks,
    lock::{Force, Mode},
    postgres::{CommitError, FenceError, WriteError},
};

/// The others of the group are applied, once each, and the change of c fails.
async fn only_c_fails(of_c: i32, prepare: impl AsyncFnOnce(&World, &Guard)) -> WriteError {
    let (_server, world) = World::start().await;
    let busy = world.busy().await;
    let [(c, answer_of_c), others @ ..] = world.ask_for_four(of_c).await;
    world.stand(4, 2).await;
    prepare(&world, &c).await;
    world.open();
    for (_guard, answer) in others {
        answer.await.unwrap().unwrap();
    }
    busy.end().await;
    let error = answer_of_c.await.unwrap().unwrap_err();
    assert_eq!(error.applied(), Some(false), "{error:?}");
    assert_eq!(world.quantities().await, [9, 9, 10, 9, 9, 9]);
    error
}

#[tokio::test]
async fn a_claim_that_is_refused_refuses_its_own_change_only() {
    let error = only_c_fails(1, async |world, _| assert!(claimed_by_another(&world.pool).await)).await;
    assert!(matches!(error, WriteError::Fence(FenceError::Rejected { .. })), "{error:?}");
}

#[tokio::test]
async fn a_change_that_breaks_a_constraint_fails_alone() {
    let error = only_c_fails(11, async |_, _| {}).await;
    assert!(matches!(error, WriteError::Statement(_)), "{error:?}");
}

#[tokio::test]
async fn a_change_without_an_answer_fails_alone() {
    let error = only_c_fails(NO_ANSWER, async |_, _| {}).await;
    assert!(matches!(error, WriteError::Statement(sqlx::Error::Protocol(_))), "{error:?}");
}

#[tokio::test]
async fn a_change_whose_lock_is_lost_while_it_waits_is_not_made() {
    let error = only_c_fails(1, async |world, c| {
        world.locks.force_release("stock:c", Force::Now).await.unwrap();
        until(async || !c.fence().is_held()).await;
    })
    .await;
    assert!(matches!(error, WriteError::Fence(FenceError::Lost(_))), "{error:?}");
}

#[tokio::test]
async fn a_row_that_somebody_holds_keeps_only_its_own_change_waiting() {
    let (server, _) = database().await;
    let world = World::of(patient(&server, 10).await, LONG).await;
    let busy = world.busy().await;
    let [(_c, of_c), others @ ..] = world.group().await;
    let mut holder = world.pool.begin().await.unwrap();
    query("select from stock where sku = 'c' for update").execute(&mut *holder).await.unwrap();
    world.open();
    for (_guard, answer) in others {
        soon(answer).await;
    }
    busy.end().await;
    assert_eq!(world.quantities().await, [9, 9, 10, 9, 9, 9]);
    holder.rollback().await.unwrap();
    of_c.await.unwrap().unwrap();
    assert_eq!(world.quantities().await, [9; 6]);
}

#[tokio::test]
async fn a_change_that_may_not_be_committed_any_more_keeps_no_other_from_it() {
    for how in ["answered", "downgraded"] {
        let (_server, world) = World::start().await;
        let [(c, of_c), (_d, of_d), (_e, of_e), (_f, of_f)] = world.group_under_way().await;
        let _reader = if how == "downgraded" {
            Some(c.downgrade().await.unwrap())
        } else {
            assert!(c.fence().ownership.commits.close());
            None
        };
        world.open();
        for answer in [of_d, of_e, of_f] {
            answer.await.unwrap().unwrap();
        }
        let error = of_c.await.unwrap().unwrap_err();
        assert_eq!(error.applied(), Some(false), "{how}: {error:?}");
        assert_eq!(world.quantities().await, [9, 9, 10, 9, 9, 9], "{how}");
    }
}

#[tokio::test]
async fn a_change_that_is_ruled_out_while_it_waits_does_not_split_its_group() {
    for nobody_waits in [false, true] {
        let (_server, world) = World::start().await;
        let busy = world.busy().await;
        let [(c, of_c), (_d, of_d), (_e, of_e), (_f, of_f)] = world.group().await;
        if nobody_waits {
            of_c.abort();
        } else {
            assert!(c.fence().ownership.commits.close(), "its request is answered as not applied");
        }
        let of_c = tokio::join!(of_c, async { world.open() }).0;
        match of_c {
            Ok(answer) => assert!(matches!(answer, Err(WriteError::Commit(CommitError::Closed))), "{answer:?}"),
            Err(ended) => assert!(nobody_waits && ended.is_cancelled(), "{ended:?}"),
        }
        let ids = [of_d.await.unwrap().unwrap(), of_e.await.unwrap().unwrap(), of_f.await.unwrap().unwrap()];
        assert!(ids[0] == ids[1] && ids[1] == ids[2], "{ids:?}");
        busy.end().await;
        assert_eq!(world.quantities().await, [9, 9, 10, 9, 9, 9]);
    }
}

#[tokio::test]
async fn a_lock_that_is_lost_before_the_commit_delays_its_own_answer_only() {
    let (_server, world) = World::start().await;
    let [(c, of_c), (_d, of_d), (_e, of_e), (_f, of_f)] = world.group_under_way().await;
    world.locks.force_release("stock:c", Force::Now).await.unwrap();
    until(async || !c.fence().is_held()).await;
    world.open();
    for answer in [of_d, of_e, of_f] {
        answer.await.unwrap().unwrap();
    }
    assert_eq!(world.quantities().await, [9; 6]);
    assert!(!of_c.is_finished(), "another process may still serve what was cached");
}

#[tokio::test]
async fn a_shared_lock_writes_nothing() {
    let (_server, world) = World::start().await;
    world.open();
    let reader = world.locks.read(&Sku("c")).acquire().await.unwrap();
    let error = world.groups.write(&reader.fence(), 1).await.unwrap_err();
    assert!(matches!(error, WriteError::Fence(FenceError::Shared(Mode::Read))), "{error:?}");
    assert_eq!(world.quantities().await, [10; 6]);
}

#[tokio::test]
async fn what_applies_nothing_leaves_no_claim() {
    let (_server, pool) = database().await;
    let locks = Locks::memory();
    let held = locks.write(&Sku("a")).acquire().await.unwrap();
    let mut tx = held.begin(&pool).await.unwrap();
    query("create table left_behind ()").execute(&mut *tx).await.unwrap();
    tx.apply_nothing();
    tx.commit().await.unwrap();
    let left: i64 = query_scalar(
        "select count(*) + (select count(*) from pg_class where relname = 'left_behind') from stockade.fence",
    )
    .fetch_one(&pool)
    .await
    .unwrap();
    assert_eq!(left, 0);
}
