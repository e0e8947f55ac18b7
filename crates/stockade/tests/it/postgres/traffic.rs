//! The commands that a write sends to Redis because of a cache, as Redis counts them.

use sqlx::PgPool;
use stockade::{Cache, Redis, postgres::Tx};
use stockade_testbed::RedisServer;

use super::{Sku, database, until};
use crate::{
    redis_traffic::calls,
    world::{World, cached},
};

const WRITES: u64 = 50;

/// How many scripts the server runs during the writes, one after the other. Those of the heartbeat count, one a second.
async fn scripts(server: &RedisServer, pool: &PgPool, cache: &Cache<Sku, i32>) -> u64 {
    until(async || !cache.is_degraded()).await;
    server.command(&["CONFIG", "RESETSTAT"]).await.unwrap();
    for quantity in 0..WRITES {
        let mut tx = Tx::unfenced(pool).await.unwrap();
        let set = sqlx::query("update stock set quantity = $1").bind(i32::try_from(quantity).unwrap());
        set.execute(&mut *tx).await.unwrap();
        tx.invalidate(cache, &Sku("a"));
        tx.commit().await.unwrap();
    }
    calls(server).await["evalsha"]
}

#[tokio::test]
async fn a_write_is_one_script_and_a_strict_one_is_two() {
    let (_postgres, pool) = database().await;
    let server = World::start().await;
    let redis = Redis::connect(server.url()).await.unwrap();
    let builder = |name| Cache::builder(&redis).name(name).loader(|_: Sku| async { Ok::<_, sqlx::Error>(None::<i32>) });
    let eventual = scripts(&server, &pool, &cached(builder("eventual").build())).await;
    assert!((WRITES..WRITES * 3 / 2).contains(&eventual), "{eventual}");
    let strict = scripts(&server, &pool, &cached(builder("strict").strict(&pool).build())).await;
    assert!((2 * WRITES..WRITES * 5 / 2).contains(&strict), "{strict}");
    server.end().await;
}
