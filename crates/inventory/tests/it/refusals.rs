use std::time::Duration;

use inventory::domain::Sku;
use reqwest::Method;
use stockade::{Locks, Redis};
use stockade_testbed::{Fault, Proxy};
use tokio::time::Instant;

use crate::stage::{Answer, Stage, until};

fn assert_refused(answer: &Answer, status: u16, problem: &str) {
    assert_eq!((answer.status.as_u16(), answer.problem().as_str()), (status, problem), "{answer:?}");
    assert_eq!(answer.json()["applied"], false, "{answer:?}");
    assert!(answer.json()["retry_after_ms"].is_u64(), "{answer:?}");
    assert!(answer.header("retry-after").parse::<u64>().unwrap() >= 1, "{answer:?}");
}

#[tokio::test]
async fn who_waits_too_long_and_who_finds_too_many_waiting_is_told_when_to_come_back() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[("LOCK_WAIT", "1s"), ("LOCK_MAX_WAITERS", "1")]).await;
    instance.put("A", 10).await;
    let locks = Locks::new(&Redis::connect(stage.redis.url()).await.unwrap());
    until("the test has its locks", async || !locks.is_degraded()).await;
    let held = locks.write(&Sku::new("A").unwrap()).acquire().await.unwrap();

    let started = Instant::now();
    let waiting = async { (instance.adjust("A", -1).await, started.elapsed()) };
    let refused = async {
        until("one waits", async || locks.inspect("stock:A").await.unwrap().waiting == 1).await;
        instance.adjust("A", -1).await
    };
    let ((waited, took), refused) = tokio::join!(waiting, refused);
    assert_refused(&waited, 423, "lock-timeout");
    assert!(took >= Duration::from_secs(1), "{took:?}");
    assert_refused(&refused, 429, "queue-full");
    held.release().await.unwrap();
    assert_eq!(instance.adjust("A", -1).await.status, 200);
    assert_eq!(stage.count("select quantity from stock").await, 9);
}

#[tokio::test]
async fn a_read_that_writers_keep_from_its_lock_is_answered_without_it_and_says_so() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[("LOCK_WAIT", "4s"), ("LOCK_MAX_WAITERS", "1")]).await;
    let tag = instance.put("A", 10).await.header("etag").to_owned();
    assert_eq!(instance.get("/stock/A").await.header("etag"), tag);
    let locks = Locks::new(&Redis::connect(stage.redis.url()).await.unwrap());
    until("the test has its locks", async || !locks.is_degraded()).await;
    let held = locks.write(&Sku::new("A").unwrap()).acquire().await.unwrap();

    let read = async || {
        let request = instance.request(Method::GET, "/stock/A").header("if-none-match", &tag);
        let read = Answer::to(request).await;
        assert_eq!((read.status.as_u16(), &read.json()["quantity"]), (200, &10.into()), "{read:?}");
        assert!(read.header("cache-status").ends_with("; detail=unlocked"), "{read:?}");
        assert_eq!(read.header("etag"), "", "a write may be under way: {read:?}");
        read.took
    };
    let waited = read().await;
    assert!((Duration::from_millis(100)..Duration::from_secs(4)).contains(&waited), "{waited:?}");
    // The read is answered a moment before its place in the queue is given up.
    until("nobody waits", async || locks.inspect("stock:A").await.unwrap().waiting == 0).await;
    let full = async {
        until("one waits", async || locks.inspect("stock:A").await.unwrap().waiting == 1).await;
        read().await;
        held.release().await.unwrap();
    };
    let (written, ()) = tokio::join!(instance.adjust("A", -1), full);
    assert_eq!(written.status, 200, "{written:?}");
    let after = instance.get("/stock/A").await;
    assert_eq!((&after.json()["quantity"], after.header("etag").is_empty()), (&9.into(), false), "{after:?}");
}

#[tokio::test]
async fn a_stale_holder_is_refused_and_its_successor_served() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[]).await;
    let token: i64 = instance.put("A", 10).await.header("fencing-token").parse().unwrap();
    // As after a failover that lost grants: the fence has seen a token that the lock store does not know.
    sqlx::query("update stockade.fence set token = $1, owner = 'elsewhere' where resource = 'stock:A'")
        .bind(token + 60_000_000)
        .execute(&stage.pool)
        .await
        .unwrap();
    assert_refused(&instance.adjust("A", -1).await, 503, "fence-stale");
    let metrics = instance.metrics().await;
    assert!(metrics.contains("inventory_fence_rejected_total 1"), "{metrics}");
    let next = instance.adjust("A", -1).await;
    assert_eq!(next.status, 200, "{next:?}");
    assert!(next.header("fencing-token").parse::<i64>().unwrap() > token + 60_000_000);
    assert_eq!(stage.count("select quantity from stock").await, 9);
}

