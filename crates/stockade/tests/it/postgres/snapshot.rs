//! Why the claim is a statement of its own: the same race with one statement and with two.

use sqlx::PgPool;
use stockade::{Fence, Locks};

use super::{Sku, blocked, claim, database, quantity};

/// One holder has claimed and taken a unit, and has not committed. Its successor claims and reads, and has to wait.
/// Then the first holder commits. Returns the quantity that the successor reads.
async fn successor_reads(pool: &PgPool, in_one_statement: bool) -> i32 {
    let mut first = pool.begin().await.unwrap();
    assert!(claim(&mut first, "stock:a", 33, "first").await);
    let before = quantity(&mut first).await;
    sqlx::query("update stock set quantity = $1").bind(before - 1).execute(&mut *first).await.unwrap();

    let successor = async {
        let mut second = pool.begin().await.unwrap();
        let read = if in_one_statement {
            let sql = format!("with claim as ({}) select quantity from stock, claim where sku = 'a'", Fence::CLAIM_SQL);
            sqlx::query_scalar(sqlx::AssertSqlSafe(sql))
                .bind("stock:a")
                .bind(34_i64)
                .bind("second")
                .fetch_one(&mut *second)
                .await
                .unwrap()
        } else {
            assert!(claim(&mut second, "stock:a", 34, "second").await);
            quantity(&mut second).await
        };
        sqlx::query("update stock set quantity = $1").bind(read - 1).execute(&mut *second).await.unwrap();
        second.commit().await.unwrap();
        read
    };
    let commit = async {
        blocked(pool, 1).await;
        first.commit().await.unwrap();
    };
    tokio::join!(successor, commit).0
}

#[tokio::test]
async fn claiming_first_and_reading_second_sees_the_predecessors_commit() {
    let (_server, pool) = database().await;
    assert_eq!(successor_reads(&pool, false).await, 9);
    assert_eq!(quantity(&mut pool.acquire().await.unwrap()).await, 8, "both units are gone");
}

#[tokio::test]
async fn claiming_and_reading_in_one_statement_loses_an_update() {
    let (_server, pool) = database().await;
    assert_eq!(successor_reads(&pool, true).await, 10, "the snapshot is older than the wait");
    assert_eq!(quantity(&mut pool.acquire().await.unwrap()).await, 9, "two units taken, one missing");
}

#[tokio::test]
async fn a_database_that_defaults_to_repeatable_read_changes_nothing() {
    let (server, pool) = database().await;
    sqlx::raw_sql("alter role all set default_transaction_isolation = 'repeatable read'").execute(&pool).await.unwrap();
    let pool = super::pool(&server.url()).await;
    let default: String = sqlx::query_scalar("show default_transaction_isolation").fetch_one(&pool).await.unwrap();
    assert_eq!(default, "repeatable read");

    let held = Locks::memory().write(&Sku("a")).acquire().await.unwrap();
    let mut tx = held.begin(&pool).await.unwrap();
    let level: String = sqlx::query_scalar("show transaction_isolation").fetch_one(&mut *tx).await.unwrap();
    assert_eq!(level, "read committed");
}
