use inventory::seed::seed;
use stockade_testbed::PostgresServer;

use crate::stock_db::{execute, line, migrated};

#[tokio::test]
async fn seeding_creates_stock_with_its_opening_movement_and_a_second_run_nothing() {
    let server = PostgresServer::start().await.unwrap();
    let pool = migrated(&server, "inventory").await;
    execute(
        &pool,
        "insert into stock (sku, quantity) values ('there', 7);
         insert into movement (sku, kind, delta, quantity, version) select sku, 'set', 7, 7, version from stock",
    )
    .await;
    // Over a thousand, so that there is more than one batch.
    let mut lines: Vec<_> = (1..=1_500).map(|number| line(number, &format!("SKU {number}"), -18)).collect();
    lines.push(line(1_501, "there", -100));

    let first = seed(&pool, &lines, None).await.unwrap();
    assert_eq!((first.skus, first.created), (1_501, 1_500));
    let second = seed(&pool, &lines, None).await.unwrap();
    assert_eq!((second.skus, second.created), (1_501, 0));

    let (skus, quantity, opening): (i64, i64, i64) = sqlx::query_as(
        "select (select count(*) from stock), (select sum(quantity)::bigint from stock),
                (select count(*) from movement where kind = 'seed' and delta = 18 and quantity = 18)",
    )
    .fetch_one(&pool)
    .await
    .unwrap();
    assert_eq!((skus, quantity, opening), (1_501, 1_500 * 18 + 7, 1_500));
}
