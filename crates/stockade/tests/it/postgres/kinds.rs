//! Permits, downgraded guards and adopted guards at the fence.

use stockade::{
    Locks,
    lock::{LossReason, Mode},
    postgres::{CommitError, FenceError},
};

use super::{Sku, claim, database, quantity};

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
async fn an_adopted_guard_claims_as_the_one_that_was_handed_over() {
    let (_server, pool) = database().await;
    let locks = Locks::memory();
    let given = locks.write(&Sku("a")).acquire().await.unwrap();
    let (token, fence) = (given.token(), given.fence());
    given.begin(&pool).await.unwrap().commit().await.unwrap();
    let before = fence.claim_args().unwrap();
    let adopted = locks.adopt(given.hand_over().unwrap()).await.unwrap();
    assert_eq!((adopted.token(), adopted.fence().claim_args().unwrap()), (token, before));

    let mut tx = adopted.begin(&pool).await.expect("the row has its token and its owner");
    sqlx::query("update stock set quantity = 7").execute(&mut *tx).await.unwrap();
    tx.commit().await.unwrap();
    // The old fence has the same token and owner as the adopted one, so Postgres could not tell them apart.
    assert!(matches!(fence.begin(&pool).await, Err(FenceError::Lost(LossReason::HandedOver))));
    assert!(matches!(fence.claim_args(), Err(FenceError::Lost(LossReason::HandedOver))));
    assert_eq!(rows(&pool).await, 1);

    let newer = i64::try_from(token.get()).unwrap() + 1;
    assert!(claim(&mut pool.acquire().await.unwrap(), "stock:a", newer, "another process").await);
    assert!(matches!(adopted.begin(&pool).await, Err(FenceError::Rejected { .. })));
}
