//! A sale whose keys in Redis another program wrote to.

use futures_util::future::join_all;
use reqwest::StatusCode;

use super::{assert_conserved, open, reserve, until_closed, until_open, until_stored};
use crate::stage::{Stage, until};

const SALE: &str = "inventory:flash:{A}:sale";
const CUSTOMERS: &str = "inventory:flash:{A}:customers";
const STREAM: &str = "inventory:flash:{A}:stream";

#[tokio::test]
async fn one_broken_sale_does_not_stop_the_others_and_goes_on_once_its_key_is_deleted() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    for sku in ["A", "B"] {
        instance.put(sku, 30).await;
        open(&instance, sku, 30, 30).await;
    }
    assert_eq!(reserve(&instance, "A", "ann", 1, None).await.status, StatusCode::CREATED);
    until_stored(&stage, 1).await;

    stage.redis.command(&["SET", STREAM, "of somebody else"]).await.unwrap();
    for _ in 0..10 {
        // More failures than a server that does not answer is given.
        let refused = join_all((0..10).map(|_| reserve(&instance, "A", "bob", 1, None))).await;
        assert!(refused.iter().all(|answer| answer.problem() == "lock-store-unavailable"), "{refused:?}");
        let made = reserve(&instance, "B", "bob", 1, None).await;
        assert_eq!(made.status, StatusCode::CREATED, "{made:?}");
    }
    until("B is stored", async || stage.count("select sum(stored)::bigint from flash_sale").await == 11).await;

    stage.redis.command(&["DEL", STREAM]).await.unwrap();
    assert_eq!(reserve(&instance, "A", "bob", 1, None).await.status, StatusCode::CREATED);
    until_stored(&stage, 12).await;
    until_closed(&instance).await;
    assert_conserved(&stage).await;
}

#[tokio::test]
async fn a_sale_is_counted_again_once_its_broken_key_and_its_counter_are_deleted() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    instance.put("A", 9).await;
    open(&instance, "A", 9, 2).await;
    assert_eq!(reserve(&instance, "A", "ann", 1, None).await.status, StatusCode::CREATED);
    until_stored(&stage, 1).await;
    stage.redis.command(&["SET", CUSTOMERS, "of somebody else"]).await.unwrap();
    assert_eq!(reserve(&instance, "A", "ann", 1, None).await.problem(), "lock-store-unavailable");

    stage.redis.command(&["DEL", CUSTOMERS, SALE]).await.unwrap();
    until_open(&instance).await;
    assert_eq!(reserve(&instance, "A", "ann", 2, None).await.problem(), "limit-reached");
    assert_eq!(reserve(&instance, "A", "ann", 1, None).await.status, StatusCode::CREATED);
    until_stored(&stage, 2).await;
    until_closed(&instance).await;
    assert_conserved(&stage).await;
}
