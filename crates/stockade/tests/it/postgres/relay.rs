//! A cache on a real Redis that can't be reached at the moment of the commit.

use std::time::Duration;

use sqlx::PgPool;
use stockade::{
    Cache, Redis,
    cache::Source,
    postgres::{Relay, Tx},
};
use stockade_testbed::{Fault, Proxy};
use tokio::time::Instant;

use super::{Sku, database, until};
use crate::world::{World, cached};

fn cache(redis: &Redis, pool: &PgPool) -> Cache<Sku, i32> {
    let pool = pool.clone();
    let load = move |sku: Sku| {
        let pool = pool.clone();
        async move {
            sqlx::query_scalar("select quantity from stock where sku = $1").bind(sku.0).fetch_optional(&pool).await
        }
    };
    cached(Cache::builder(redis).loader(load).build())
}

#[tokio::test]
async fn a_value_whose_invalidation_could_not_be_sent_is_dropped_by_the_relay() {
    let (_server, pool) = database().await;
    let redis = World::start().await;
    let proxy = Proxy::start(redis.addr()).await.unwrap();
    let writer = Redis::connect(proxy.url_for(&redis.url()).as_str()).await.unwrap();
    let reader = Redis::connect(redis.url().as_str()).await.unwrap();
    let (writers, readers) = (cache(&writer, &pool), cache(&reader, &pool));
    let read = async || readers.get(&Sku("a")).await.unwrap().value.as_deref().copied();
    until(async || {
        assert_eq!(read().await, Some(10));
        readers.get(&Sku("a")).await.unwrap().info.source == Source::Redis
    })
    .await;

    proxy.set(Fault::Hole);
    let mut tx = Tx::unfenced(&pool).await.unwrap();
    sqlx::query("update stock set quantity = 9").execute(&mut *tx).await.unwrap();
    tx.invalidate(&writers, &Sku("a"));
    let started = Instant::now();
    tx.commit().await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(2), "the answer waited {:?}", started.elapsed());
    assert_eq!(read().await, Some(10), "the reader's value is stale for as long as nobody applies the row");

    proxy.set(Fault::None);
    proxy.reset_connections();
    let relay = Relay::spawn(pool.clone(), [writers.invalidator()]);
    until(async || read().await == Some(9)).await;
    relay.shutdown(Duration::from_secs(1)).await;
    redis.end_behind(proxy).await;
}

#[tokio::test]
async fn of_caches_of_one_name_each_has_to_confirm() {
    let (_server, pool) = database().await;
    let redis = World::start().await;
    let proxy = Proxy::start(redis.addr()).await.unwrap();
    let writers = cache(&Redis::connect(proxy.url_for(&redis.url()).as_str()).await.unwrap(), &pool);
    let readers = cache(&Redis::connect(redis.url().as_str()).await.unwrap(), &pool);
    let here = Cache::memory().loader(|_: Sku| async { Ok::<_, sqlx::Error>(Some(1)) }).build();
    assert_eq!(here.name(), writers.name());
    let read = async || readers.get(&Sku("a")).await.unwrap().value.as_deref().copied();
    until(async || readers.get(&Sku("a")).await.unwrap().info.source == Source::Redis).await;
    let relay = Relay::spawn(pool.clone(), [writers.invalidator()]);

    proxy.set(Fault::Hole);
    let mut tx = Tx::unfenced(&pool).await.unwrap();
    sqlx::query("update stock set quantity = 9").execute(&mut *tx).await.unwrap();
    tx.invalidate(&writers, &Sku("a"));
    tx.invalidate(&here, &Sku("a"));
    tx.commit().await.unwrap();
    assert_eq!(read().await, Some(10), "the reader's value is stale for as long as nobody applies the row");

    proxy.set(Fault::None);
    proxy.reset_connections();
    until(async || read().await == Some(9)).await;
    relay.shutdown(Duration::from_secs(1)).await;
    redis.end_behind(proxy).await;
}

#[tokio::test]
async fn a_commit_drops_the_value_before_it_returns() {
    let (_server, pool) = database().await;
    let redis = World::start().await;
    let cache = cache(&Redis::connect(redis.url().as_str()).await.unwrap(), &pool);
    for left in (0..10).rev() {
        let mut tx = Tx::unfenced(&pool).await.unwrap();
        sqlx::query("update stock set quantity = $1").bind(left).execute(&mut *tx).await.unwrap();
        tx.invalidate(&cache, &Sku("a"));
        tx.commit().await.unwrap();
        assert_eq!(cache.get(&Sku("a")).await.unwrap().value.as_deref().copied(), Some(left));
    }
    redis.end().await;
}
