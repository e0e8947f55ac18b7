use std::time::Duration;

use stockade::postgres::{Pruned, prune_floor, prune_rows};

use super::{blocked, claim, database};

#[tokio::test]
async fn one_transaction_for_both_phases_would_let_an_old_token_in() {
    let (_server, pool) = database().await;
    assert!(claim(&mut pool.acquire().await.unwrap(), "stock:a", 180, "newest").await);

    let mut prune = pool.begin().await.unwrap();
    sqlx::query("update stockade.fence_floor set token = 200").execute(&mut *prune).await.unwrap();
    sqlx::query("delete from stockade.fence where token <= 200").execute(&mut *prune).await.unwrap();
    let mut connection = pool.acquire().await.unwrap();
    let late = claim(&mut connection, "stock:a", 150, "stale");
    let commit = async {
        blocked(&pool, 1).await;
        prune.commit().await.unwrap();
    };
    assert!(tokio::join!(late, commit).0, "150 got in although 180 had been seen");
}

#[tokio::test]
async fn two_phases_refuse_it() {
    let (_server, pool) = database().await;
    assert!(claim(&mut pool.acquire().await.unwrap(), "stock:a", 180, "newest").await);
    assert_eq!(prune_rows(&pool).await.unwrap(), Pruned::TooEarly, "nothing is below the first floor");

    let floor = prune_floor(&pool, Duration::from_secs(3600)).await.unwrap();
    assert!(floor.get() > 180);
    assert_eq!(prune_rows(&pool).await.unwrap(), Pruned::TooEarly, "statements under the old floor may still run");

    sqlx::query("update stockade.fence_floor set settled_at = settled_at - interval '61 s'")
        .execute(&pool)
        .await
        .unwrap();
    let mut delete = pool.begin().await.unwrap();
    sqlx::query("delete from stockade.fence where token <= 200").execute(&mut *delete).await.unwrap();
    let mut connection = pool.acquire().await.unwrap();
    assert!(!claim(&mut connection, "stock:a", 150, "stale").await, "refused while its row is being deleted");
    delete.rollback().await.unwrap();

    assert_eq!(prune_rows(&pool).await.unwrap(), Pruned::Rows(1));
    assert!(!claim(&mut connection, "stock:a", 150, "stale").await, "and after");
    let fresh = i64::try_from(floor.get()).unwrap() + 1;
    assert!(claim(&mut connection, "stock:a", fresh, "fresh").await);
}

#[tokio::test]
async fn the_floor_never_falls_and_an_unchanged_floor_stays_settled() {
    let (_server, pool) = database().await;
    let high = prune_floor(&pool, Duration::from_secs(60)).await.unwrap();
    assert_eq!(prune_floor(&pool, Duration::from_secs(3600)).await.unwrap(), high);
    sqlx::query("update stockade.fence_floor set settled_at = settled_at - interval '61 s'")
        .execute(&pool)
        .await
        .unwrap();
    assert_eq!(prune_floor(&pool, Duration::from_secs(3600)).await.unwrap(), high);
    assert_eq!(prune_rows(&pool).await.unwrap(), Pruned::Rows(0));
}
