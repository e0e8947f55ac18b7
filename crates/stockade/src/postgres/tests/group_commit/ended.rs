//! Groups whose transaction ends otherwise than by an answer to COMMIT.

use std::{sync::atomic::Ordering, time::Duration};

use sqlx::postgres::PgPoolOptions;
use tokio::time::timeout;

use super::{
    super::database,
    world::{LONG, LOSES_ITS_TRANSACTION, World, patient},
};
use crate::postgres::{CommitError, FenceError, Timeouts, WriteError, group_commit::Limits, options};

#[tokio::test]
async fn a_group_that_lost_its_transaction_is_not_made_again() {
    let (_server, world) = World::start().await;
    let busy = world.busy().await;
    let group = world.ask_for_four(LOSES_ITS_TRANSACTION).await;
    world.stand(4, 2).await;
    world.open();
    for (_guard, answer) in group {
        let error = answer.await.unwrap().unwrap_err();
        assert!(matches!(error, WriteError::Commit(CommitError::Ended)), "{error:?}");
    }
    busy.end().await;
}

#[tokio::test]
async fn a_panic_is_the_end_of_its_group_and_of_no_other() {
    let (_server, world) = World::start().await;
    let group = world.group_under_way().await;
    world.take.panics.store(true, Ordering::Release);
    world.open();
    for (_guard, answer) in group {
        let error = answer.await.unwrap().unwrap_err();
        assert!(matches!(error, WriteError::Commit(CommitError::Unknown(sqlx::Error::WorkerCrashed))), "{error:?}");
    }
    world.stand(0, 0).await;
    let c = world.lock("c").await;
    world.groups.write(&c.fence(), 1).await.unwrap();
    assert_eq!(world.quantities().await, [9, 9, 9, 10, 10, 10]);
}

#[tokio::test]
async fn a_group_without_a_connection_fails_at_once() {
    let (_server, world) = World::start().await;
    let busy = world.busy().await;
    let group = world.group().await;
    tokio::join!(world.pool.close(), async { world.open() });
    busy.end().await;
    for (_guard, answer) in group {
        let error = answer.await.unwrap().unwrap_err();
        assert!(matches!(error, WriteError::Fence(FenceError::Sqlx(sqlx::Error::PoolClosed))), "{error:?}");
    }
    world.stand(0, 0).await;
}

#[tokio::test]
async fn a_group_under_way_does_not_wait_in_turn_for_a_database_that_has_gone() {
    let (server, _) = database().await;
    let options = options(server.url().parse().unwrap(), &Timeouts::default());
    let pool = PgPoolOptions::new().acquire_timeout(Duration::from_secs(1)).connect_with(options).await.unwrap();
    let world = World::of(pool, LONG).await;
    let busy = world.busy().await;
    let mut group = Vec::new();
    for number in 1..=40 {
        let guard = world.lock(format!("many-{number}").leak()).await;
        group.push((world.ask(&guard, 1), guard));
    }
    world.stand(40, 2).await;
    world.take.gate.add_permits(2);
    busy.end().await;
    world.begun(3).await;
    server.kill().await.unwrap();
    world.open();
    let answers = async {
        for (answer, _guard) in group {
            let error = answer.await.unwrap().unwrap_err();
            assert_eq!(error.applied(), Some(false), "{error:?}");
        }
    };
    timeout(Duration::from_secs(4), answers).await.expect("five turns take five seconds");
}

#[tokio::test]
async fn nobody_knows_of_any_change_of_a_group_whose_commit_is_not_answered() {
    let (_server, world) = World::start().await;
    let group = world.group_under_way().await;
    sqlx::raw_sql(
        "create function cut() returns trigger language plpgsql as
             $$ begin perform pg_terminate_backend(pg_backend_pid()); return null; end $$;
         create constraint trigger cut after update on stock deferrable initially deferred
         for each row execute function cut()",
    )
    .execute(&world.pool)
    .await
    .unwrap();
    world.open();
    for (guard, answer) in group {
        let error = answer.await.unwrap().unwrap_err();
        assert!(matches!(error, WriteError::Commit(CommitError::Unknown(_))), "{error:?}");
        assert!(guard.downgrade().await.is_err(), "the commit may still be applied, and a reader would not see it");
    }
}

#[tokio::test]
async fn a_database_that_vanishes_keeps_nobody_waiting_for_ever() {
    let (server, _) = database().await;
    let limits = Limits { step: Duration::from_secs(1), ..LONG };
    let world = World::of(patient(&server, 4).await, limits).await;
    let (c, d) = (world.lock("c").await, world.lock("d").await);
    let begun = world.ask(&c, 1);
    world.begun(1).await;
    server.pause().unwrap();
    let begins = world.ask(&d, 1);
    world.open();
    for answer in [begun, begins] {
        let error = timeout(Duration::from_secs(20), answer).await.unwrap().unwrap().unwrap_err();
        assert_eq!(error.applied(), Some(false), "{error:?}");
    }
    server.resume().unwrap();
    world.stand(0, 0).await;
}
