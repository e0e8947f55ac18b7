//! The answers of a handler that returns a `WriteError`.

use axum::{Router, extract::State, http::Method, routing::post};
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, PgPool};
use stockade::{Fence, Locks, postgres::WriteError, route_lock::RouteLock};

use super::support::{Answer, Sku, request, send};
use crate::postgres::database;

async fn take_one(State(pool): State<PgPool>, fence: Fence) -> Result<&'static str, WriteError> {
    let mut tx = fence.begin(&pool).await?;
    sqlx::query("update stock set quantity = quantity - 1 where sku = 'a'").execute(&mut *tx).await?;
    tx.commit().await?;
    Ok("applied")
}

async fn run(pool: &PgPool, sql: impl Into<String>) {
    sqlx::raw_sql(AssertSqlSafe(sql.into())).execute(pool).await.unwrap();
}

/// The answer to a write that `sql` has made impossible.
async fn answer_after(app: &Router, pool: &PgPool, sql: &str) -> Answer {
    run(pool, sql).await;
    send(app, request(Method::POST, "/stock/a")).await
}

#[tokio::test]
async fn a_write_error_says_what_became_of_the_write_and_nothing_internal() {
    let (_server, pool) = database().await;
    let lock = RouteLock::by::<Sku>(&Locks::memory());
    let app = Router::new().route("/stock/{sku}", post(take_one).route_layer(lock)).with_state(pool.clone());
    assert_eq!(send(&app, request(Method::POST, "/stock/a")).await.text(), "applied");

    let stale = answer_after(&app, &pool, "update stockade.fence set token = token + 1000000").await;
    assert_eq!(stale.refusal(503, "fence-stale")["applied"], json!(false));
    assert_eq!(stale.headers["retry-after"], "1");

    let mut other = pool.begin().await.unwrap();
    sqlx::query("select * from stockade.fence for update").execute(&mut *other).await.unwrap();
    let busy = send(&app, request(Method::POST, "/stock/a")).await;
    assert_eq!(busy.refusal(503, "fence-busy")["applied"], json!(false));
    other.rollback().await.unwrap();

    let refused = answer_after(&app, &pool, "alter table stock add constraint secret check (quantity > 8)").await;
    assert_eq!(refused.refusal(500, "internal")["applied"], json!(false));
    assert!(!refused.text().contains("secret") && !refused.headers.contains_key("retry-after"), "{}", refused.text());

    // The session ends within COMMIT, so its answer says nothing about the transaction.
    let ended = "alter table stock drop constraint secret;
        create function end_session() returns trigger language plpgsql as
            $$ begin perform pg_terminate_backend(pg_backend_pid()); return null; end $$;
        create constraint trigger end_session after update on stock deferrable initially deferred
            for each row execute function end_session()";
    let unknown = answer_after(&app, &pool, ended).await;
    assert_eq!(unknown.refusal(503, "outcome-unknown")["applied"], Value::Null);
    assert!(!unknown.headers.contains_key("retry-after"));

    let quantity: i32 = sqlx::query_scalar("select quantity from stock").fetch_one(&pool).await.unwrap();
    assert_eq!(quantity, 9, "one write of five was applied");
    let missing = answer_after(&app, &pool, "drop table stock").await;
    assert_eq!(missing.refusal(503, "database-unavailable")["applied"], json!(false));
}
