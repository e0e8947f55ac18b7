//! What becomes of a breaker while nobody asks.

use crate::stage::{Stage, until};

#[tokio::test]
async fn the_breaker_of_the_database_closes_without_another_load() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    let is = async |state: &str| {
        let series = format!("stockade_breaker_state{{breaker=\"database\",state=\"{state}\"}} 1\n");
        instance.metrics().await.contains(&series)
    };
    assert!(is("closed").await);
    // The warm-up would cache what is there by then.
    until("it is ready", async || instance.get("/readyz").await.status == 200).await;
    // Of SKUs that never were the service knows without a load.
    for number in 0..5 {
        assert_eq!(instance.put(&format!("sku-{number}"), 1).await.status, 201);
    }
    sqlx::query("alter table stock rename to away").execute(&stage.pool).await.unwrap();
    let read = async |number: u32| instance.get(&format!("/stock/sku-{number}")).await;
    for number in 0..5 {
        assert_eq!(read(number).await.status, 503);
    }
    assert!(!is("closed").await);
    until("it is closed", async || is("closed").await).await;
}
