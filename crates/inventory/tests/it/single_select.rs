//! A thousand readers of a row that is in no cache cost the database one query.

use std::time::Duration;

use futures_util::future::join_all;
use reqwest::StatusCode;

use crate::{
    stage::{Instance, Stage},
    support::{alone, figure, fleet, lock_keys, within},
};

const READERS: usize = 1_000;

/// Long time-outs. A query that timed out on a busy machine would be repeated.
const PATIENT: [(&str, &str); 8] = [
    // With the filter, an absent SKU would need no select.
    ("SKU_FILTER", "off"),
    ("REDIS_TIMEOUT", "5s"),
    ("LOCK_WAIT", "15s"),
    ("DATABASE_ACQUIRE_TIMEOUT", "20s"),
    ("STATEMENT_TIMEOUT", "20s"),
    ("REQUEST_TIMEOUT", "60s"),
    ("LOCK_LEASE", "60s"),
    ("SHUTDOWN_GRACE", "60s"),
];

/// How often the service has read one SKU since the last reset.
async fn selects(stage: &Stage) -> i64 {
    let sql = "select coalesce(sum(calls), 0)::bigint from pg_stat_statements
        where query ~* '^\\s*select .* from stock where sku = '";
    stage.count(sql).await
}

async fn read_by_all(stage: &Stage, instances: &[Instance], path: &str, status: StatusCode) -> i64 {
    sqlx::query("select pg_stat_statements_reset()").execute(&stage.pool).await.unwrap();
    let answers = join_all((0..READERS).map(|reader| instances[reader % instances.len()].get(path))).await;
    for answer in &answers {
        assert_eq!(answer.status, status, "{answer:?}");
    }
    let slowest = answers.iter().map(|answer| answer.took).max().unwrap();
    let selects = selects(stage).await;
    figure(&format!(
        "{READERS} readers of {path} over {} instances: {selects} select, slowest {slowest:?}",
        instances.len()
    ));
    selects
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_readers_of_a_cold_sku_over_three_processes_cost_one_select() {
    let _alone = alone().await;
    let stage = Stage::start().await;
    sqlx::query("create extension pg_stat_statements").execute(&stage.pool).await.unwrap();
    let instances = fleet(&stage, 3, &PATIENT).await;
    instances[0].put("cold", 7).await;

    assert_eq!(read_by_all(&stage, &instances, "/stock/cold", StatusCode::OK).await, 1);
    assert_eq!(instances[1].get("/stock/cold").await.json()["quantity"], 7);
    assert_eq!(read_by_all(&stage, &instances, "/stock/absent", StatusCode::NOT_FOUND).await, 1);
    // The delegation that the readers of an instance shared ends when nobody has used it for a while.
    let nothing = async || lock_keys(&stage).await.is_empty();
    within(Duration::from_secs(5), "no reader left anything behind", nothing).await;
}
