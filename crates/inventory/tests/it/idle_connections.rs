//! Connections that Postgres closes while they are idle.

use futures_util::future::join_all;
use reqwest::StatusCode;

use crate::stage::{Answer, Instance, Stage, until};

const SKUS: [&str; 8] = ["A", "B", "C", "D", "E", "F", "G", "H"];

/// A write of each SKU, all at once. Returns the answers to those that were not made.
async fn put_all(instance: &Instance) -> Vec<Answer> {
    let answers = join_all(SKUS.map(|sku| instance.put(sku, 2))).await;
    answers.into_iter().filter(|answer| answer.status != StatusCode::OK).collect()
}

/// When the service used one of its connections last; none while it uses one, and within 200 ms after.
async fn last_use(stage: &Stage) -> Option<String> {
    let last = "select max(state_change)::text from pg_stat_activity where application_name = 'service'
        having bool_and(state = 'idle') and max(state_change) < clock_timestamp() - interval '200 ms'";
    sqlx::query_scalar(last).fetch_optional(&stage.pool).await.unwrap()
}

#[tokio::test]
async fn connections_that_the_database_closed_while_they_were_idle_fail_no_request() {
    let stage = Stage::start().await;
    let url = format!("{}?application_name=service", stage.database_url);
    // The first request after the close opens new connections, which takes a while on a busy machine.
    let instance = stage.serve(&[("DATABASE_URL", &url), ("DATABASE_ACQUIRE_TIMEOUT", "5s")]).await;
    for sku in SKUS {
        assert_eq!(instance.put(sku, 1).await.status, StatusCode::CREATED);
    }
    // While the table is locked each write needs a connection of its own.
    let mut held = stage.pool.begin().await.unwrap();
    sqlx::query("lock table stock").execute(&mut *held).await.unwrap();
    let (refused, ()) = tokio::join!(put_all(&instance), async {
        let waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'";
        until("all wait", async || stage.count(waiting).await == 8).await;
        held.rollback().await.unwrap();
    });
    assert!(refused.is_empty(), "{refused:?}");

    // A connection that was in use within the last 10 ms is not tested before its next use. The service's own work uses
    // some, so the service is stopped. An answer that it reads only when it goes on would count as a use at that moment.
    until("all are idle, and every answer is read", async || {
        instance.thaw();
        let Some(before) = last_use(&stage).await else { return false };
        instance.freeze();
        until("all are idle", async || last_use(&stage).await.is_some()).await;
        last_use(&stage).await == Some(before)
    })
    .await;
    let idle = "select array_agg(pid) from pg_stat_activity where application_name = 'service'";
    let closed: Vec<i32> = sqlx::query_scalar(idle).fetch_one(&stage.pool).await.unwrap();
    assert!(closed.len() >= SKUS.len(), "{closed:?}");
    let close = "select pg_terminate_backend(pid) from unnest($1) pid";
    sqlx::query(close).bind(&closed).execute(&stage.pool).await.unwrap();
    until("they are gone", async || {
        let left = "select count(*) = 0 from pg_stat_activity where pid = any($1)";
        sqlx::query_scalar(left).bind(&closed).fetch_one(&stage.pool).await.unwrap()
    })
    .await;
    instance.thaw();
    let refused = put_all(&instance).await;
    assert!(refused.is_empty(), "{refused:?}");
}
