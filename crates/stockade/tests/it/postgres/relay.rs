//! A cache on a real Redis that can't be reached at the moment of the commit.

use std::{sync::Arc, time::Duration};

use sqlx::PgPool;
use stockade::{
    Cache, Redis,
    cache::Source,
    postgres::{Relay, Tx},
};
use stockade_testbed::{Fault, Proxy};
use tokio::time::Instant;

use super::{Sku, cached::stock_at, database, pending, until};
use crate::world::{World, cached, patient};

fn cache(redis: &Redis, pool: &PgPool) -> Cache<Sku, i32> {
    cached(stock_at(redis, pool, &Arc::default()).build())
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

#[tokio::test]
async fn a_commit_of_many_keys_has_dropped_all_of_them_when_it_returns() {
    const KEYS: usize = 600;
    let (_server, pool) = database().await;
    let redis = World::start().await;
    let proxy = Proxy::start(redis.addr()).await.unwrap();
    let writers = cache(&patient(&proxy.url_for(&redis.url())).await, &pool);
    let readers = cache(&patient(&redis.url()).await, &pool);
    let skus: Vec<Sku> = (0..KEYS).map(|number| Sku(number.to_string().leak())).collect();
    sqlx::query("insert into stock select n::text, 10 from generate_series(0, $1) n")
        .bind(i32::try_from(KEYS).unwrap())
        .execute(&pool)
        .await
        .unwrap();
    let values = async || {
        let mut values = Vec::new();
        for sku in &skus {
            values.push(readers.get(sku).await.unwrap().value.as_deref().copied());
        }
        values
    };
    assert_eq!(values().await, vec![Some(10); KEYS]);
    let stored = async || readers.get(&skus[0]).await.unwrap().info.source == Source::Redis;
    until(stored).await;

    // The cache answers each command, and takes about a second for all of them. No relay runs.
    proxy.set(Fault::Delay(Duration::from_millis(20)));
    let mut tx = Tx::unfenced(&pool).await.unwrap();
    sqlx::query("update stock set quantity = 9").execute(&mut *tx).await.unwrap();
    for sku in skus.iter().chain(&skus) {
        tx.invalidate(&writers, sku);
    }
    tx.commit().await.unwrap();
    assert_eq!(values().await, vec![Some(9); KEYS]);
    let rows: i64 = sqlx::query_scalar("select count(*) from stockade.outbox").fetch_one(&pool).await.unwrap();
    assert_eq!(rows, i64::try_from(KEYS).unwrap(), "a key that was named twice has one row");
    proxy.set(Fault::None);
    redis.end_behind(proxy).await;
}

#[tokio::test]
async fn a_commit_of_many_keys_does_not_wait_for_a_silent_cache_once_for_each() {
    let (_server, pool) = database().await;
    let redis = World::start().await;
    let proxy = Proxy::start(redis.addr()).await.unwrap();
    let writers = cache(&Redis::connect(proxy.url_for(&redis.url()).as_str()).await.unwrap(), &pool);
    until(async || !writers.is_degraded()).await;
    proxy.set(Fault::Hole);
    let mut tx = Tx::unfenced(&pool).await.unwrap();
    for number in 0..5_000 {
        tx.invalidate(&writers, &Sku(number.to_string().leak()));
    }
    let started = Instant::now();
    tx.commit().await.unwrap();
    // One command time-out is 250 ms, and the connection sends some dozens of these commands at a time.
    assert!(started.elapsed() < Duration::from_secs(4), "the answer waited {:?}", started.elapsed());
    proxy.set(Fault::None);
    redis.end_behind(proxy).await;
}

#[tokio::test]
async fn a_row_from_before_the_clock_was_set_back_keeps_no_other_waiting() {
    let (_server, pool) = database().await;
    let cache = Cache::memory().loader(|_: Sku| async { Ok::<_, sqlx::Error>(Some(1)) }).build();
    sqlx::raw_sql(
        "insert into stockade.outbox (cache, resource, created_at, retry_at) values
             ('stock', 'stock:before', clock_timestamp() + interval '1 h', null),
             ('stock', 'stock:refused', clock_timestamp() + interval '1 h', clock_timestamp() + interval '61 min'),
             ('stock', 'stock:after', clock_timestamp() - interval '5 s', null)",
    )
    .execute(&pool)
    .await
    .unwrap();
    let relay = Relay::spawn(pool.clone(), [cache.invalidator()]);
    until(async || pending(&pool).await == 0).await;
    relay.shutdown(Duration::from_secs(1)).await;
}
