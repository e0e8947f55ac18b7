//! The filter of existing ids and the transactions that create them.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use futures_util::{StreamExt, TryStreamExt, stream};
use sqlx::PgPool;
use stockade::{
    Cache, Redis,
    cache::{Bloom, Source},
    postgres::{self, CommitError, Tx},
};

use super::{Sku, database, looked_twice, until};
use crate::world::{World, attended, cached};

/// A filter that reads all ids, after every transaction that was writing has ended. Counts how often its source begins.
pub(super) fn filter(redis: &Redis, pool: &PgPool, begun: &Arc<AtomicUsize>) -> Bloom {
    let (pool, begun) = (pool.clone(), Arc::clone(begun));
    let source = move || {
        let pool = pool.clone();
        begun.fetch_add(1, Ordering::SeqCst);
        let skus = async move {
            postgres::settled(&pool).await?;
            let skus: Vec<String> = sqlx::query_scalar("select sku from stock").fetch_all(&pool).await?;
            Ok::<_, sqlx::Error>(stream::iter(skus.into_iter().map(|sku| Ok::<_, sqlx::Error>(Sku(sku.leak())))))
        };
        stream::once(skus).try_flatten().boxed()
    };
    attended(Bloom::builder::<Sku>(redis).source(source).build())
}

pub(super) async fn create(pool: &PgPool, sku: &str) -> Tx {
    let mut tx = Tx::unfenced(pool).await.unwrap();
    sqlx::query("insert into stock values ($1, 5)").bind(sku).execute(&mut *tx).await.unwrap();
    tx
}

#[tokio::test]
async fn a_row_whose_id_was_added_is_found_as_soon_as_it_is_committed() {
    let (_server, pool) = database().await;
    let server = World::start().await;
    let redis = Redis::connect(server.url()).await.unwrap();
    let bloom = filter(&redis, &pool, &Arc::default());
    let load = {
        let pool = pool.clone();
        move |sku: Sku| {
            let pool = pool.clone();
            async move {
                let select = sqlx::query_scalar::<_, i32>("select quantity from stock where sku = $1");
                select.bind(sku.0).fetch_optional(&pool).await
            }
        }
    };
    let cache = cached(Cache::<Sku, i32>::builder(&redis).bloom(&bloom).loader(load).build());
    until(async || bloom.stats().ready && !cache.is_degraded()).await;
    assert_eq!(cache.get(&Sku("new")).await.unwrap().info.source, Source::Filter);
    let mut tx = create(&pool, "new").await;
    tx.add(&bloom, &Sku("new"));
    tx.invalidate(&cache, &Sku("new"));
    tx.commit().await.unwrap();
    assert_eq!(cache.get(&Sku("new")).await.unwrap().value.as_deref(), Some(&5));
    // Without the addition, the filter hides the new row.
    create(&pool, "forgotten").await.commit().await.unwrap();
    assert_eq!(cache.get(&Sku("forgotten")).await.unwrap().info.source, Source::Filter);
    server.end().await;
}

#[tokio::test]
async fn a_row_whose_id_could_not_be_added_is_not_committed() {
    let (_server, pool) = database().await;
    let server = World::start().await;
    let redis = Redis::connect(server.url()).await.unwrap();
    let bloom = filter(&redis, &pool, &Arc::default());
    until(async || bloom.stats().ready).await;
    let mut tx = create(&pool, "new").await;
    tx.add(&bloom, &Sku("new"));
    server.pause().unwrap();
    let refused = tx.commit().await.unwrap_err();
    assert!(matches!(refused, CommitError::Announce(_)), "{refused:?}");
    let rows: i64 = sqlx::query_scalar("select count(*) from stock where sku = 'new'").fetch_one(&pool).await.unwrap();
    assert_eq!(rows, 0);
    server.resume().unwrap();
    server.end().await;
}

#[tokio::test]
async fn a_transaction_that_commits_while_the_filter_is_built_is_in_it() {
    let (_server, pool) = database().await;
    let server = World::start().await;
    let redis = Redis::connect(server.url()).await.unwrap();
    // The transaction adds its id to no filter, so only the source can find the id.
    let tx = create(&pool, "slow").await;
    let begun = Arc::default();
    let bloom = filter(&redis, &pool, &begun);
    until(async || begun.load(Ordering::SeqCst) == 1).await;
    // The source has begun, and asks again and again whether the transaction is over.
    looked_twice(&pool, async || bloom.stats().ready).await;
    assert!(!bloom.stats().ready, "complete although a transaction was about to commit");
    tx.commit().await.unwrap();
    until(async || bloom.stats().ready).await;
    assert!(bloom.may_hold(&Sku("slow")).await, "an id that exists is answered as absent");
    assert!(!bloom.may_hold(&Sku("none")).await);
    server.end().await;
}
