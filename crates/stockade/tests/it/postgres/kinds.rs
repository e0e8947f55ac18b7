//! Permits, downgraded guards and adopted guards at the fence.

use std::time::Duration;

use stockade::{
    Locks,
    lock::{LossReason, Mode},
    postgres::{CommitError, FenceError},
};

use super::{Sku, claim, database, quantity};
use crate::world::World;

async fn rows(pool: &sqlx::PgPool) -> i64 {
    sqlx::query_scalar("select count(*) from stockade.fence").fetch_one(pool).await.unwrap()
}

#[tokio::test]
async fn a_permit_claims_nothing() {
    let (_server, pool) = database().await;
    let permit = Locks::memory().semaphore(&Sku("a"), 2).acquire().await.unwrap();
    let refused = permit.begin(&pool).await.unwrap_err();
    assert!(matches!(refused, FenceError::Shared(Mode::Permit)), "{refused}");
    assert!(refused.to_string().starts_with("a permit of a semaphore can't claim the fence"), "{refused}");
    assert!(matches!(permit.fence().claim(&pool).await, Err(FenceError::Shared(Mode::Permit))));
    assert!(matches!(permit.fence().claim_args(), Err(FenceError::Shared(Mode::Permit))));
    assert_eq!(rows(&pool).await, 0);
}

#[tokio::test]
async fn a_downgraded_guard_checks_and_claims_no_more() {
    let (_server, pool) = database().await;
    let locks = Locks::memory();
    let writer = locks.write(&Sku("a")).acquire().await.unwrap();
    let fence = writer.fence();
    let mut tx = writer.begin(&pool).await.unwrap();
    sqlx::query("update stock set quantity = 4").execute(&mut *tx).await.unwrap();
    tx.commit().await.unwrap();
    // This transaction begins under the exclusive lock, and is not committed before the downgrade.
    let mut late = writer.begin(&pool).await.unwrap();
    sqlx::query("update stock set quantity = 3").execute(&mut *late).await.unwrap();
    let reader = writer.downgrade().await.unwrap();
    let refused = late.commit().await.unwrap_err();
    assert!(matches!(refused, CommitError::Downgraded) && refused.applied() == Some(false), "{refused}");

    assert!(matches!(reader.fence().claim(&pool).await, Err(FenceError::Shared(Mode::Read))));
    assert!(matches!(fence.claim_args(), Err(FenceError::Shared(Mode::Read))), "nor one that was cloned before");
    // The last claim was that of the downgraded guard. No newer writer has claimed, so both readers see its write.
    let other = locks.read(&Sku("a")).acquire().await.unwrap();
    let mut tx = other.begin(&pool).await.unwrap();
    assert_eq!(quantity(&mut tx).await, 4);
    tx.commit().await.unwrap();
    let mut tx = reader.begin(&pool).await.unwrap();
    assert_eq!(quantity(&mut tx).await, 4);
    let write = sqlx::query("update stock set quantity = 0").execute(&mut *tx).await.unwrap_err();
    assert_eq!(write.as_database_error().unwrap().code().unwrap(), "25006", "{write}");
}

#[tokio::test]
async fn an_adopted_guard_claims_over_the_one_that_was_handed_over() {
    let (_server, pool) = database().await;
    let locks = Locks::memory();
    let given = locks.write(&Sku("a")).acquire().await.unwrap();
    let fence = given.fence();
    given.begin(&pool).await.unwrap().commit().await.unwrap();
    let adopted = locks.adopt(given.hand_over().unwrap()).await.unwrap();
    // The database would still take the old token.
    assert!(matches!(fence.begin(&pool).await, Err(FenceError::Lost(LossReason::HandedOver))));
    assert!(matches!(fence.claim_args(), Err(FenceError::Lost(LossReason::HandedOver))));
    let mut tx = adopted.begin(&pool).await.unwrap();
    sqlx::query("update stock set quantity = 7").execute(&mut *tx).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(rows(&pool).await, 1);

    let newer = i64::try_from(adopted.token().get()).unwrap() + 1;
    assert!(claim(&mut pool.acquire().await.unwrap(), "stock:a", newer, "another process").await);
    assert!(matches!(adopted.begin(&pool).await, Err(FenceError::Rejected { .. })));
}

#[tokio::test]
async fn a_handover_that_is_adopted_twice_is_told_apart_at_the_fence() {
    const COPY: &str = "for _, key in ipairs(redis.call('KEYS', '*')) do redis.call('COPY', key, 'copy:' .. key) end";
    const FORGET: &str =
        "for _, copy in ipairs(redis.call('KEYS', 'copy:*')) do redis.call('RENAME', copy, string.sub(copy, 6)) end";
    let (_server, pool) = database().await;
    let world = World::start().await;
    let (service, first, second) = (world.locks().await, world.locks().await, world.locks().await);
    let given = service.write(&Sku("a")).lease(Duration::from_secs(60)).acquire().await.unwrap();
    let handover = given.hand_over().unwrap();
    world.command(&["EVAL", COPY, "0"]).await.unwrap();
    let stale = first.adopt(handover.clone()).await.unwrap();
    stale.begin(&pool).await.unwrap().commit().await.unwrap();
    // As after a failover to a replica that has not heard of the adoption.
    world.command(&["EVAL", FORGET, "0"]).await.unwrap();
    let adopted = second.adopt(handover).await.unwrap();
    adopted.begin(&pool).await.unwrap().commit().await.unwrap();
    assert!(stale.is_held(), "the first one knows already, so the fence has nothing to do");
    assert!(matches!(stale.begin(&pool).await, Err(FenceError::Rejected { .. })));
    adopted.begin(&pool).await.unwrap().commit().await.unwrap();
    drop((stale, adopted));
    world.end().await;
}
