//! What the metric of a breaker says while nobody asks.

use crate::stage::{Stage, until};

#[tokio::test]
async fn the_breaker_of_the_database_is_shown_as_half_open_after_its_time_without_another_load() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    let is = async |state: &str| {
        let series = format!("stockade_breaker_state{{breaker=\"database\",state=\"{state}\"}} 1\n");
        instance.metrics().await.contains(&series)
    };
    assert!(is("closed").await);
    // Of SKUs that never were the service knows without a load.
    for number in 0..6 {
        assert_eq!(instance.put(&format!("sku-{number}"), 1).await.status, 201);
    }
    sqlx::query("alter table stock rename to away").execute(&stage.pool).await.unwrap();
    let read = async |number: u32| instance.get(&format!("/stock/sku-{number}")).await;
    for number in 0..5 {
        assert_eq!(read(number).await.status, 503);
    }
    assert!(is("open").await);
    sqlx::query("alter table away rename to stock").execute(&stage.pool).await.unwrap();
    until("its time is over", async || is("half_open").await).await;
    assert_eq!(read(5).await.status, 200);
    assert!(is("closed").await);
}
