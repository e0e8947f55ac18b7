use std::{borrow::Cow, sync::Arc};

use inventory::db::connect::tested_when_idle;
use sqlx::{PgPool, postgres::PgPoolOptions};
use stockade::{
    Cache, Redis, Resource,
    postgres::{self, Tx},
};
use stockade_testbed::{PostgresServer, RedisServer};

use crate::contender::{Contender, Failure};

#[derive(Clone)]
struct Row(i32);

impl Resource for Row {
    const KIND: &'static str = "row";

    fn id(&self) -> Cow<'_, str> {
        Cow::Owned(self.0.to_string())
    }
}

type Rows = Cache<Row, i32>;

/// A bare transaction, the same with the invalidation of an eventual cache, and with that of a strict one; each task
/// changes a row of its own.
pub(crate) async fn contenders(redis: &RedisServer, postgres: &PostgresServer) -> Result<Vec<Contender>, Failure> {
    let pool = tested_when_idle(PgPoolOptions::new()).max_connections(16).connect(&postgres.url()).await?;
    postgres::install(&pool).await?;
    sqlx::raw_sql("create table if not exists rows (id int primary key, n int not null)").execute(&pool).await?;
    sqlx::raw_sql("insert into rows select id, 0 from generate_series(0, 63) id on conflict do nothing")
        .execute(&pool)
        .await?;
    let redis = Redis::connect(redis.url()).await?;
    let loader = || {
        let pool = pool.clone();
        move |row: Row| {
            let pool = pool.clone();
            async move { sqlx::query_scalar("select n from rows where id = $1").bind(row.0).fetch_optional(&pool).await }
        }
    };
    let eventual = Arc::new(Cache::builder(&redis).name("eventual").loader(loader()).build());
    let strict = Arc::new(Cache::builder(&redis).name("strict").loader(loader()).strict(&pool).build());
    let (bare, mine, own) = (pool.clone(), pool.clone(), pool);
    Ok(vec![
        Contender::new("BEGIN, UPDATE, COMMIT", move |task| change(bare.clone(), task, None)),
        Contender::new("the same, eventual cache", move |task| change(mine.clone(), task, Some(Arc::clone(&eventual)))),
        Contender::new("the same, strict cache", move |task| change(own.clone(), task, Some(Arc::clone(&strict)))),
    ])
}

async fn change(pool: PgPool, task: u32, cache: Option<Arc<Rows>>) -> Result<(), Failure> {
    const UPDATE: &str = "update rows set n = n + 1 where id = $1";
    let id = i32::try_from(task)?;
    if let Some(cache) = cache {
        let mut tx = Tx::unfenced(&pool).await?;
        sqlx::query(UPDATE).bind(id).execute(&mut *tx).await?;
        tx.invalidate(&cache, &Row(id));
        tx.commit().await?;
    } else {
        let mut tx = pool.begin().await?;
        sqlx::query(UPDATE).bind(id).execute(&mut *tx).await?;
        tx.commit().await?;
    }
    Ok(())
}
