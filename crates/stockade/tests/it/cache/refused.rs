//! A Redis that answers with refusals.

use stockade::cache::{CacheError, Source};

use super::{
    support::{Database, Loading, eventually, get, patient, process, quantity, sku, stored, warm},
    tags::tagged,
};
use crate::world::World;

#[tokio::test]
async fn an_invalidation_that_redis_refuses_is_an_error_and_can_be_repeated() {
    let server = World::start().await;
    let database = Database::with(&[("a", 0)]);
    let writer = process(&server).await.on(&database).await;
    let reader = process(&server).await.local(1 << 20).on(&database).await;
    warm(&reader, "a").await;
    database.write("a", Some(1));
    server.command(&["ACL", "SETUSER", "default", "-incr"]).await.unwrap();
    let refused = writer.invalidate(&sku("a")).await;
    assert!(matches!(refused, Err(CacheError::Unavailable(_))), "{refused:?}");
    server.command(&["ACL", "SETUSER", "default", "+incr"]).await.unwrap();
    writer.invalidate(&sku("a")).await.unwrap();
    eventually("the reader hears of it", || async { quantity(&get(&reader, "a").await) == Some(1) }).await;
    server.end().await;
}

#[tokio::test]
async fn a_server_out_of_memory_takes_invalidations_and_no_values() {
    let server = World::start().await;
    let database = Database::with(&[("a", 0), ("b", 7)]);
    let writer = process(&server).await.on(&database).await;
    let reader = process(&server).await.local(1 << 20).on(&database).await;
    warm(&reader, "a").await;
    server.command(&["CONFIG", "SET", "maxmemory", "1"]).await.unwrap();
    database.write("a", Some(1));
    writer.invalidate(&sku("a")).await.unwrap();
    eventually("the reader hears of it", || async { quantity(&get(&reader, "a").await) == Some(1) }).await;
    let lookup = get(&reader, "b").await;
    assert_eq!((quantity(&lookup), lookup.info.source, lookup.info.degraded), (Some(7), Source::Load, true));
    assert!(!stored(&server, "b").await);
    server.command(&["CONFIG", "SET", "maxmemory", "0"]).await.unwrap();
    eventually("values are stored again", || async {
        get(&writer, "b").await;
        stored(&server, "b").await
    })
    .await;
    server.end().await;
}

#[tokio::test]
async fn a_server_out_of_memory_takes_invalidations_by_tag() {
    let server = World::start().await;
    let database = Database::with(&[("a", 0)]);
    let writer = tagged(patient(&server.url()).await, &database).await;
    let reader = tagged(patient(&server.url()).await.local(1 << 20), &database).await;
    warm(&reader, "a").await;
    server.command(&["CONFIG", "SET", "maxmemory", "1"]).await.unwrap();
    database.write("a", Some(1));
    writer.invalidate_tag("all").await.unwrap();
    eventually("the reader hears of it", || async { quantity(&get(&reader, "a").await) == Some(1) }).await;
    assert_eq!(quantity(&get(&writer, "a").await), Some(1));
    // The server also takes the invalidation of a new tag, in a cache that has no table of tags yet.
    let other = tagged(patient(&server.url()).await.name("other"), &database).await;
    other.invalidate_tag("new").await.unwrap();
    server.end().await;
}

#[tokio::test]
async fn a_cache_comes_up_on_a_server_out_of_memory() {
    let server = World::start().await;
    let database = Database::with(&[("a", 7)]);
    server.command(&["CONFIG", "SET", "maxmemory", "1"]).await.unwrap();
    let stocks = patient(&server.url()).await.on(&database).await;
    let lookup = get(&stocks, "a").await;
    assert_eq!((quantity(&lookup), lookup.info.source), (Some(7), Source::Load));
    stocks.invalidate(&sku("a")).await.unwrap();
    server.command(&["CONFIG", "SET", "maxmemory", "0"]).await.unwrap();
    eventually("values are stored", || async {
        get(&stocks, "a").await;
        stored(&server, "a").await
    })
    .await;
    server.end().await;
}
