//! Tags that a transaction invalidates: with its commit, only if it commits, and also if the cache can't be told.

use std::time::Duration;

use sqlx::PgPool;
use stockade::{
    Cache, Redis,
    cache::{CacheError, Loaded, Source, TagError},
    postgres::{CommitError, Relay, Tx},
};
use stockade_testbed::{Fault, Proxy};

use super::{Sku, database, pending, quantity, until};
use crate::world::{World, cached, patient};

/// A cache whose values have the tag `all`.
async fn cache(url: &str, pool: &PgPool) -> Cache<Sku, i32> {
    let cache = cached(Cache::builder(&patient(url).await).loader(loader(pool)).build());
    until(async || !cache.is_degraded()).await;
    cache
}

fn loader(
    pool: &PgPool,
) -> impl Fn(Sku) -> futures_util::future::BoxFuture<'static, sqlx::Result<Loaded<i32>>> + Send + Sync + 'static {
    let pool = pool.clone();
    move |sku: Sku| {
        let pool = pool.clone();
        Box::pin(async move {
            let select = sqlx::query_scalar("select quantity from stock where sku = $1");
            let row = select.bind(sku.0).fetch_optional(&pool).await?;
            Ok(Loaded::new(row).tags(["all"]))
        })
    }
}

async fn write(pool: &PgPool, cache: &Cache<Sku, i32>, quantity: i32) -> Tx {
    let mut tx = Tx::unfenced(pool).await.unwrap();
    sqlx::query("update stock set quantity = $1").bind(quantity).execute(&mut *tx).await.unwrap();
    tx.invalidate_tag(cache, "all");
    tx
}

async fn outbox(pool: &PgPool) -> Vec<String> {
    sqlx::query_scalar("select resource from stockade.outbox order by id").fetch_all(pool).await.unwrap()
}

async fn read(cache: &Cache<Sku, i32>) -> (Option<i32>, Source) {
    let lookup = cache.get(&Sku("a")).await.unwrap();
    (lookup.value.as_deref().copied(), lookup.info.source)
}

#[tokio::test]
async fn a_tag_is_invalidated_with_the_commit_and_only_with_it() {
    let (_server, pool) = database().await;
    let redis = World::start().await;
    let cache = cache(&redis.url(), &pool).await;
    assert_eq!(read(&cache).await, (Some(10), Source::Load));
    write(&pool, &cache, 9).await.rollback().await.unwrap();
    drop(write(&pool, &cache, 9).await);
    assert_eq!(read(&cache).await, (Some(10), Source::Redis));
    assert!(outbox(&pool).await.is_empty());
    for left in [9, 8] {
        let mut tx = write(&pool, &cache, left).await;
        tx.invalidate_tag(&cache, &"all".to_owned());
        tx.invalidate(&cache, &Sku("b"));
        assert_eq!(read(&cache).await.1, Source::Redis, "dropped before the commit");
        tx.commit().await.unwrap();
        assert_eq!(read(&cache).await, (Some(left), Source::Load));
        assert_eq!(read(&cache).await, (Some(left), Source::Redis));
    }
    assert_eq!(outbox(&pool).await, ["stock:b", "#all", "stock:b", "#all"]);
    redis.end().await;
}

#[tokio::test]
async fn a_tag_that_could_not_be_told_is_invalidated_by_the_relay() {
    let (_server, pool) = database().await;
    let redis = World::start().await;
    let proxy = Proxy::start(redis.addr()).await.unwrap();
    let writers = cache(&proxy.url_for(&redis.url()), &pool).await;
    let readers = cache(&redis.url(), &pool).await;
    until(async || read(&readers).await == (Some(10), Source::Redis)).await;
    proxy.set(Fault::Hole);
    write(&pool, &writers, 9).await.commit().await.unwrap();
    assert_eq!(read(&readers).await, (Some(10), Source::Redis), "stale for as long as nobody applies the row");
    proxy.set(Fault::None);
    proxy.reset_connections();
    let relay = Relay::spawn(pool.clone(), [writers.invalidator()]);
    until(async || read(&readers).await.0 == Some(9)).await;
    until(async || pending(&pool).await == 0).await;
    // Applying the row again costs a load and changes nothing.
    until(async || read(&readers).await == (Some(9), Source::Redis)).await;
    assert_eq!(relay.reapply().await.unwrap(), 1);
    assert_eq!(read(&readers).await, (Some(9), Source::Load));
    assert_eq!(read(&readers).await, (Some(9), Source::Redis));
    relay.shutdown(Duration::from_secs(1)).await;
    redis.end_behind(proxy).await;
}

#[tokio::test]
async fn a_tag_that_is_refused_keeps_the_transaction_from_being_applied() {
    let (_server, pool) = database().await;
    let redis = World::start().await;
    let cache = cache(&redis.url(), &pool).await;
    let mut tx = write(&pool, &cache, 9).await;
    tx.invalidate_tag(&cache, "");
    tx.invalidate_tag(&cache, &"x".repeat(129));
    let refused = tx.commit().await.unwrap_err();
    assert!(matches!(refused, CommitError::Tag(TagError::Empty)), "{refused:?}");
    assert_eq!(refused.applied(), Some(false));
    assert_eq!(quantity(&mut pool.acquire().await.unwrap()).await, 10);
    redis.end().await;
}

#[tokio::test]
async fn a_strict_cache_refuses_tags_and_says_why() {
    let (_server, pool) = database().await;
    let redis = World::start().await;
    let connected = Redis::connect(redis.url()).await.unwrap();
    let strict = cached(Cache::builder(&connected).loader(loader(&pool)).strict(&pool).build());
    until(async || !strict.is_degraded()).await;
    let refused = strict.get(&Sku("a")).await.unwrap_err();
    assert!(matches!(refused, CacheError::Tag(TagError::Strict("stock"))), "{refused:?}");
    assert!(refused.to_string().contains("invalidate by key"), "{refused}");
    assert!(matches!(strict.invalidate_tag("all").await, Err(CacheError::Tag(TagError::Strict(_)))));
    let refused = write(&pool, &strict, 9).await.commit().await.unwrap_err();
    assert!(matches!(refused, CommitError::Tag(TagError::Strict(_))), "{refused:?}");
    assert_eq!(quantity(&mut pool.acquire().await.unwrap()).await, 10);
    redis.end().await;
}