#[tokio::test]
async fn a_fence_held_by_another_transaction_is_waited_for_and_then_reported() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[("STATEMENT_TIMEOUT", "500ms")]).await;
    instance.put("A", 10).await;
    let mut other = stage.pool.begin().await.unwrap();
    sqlx::query("select from stockade.fence for update").execute(&mut *other).await.unwrap();
    assert_refused(&instance.adjust("A", -1).await, 503, "fence-busy");
    other.rollback().await.unwrap();
    assert_eq!(instance.adjust("A", -1).await.status, 200);
}

#[tokio::test]
async fn without_a_free_connection_nothing_is_applied() {
    let stage = Stage::start().await;
    let settings = [("DATABASE_MAX_CONNECTIONS", "1"), ("DATABASE_ACQUIRE_TIMEOUT", "300ms")];
    let instance = stage.serve(&settings).await;
    instance.put("A", 10).await;
    instance.put("B", 10).await;
    let row = stage.hold_row().await;
    let busy = instance.put("A", 9);
    let other = async {
        stage.until_one_waits_for_a_row().await;
        assert_refused(&instance.adjust("B", -1).await, 503, "database-unavailable");
        assert_eq!(instance.get("/stock").await.problem(), "database-unavailable");
        row.rollback().await.unwrap();
    };
    let (busy, ()) = tokio::join!(busy, other);
    assert_eq!(busy.status, 200, "{busy:?}");
    assert_eq!(stage.count("select sum(quantity)::bigint from stock").await, 19);
}

#[tokio::test]
async fn a_database_that_goes_away_is_named_and_comes_back_by_itself() {
    let stage = Stage::start().await;
    let instance = stage.serve(&[("SKU_FILTER", "off")]).await;
    instance.put("A", 10).await;
    instance.get("/stock/A").await;
    stage.postgres.kill().await.unwrap();
    let refused = instance.adjust("A", -1).await;
    assert_refused(&refused, 503, "database-unavailable");
    assert_eq!(instance.get("/stock/A").await.status, 200, "what is cached is still read");
    assert_eq!(instance.get("/stock/unknown").await.problem(), "database-unavailable");
    stage.postgres.restart().await.unwrap();
    until("writes go on", async || instance.adjust("A", -1).await.status == 200).await;
    let pool = sqlx::PgPool::connect(&stage.database_url).await.unwrap();
    let quantity: i64 = sqlx::query_scalar("select quantity from stock").fetch_one(&pool).await.unwrap();
    assert_eq!(quantity, 9);
}

#[tokio::test]
async fn an_unanswered_commit_is_not_called_a_failure() {
    let stage = Stage::start().await;
    let proxy = Proxy::start(stage.postgres.addr()).await.unwrap();
    let instance = stage.serve(&[("DATABASE_URL", &proxy.url_for(&stage.database_url))]).await;
    instance.put("A", 10).await;
    // A check at the end of the transaction makes its COMMIT wait for a lock that the test holds.
    sqlx::raw_sql(
        "create function wait_at_commit() returns trigger language plpgsql as
            $$ begin perform pg_advisory_xact_lock(1); return null; end $$;
         create constraint trigger wait_at_commit after insert on movement deferrable initially deferred
            for each row execute function wait_at_commit()",
    )
    .execute(&stage.pool)
    .await
    .unwrap();
    let mut gate = stage.pool.begin().await.unwrap();
    sqlx::query("select pg_advisory_xact_lock(1)").execute(&mut *gate).await.unwrap();
    let write = async { Answer::to(instance.adjustment("A", -1).header("idempotency-key", "k")).await };
    let cut = async {
        stage.until_one_waits_for_a_row().await;
        // The answer to COMMIT is lost, COMMIT itself is not.
        proxy.set(Fault::DropReplies);
        gate.rollback().await.unwrap();
        until("it is committed", async || stage.count("select quantity from stock").await == 9).await;
        proxy.reset_connections();
        proxy.set(Fault::None);
    };
    let (answer, ()) = tokio::join!(write, cut);
    assert_eq!((answer.status.as_u16(), answer.problem().as_str()), (503, "outcome-unknown"), "{answer:?}");
    assert_eq!(answer.json().get("applied"), Some(&serde_json::Value::Null), "{answer:?}");
    assert_eq!(answer.header("retry-after"), "", "a blind retry could apply it twice");
    let again = Answer::to(instance.adjustment("A", -1).header("idempotency-key", "k")).await;
    assert_eq!((again.status.as_u16(), again.header("idempotent-replayed")), (200, "true"), "{again:?}");
    assert_eq!(stage.count("select quantity from stock").await, 9);
}
