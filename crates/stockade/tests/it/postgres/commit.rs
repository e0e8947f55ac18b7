use std::time::Duration;

use futures_util::FutureExt;
use sqlx::Connection;
use stockade::{
    Cache, Locks,
    cache::Source,
    postgres::{CommitError, Tx},
};
use stockade_testbed::PostgresServer;

use super::{
    Sku,
    cached::{World, online, read},
    database, quantity,
};

#[tokio::test]
async fn a_commit_refused_by_a_deferred_constraint_is_not_applied() {
    let (_server, pool) = database().await;
    sqlx::raw_sql("create table twice (n int unique deferrable initially deferred)").execute(&pool).await.unwrap();
    let held = Locks::memory().write(&Sku("a")).acquire().await.unwrap();
    let mut tx = held.begin(&pool).await.unwrap();
    sqlx::query("insert into twice values (1), (1)").execute(&mut *tx).await.unwrap();
    let refused = tx.commit().await.unwrap_err();
    assert!(matches!(refused, CommitError::NotApplied(_)), "{refused:?}");
    assert_eq!(refused.applied(), Some(false));
}

#[tokio::test]
async fn a_failed_statement_that_nobody_looked_at_does_not_commit_as_a_success() {
    let (_server, pool) = database().await;
    let held = Locks::memory().write(&Sku("a")).acquire().await.unwrap();
    let mut tx = held.begin(&pool).await.unwrap();
    sqlx::query("update stock set quantity = 9").execute(&mut *tx).await.unwrap();
    let _ = sqlx::query("select 1 / 0").execute(&mut *tx).await;
    let refused = tx.commit().await.unwrap_err();
    assert!(matches!(refused, CommitError::NotApplied(_)), "{refused:?}");
    assert_eq!(quantity(&mut pool.acquire().await.unwrap()).await, 10);
}

#[tokio::test]
async fn a_session_that_ended_before_commit_was_sent_is_not_applied() {
    let (_server, pool) = database().await;
    let held = Locks::memory().write(&Sku("a")).acquire().await.unwrap();
    let mut tx = held.begin(&pool).await.unwrap();
    sqlx::query("update stock set quantity = 9").execute(&mut *tx).await.unwrap();
    let pid: i32 = sqlx::query_scalar("select pg_backend_pid()").fetch_one(&mut *tx).await.unwrap();
    sqlx::query("select pg_terminate_backend($1, 5000)").bind(pid).execute(&pool).await.unwrap();
    let ended = tx.commit().await.unwrap_err();
    assert!(matches!(ended, CommitError::NotApplied(_)), "{ended:?}");
    assert_eq!(quantity(&mut pool.acquire().await.unwrap()).await, 10);
}

#[tokio::test]
async fn a_transaction_that_is_dropped_rolls_back_and_frees_the_fence() {
    let (_server, pool) = database().await;
    let held = Locks::memory().write(&Sku("a")).acquire().await.unwrap();
    let mut tx = held.begin(&pool).await.unwrap();
    sqlx::query("update stock set quantity = 9").execute(&mut *tx).await.unwrap();
    drop(tx);
    let mut tx = held.begin(&pool).await.unwrap();
    assert_eq!(quantity(&mut tx).await, 10);
}

#[tokio::test]
async fn caches_of_one_name_are_told_of_their_own_keys() {
    let (_server, pool) = database().await;
    let build = || {
        let lives = Duration::from_secs(60);
        Cache::memory().ttl(lives..=lives).loader(|_: Sku| async { Ok::<_, sqlx::Error>(Some(1)) }).build()
    };
    let (one, other) = (build(), build());
    let source = async |cache: &Cache<Sku, i32>, id| cache.get(&Sku(id)).await.unwrap().info.source;
    for cache in [&one, &other] {
        for id in ["a", "b"] {
            assert_eq!((source(cache, id).await, source(cache, id).await), (Source::Load, Source::Local));
        }
    }
    let mut tx = Tx::unfenced(&pool).await.unwrap();
    tx.invalidate(&one, &Sku("a"));
    tx.invalidate(&other, &Sku("b"));
    tx.commit().await.unwrap();
    assert_eq!((source(&one, "a").await, source(&one, "b").await), (Source::Load, Source::Local));
    assert_eq!((source(&other, "a").await, source(&other, "b").await), (Source::Local, Source::Load));
}

/// Changes the stock by a transaction that a savepoint ends in the middle. Returns what the cache answers afterwards.
async fn ended_by(savepoint: impl AsyncFnOnce(&PostgresServer, &mut Tx), strict: bool) -> (CommitError, i32) {
    let world = World::patient().await;
    let cache = if strict { world.cache().await } else { online(world.at(&world.redis.url()).await).await };
    assert_eq!(read(&cache).await, 10);
    let mut tx = Tx::unfenced(&world.pool).await.unwrap();
    tx.invalidate(&cache, &Sku("a"));
    sqlx::query("update stock set quantity = quantity - 1").execute(&mut *tx).await.unwrap();
    savepoint(&world.postgres, &mut tx).await;
    sqlx::query("update stock set quantity = quantity - 5").execute(&mut *tx).await.unwrap();
    let ended = tx.commit().await.unwrap_err();
    let answer = read(&cache).await;
    drop(cache);
    world.end().await;
    (ended, answer)
}

#[tokio::test]
async fn a_savepoint_that_ended_the_transaction_leaves_the_outcome_unknown_and_nothing_stale() {
    let dropped = async |server: &PostgresServer, tx: &mut Tx| {
        server.pause().unwrap();
        assert!(tx.begin().now_or_never().is_none());
        server.resume().unwrap();
    };
    let failed = async |_: &PostgresServer, tx: &mut Tx| {
        sqlx::query("select 1 / 0").execute(&mut **tx).await.unwrap_err();
        drop(tx.begin().await.unwrap_err());
    };
    for strict in [false, true] {
        for (ended, answer) in [ended_by(dropped, strict).await, ended_by(failed, strict).await] {
            assert!(matches!(ended, CommitError::Ended), "{ended:?}");
            assert_eq!((ended.applied(), answer), (None, 5));
        }
    }
}
