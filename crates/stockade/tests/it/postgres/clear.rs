//! A clear that is bound to a transaction.

use std::time::Duration;

use sqlx::PgPool;
use stockade::{
    Cache, Redis,
    cache::{Source, TagError},
    postgres::{CommitError, Relay, Tx},
};
use stockade_testbed::{Fault, Proxy};

use super::{Sku, cached::stock_at, database, quantity, until};
use crate::world::{World, cached, patient};

async fn cache(url: &str, pool: &PgPool) -> Cache<Sku, i32> {
    cached(stock_at(&patient(url).await, pool, &Default::default()).build())
}

async fn clearing(pool: &PgPool, cache: &Cache<Sku, i32>, quantity: i32) -> Tx {
    let mut tx = Tx::unfenced(pool).await.unwrap();
    sqlx::query("update stock set quantity = $1").bind(quantity).execute(&mut *tx).await.unwrap();
    tx.clear(cache);
    tx
}

async fn read(cache: &Cache<Sku, i32>) -> (Option<i32>, Source) {
    let lookup = cache.get(&Sku("a")).await.unwrap();
    (lookup.value.as_deref().copied(), lookup.info.source)
}

#[tokio::test]
async fn a_cache_is_cleared_with_the_commit_and_only_with_it() {
    let (_server, pool) = database().await;
    let redis = World::start().await;
    let cache = cache(&redis.url(), &pool).await;
    assert_eq!(read(&cache).await, (Some(10), Source::Load));
    clearing(&pool, &cache, 9).await.rollback().await.unwrap();
    assert_eq!(read(&cache).await, (Some(10), Source::Redis));
    let tx = clearing(&pool, &cache, 8).await;
    assert_eq!(read(&cache).await.1, Source::Redis, "cleared before the commit");
    tx.commit().await.unwrap();
    assert_eq!(read(&cache).await, (Some(8), Source::Load));
    redis.end().await;
}

#[tokio::test]
async fn a_clear_that_could_not_be_told_is_made_by_the_relay() {
    let (_server, pool) = database().await;
    let redis = World::start().await;
    let proxy = Proxy::start(redis.addr()).await.unwrap();
    let writer = cache(&proxy.url_for(&redis.url()), &pool).await;
    let reader = cache(&redis.url(), &pool).await;
    assert_eq!(read(&writer).await.0, Some(10));
    assert_eq!(read(&reader).await, (Some(10), Source::Redis));
    proxy.set(Fault::Hole);
    clearing(&pool, &writer, 9).await.commit().await.unwrap();
    assert_eq!(read(&reader).await, (Some(10), Source::Redis), "stale for as long as nobody applies the row");
    proxy.set(Fault::None);
    proxy.reset_connections();
    let relay = Relay::spawn(pool.clone(), [writer.invalidator()]);
    until(async || read(&reader).await.0 == Some(9)).await;
    relay.shutdown(Duration::from_secs(1)).await;
    redis.end_behind(proxy).await;
}

#[tokio::test]
async fn a_strict_cache_is_cleared_by_itself_and_by_no_transaction() {
    let (_server, pool) = database().await;
    let redis = World::start().await;
    let connected = Redis::connect(redis.url()).await.unwrap();
    let strict = cached(stock_at(&connected, &pool, &Default::default()).strict(&pool).build());
    let relay = Relay::spawn(pool.clone(), [strict.invalidator()]);
    until(async || read(&strict).await.1 == Source::Redis).await;
    let refused = clearing(&pool, &strict, 9).await.commit().await.unwrap_err();
    assert!(matches!(refused, CommitError::Tag(TagError::Strict(_))), "{refused:?}");
    assert_eq!(quantity(&mut pool.acquire().await.unwrap()).await, 10);
    sqlx::query("update stock set quantity = 8").execute(&pool).await.unwrap();
    strict.clear().await.unwrap();
    assert_eq!(read(&strict).await, (Some(8), Source::Load));
    relay.shutdown(Duration::from_secs(1)).await;
    redis.end().await;
}
