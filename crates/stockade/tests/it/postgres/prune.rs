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
async fn many_rows_go_in_batches_and_one_that_is_being_claimed_stays() {
    let (_server, pool) = database().await;
    sqlx::query("insert into stockade.fence select 'stock:' || n, n, 'old' from generate_series(1, 25000) as n")
        .execute(&pool)
        .await
        .unwrap();
    let floor = prune_floor(&pool, Duration::from_secs(3600)).await.unwrap();
    sqlx::query("update stockade.fence_floor set settled_at = settled_at - interval '61 s'")
        .execute(&pool)
        .await
        .unwrap();
    let mut holder = pool.begin().await.unwrap();
    let fresh = i64::try_from(floor.get()).unwrap() + 1;
    assert!(claim(&mut holder, "stock:7", fresh, "fresh").await);
    let pruned = tokio::time::timeout(Duration::from_secs(10), prune_rows(&pool)).await.expect("waits for the holder");
    assert_eq!(pruned.unwrap(), Pruned::Rows(24_999));
    holder.commit().await.unwrap();
    let left: Vec<i64> = sqlx::query_scalar("select token from stockade.fence").fetch_all(&pool).await.unwrap();
    assert_eq!(left, [fresh]);
}

#[tokio::test]
async fn a_batch_reads_only_its_own_rows() {
    const READ: &str = "select seq_tup_read from pg_stat_user_tables where relname = 'fence'";
    let (_server, pool) = database().await;
    sqlx::raw_sql(
        "insert into stockade.fence select 'stock:' || n, n, 'old' from generate_series(1, 100000) as n;
        analyze stockade.fence",
    )
    .execute(&pool)
    .await
    .unwrap();
    prune_floor(&pool, Duration::from_secs(3600)).await.unwrap();
    sqlx::query("update stockade.fence_floor set settled_at = settled_at - interval '61 s'")
        .execute(&pool)
        .await
        .unwrap();
    let read = async || -> i64 {
        sqlx::raw_sql("select pg_stat_force_next_flush()").execute(&pool).await.unwrap();
        sqlx::query_scalar(READ).fetch_one(&pool).await.unwrap()
    };
    let before = read().await;
    assert_eq!(prune_rows(&pool).await.unwrap(), Pruned::Rows(100_000));
    let read = read().await - before;
    assert!(read < 100_000, "{read} rows were read one after the other to delete 100,000 in ten batches");
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
