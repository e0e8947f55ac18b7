//! The answer to a write and the rows in the database, when the lease ends around the commit.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    http::Method,
    routing::{get, post},
};
use futures_util::future::join;
use serde_json::Value;
use sqlx::PgPool;
use stockade::{
    Fence, Locks, Redis,
    lock::{Force, MultiFence},
    postgres::{CommitError, GroupCommit, GroupWrite, Tx, WriteError},
    resource::Key,
    route_lock::RouteLock,
};
use stockade_testbed::{RedisServer, eventually};
use tokio::sync::{Notify, Semaphore, mpsc};
use tower::ServiceExt;

use super::support::{LIMIT, SHORT, Sku, idle, request, send};
use crate::postgres::database;

/// How long a transaction may take before its commit, also on a busy machine.
const HOLD: Duration = Duration::from_secs(1);

/// Makes every COMMIT that follows an update take this long.
async fn slow_commits(pool: &PgPool, seconds: f64) {
    let sql = format!(
        "create function slow() returns trigger language plpgsql as $$ begin perform pg_sleep({seconds}); return null; end $$;
         create constraint trigger slow after update on stock deferrable initially deferred
         for each row execute function slow()"
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(pool).await.unwrap();
}

async fn quantity(pool: &PgPool) -> i32 {
    sqlx::query_scalar("select quantity from stock where sku = 'a'").fetch_one(pool).await.unwrap()
}

async fn take_one(fence: &Fence, pool: &PgPool) -> Tx {
    let mut tx = fence.begin(pool).await.unwrap();
    sqlx::query("update stock set quantity = quantity - 1 where sku = 'a'").execute(&mut *tx).await.unwrap();
    tx
}

fn app(lock: RouteLock, pool: &PgPool) -> Router {
    let pool = pool.clone();
    let write = async move |fence: Fence| {
        take_one(&fence, &pool).await.commit().await.unwrap();
        "applied"
    };
    Router::new().route("/stock/{sku}", post(write).route_layer(lock))
}

#[tokio::test]
async fn a_commit_that_outlives_the_hold_gives_its_real_answer() {
    let (_server, pool) = database().await;
    slow_commits(&pool, 2.0).await;
    let locks = Locks::memory();
    let app = app(RouteLock::by::<Sku>(&locks).max_hold(HOLD).commit_timeout(LIMIT), &pool);
    let answer = send(&app, request(Method::POST, "/stock/a")).await;
    assert_eq!((answer.status.as_u16(), answer.text()), (200, "applied"));
    assert_eq!(quantity(&pool).await, 9);
    idle(&locks).await;
}

#[tokio::test]
async fn a_commit_that_outlives_every_limit_is_never_answered_as_not_applied() {
    let (_server, pool) = database().await;
    slow_commits(&pool, 2.0).await;
    let locks = Locks::memory();
    let app = app(RouteLock::by::<Sku>(&locks).max_hold(HOLD).commit_timeout(Duration::from_millis(100)), &pool);
    let answer = send(&app, request(Method::POST, "/stock/a")).await;
    assert_eq!(answer.refusal(503, "outcome-unknown")["applied"], Value::Null);
    assert_eq!(quantity(&pool).await, 10);
    // The handler is gone, but its COMMIT had reached the database.
    eventually("the commit is applied", async || quantity(&pool).await == 9).await;
}

#[tokio::test]
async fn a_client_that_leaves_within_the_commit_loses_no_write() {
    let (_server, pool) = database().await;
    slow_commits(&pool, 1.0).await;
    let locks = Locks::memory();
    let app = app(RouteLock::by::<Sku>(&locks), &pool);
    let leaving = tokio::time::timeout(Duration::from_millis(500), app.oneshot(request(Method::POST, "/stock/a")));
    assert!(leaving.await.is_err());
    idle(&locks).await;
    assert_eq!(quantity(&pool).await, 9);
}

#[tokio::test]
async fn a_transaction_left_behind_by_an_ended_handler_is_rolled_back_as_answered() {
    let (_server, pool) = database().await;
    let locks = Locks::memory();
    let (leave, mut left) = mpsc::channel(1);
    let write = {
        let pool = pool.clone();
        async move |fence: Fence| {
            leave.send(take_one(&fence, &pool).await).await.unwrap();
            std::future::pending::<()>().await;
        }
    };
    let lock = RouteLock::by::<Sku>(&locks).max_hold(HOLD);
    let app = Router::new().route("/stock/{sku}", post(write).route_layer(lock));
    let answer = send(&app, request(Method::POST, "/stock/a")).await;
    assert_eq!(answer.refusal(503, "lease-lost")["applied"], false);
    let refused = left.recv().await.unwrap().commit().await.unwrap_err();
    assert!(matches!(refused, CommitError::Closed), "{refused:?}");
    assert_eq!(refused.applied(), Some(false));
    assert_eq!(quantity(&pool).await, 10);
}

#[tokio::test]
async fn a_commit_under_several_locks_gives_its_real_answer_and_one_left_behind_is_refused() {
    let (_server, pool) = database().await;
    slow_commits(&pool, 2.0).await;
    let locks = Locks::memory();
    let (leave, mut left) = mpsc::channel(1);
    let write = {
        let pool = pool.clone();
        async move |fences: MultiFence, body: String| {
            let mut tx = fences.begin(&pool).await.unwrap();
            sqlx::query("update stock set quantity = quantity - 1 where sku = 'a'").execute(&mut *tx).await.unwrap();
            if body.is_empty() {
                tx.commit().await.unwrap();
                return "applied";
            }
            leave.send(tx).await.unwrap();
            std::future::pending().await
        }
    };
    let both = |_: ()| ["a", "b"].map(|sku| Key::of(&Sku(sku.to_owned())));
    let lock = RouteLock::write_all(&locks, both).max_hold(HOLD).commit_timeout(LIMIT);
    let app = Router::new().route("/moves", post(write).route_layer(lock));
    let answer = send(&app, request(Method::POST, "/moves")).await;
    assert_eq!((answer.status.as_u16(), answer.text()), (200, "applied"));

    let mut leaving = request(Method::POST, "/moves");
    *leaving.body_mut() = Body::from("leave it");
    let answer = send(&app, leaving).await;
    assert_eq!(answer.refusal(503, "lease-lost")["applied"], false);
    let refused = left.recv().await.unwrap().commit().await.unwrap_err();
    assert!(matches!(refused, CommitError::Closed), "{refused:?}");
    assert_eq!(quantity(&pool).await, 9);
    idle(&locks).await;
}

/// A handler under a permit that commits under a lock of its own, or under none, and does not end.
async fn commits_and_stays(locks: Locks, pool: PgPool, how: String) {
    let guard = locks.write(&Sku("a".to_owned())).acquire().await.unwrap();
    let mut tx = if how == "unfenced" { Tx::unfenced(&pool).await.unwrap() } else { guard.begin(&pool).await.unwrap() };
    sqlx::query("update stock set quantity = quantity - 1 where sku = 'a'").execute(&mut *tx).await.unwrap();
    if how != "nothing" {
        tx.commit().await.unwrap();
    }
    std::future::pending().await
}

#[tokio::test]
async fn a_commit_under_a_lock_that_the_handler_took_itself_is_never_answered_as_not_applied() {
    let (_server, pool) = database().await;
    let redis = RedisServer::start().await.unwrap();
    let locks = Locks::new(&Redis::connect(redis.url()).await.unwrap());
    let handler = {
        let (locks, pool) = (locks.clone(), pool.clone());
        move |how: String| commits_and_stays(locks.clone(), pool.clone(), how)
    };
    let lock = RouteLock::template(&locks, "render:{format}").permits(4).max_hold(HOLD).commit_timeout(SHORT);
    let app = Router::new().route("/render/{format}", get(handler.clone()).post(handler).route_layer(lock));
    let mut left = 10;
    for (how, slug) in [("fenced", "outcome-unknown"), ("unfenced", "outcome-unknown"), ("nothing", "lease-lost")] {
        // A permit of a safe method is held within the request, one of another method on a task of the locks.
        for method in [Method::GET, Method::POST] {
            let mut request = request(method, "/render/pdf");
            *request.body_mut() = Body::from(how);
            let problem = send(&app, request).await.refusal(503, slug);
            let committed = how != "nothing";
            assert_eq!(problem["applied"], if committed { Value::Null } else { false.into() }, "{how}");
            left -= i32::from(committed);
            assert_eq!(quantity(&pool).await, left, "{how}");
        }
    }
    idle(&locks).await;
}

#[tokio::test]
async fn a_commit_without_a_fence_is_rolled_back_once_its_request_was_ended() {
    let (_server, pool) = database().await;
    let locks = Locks::memory();
    let go = Arc::new(Notify::new());
    let (say, mut said) = mpsc::channel(1);
    let write = {
        let (go, pool) = (Arc::clone(&go), pool.clone());
        async move || {
            let mut tx = Tx::unfenced(&pool).await.unwrap();
            sqlx::query("update stock set quantity = 0 where sku = 'a'").execute(&mut *tx).await.unwrap();
            say.send(Ok(())).await.unwrap();
            go.notified().await;
            say.send(tx.commit().await).await.unwrap();
        }
    };
    // When the read loses the outer lock, it is answered. Its handler goes on under the inner lock.
    let inner = RouteLock::by::<Sku>(&locks).write();
    let outer = RouteLock::template(&locks, "shop:{sku}");
    let app = Router::new().route("/stock/{sku}", get(write).route_layer(inner).route_layer(outer));
    let lose = async {
        said.recv().await.unwrap().unwrap();
        locks.force_release("shop:a", Force::Now).await.unwrap();
    };
    let (answer, ()) = join(send(&app, request(Method::GET, "/stock/a")), lose).await;
    assert_eq!(answer.refusal(503, "lease-lost")["applied"], false);
    go.notify_one();
    let refused = said.recv().await.unwrap().unwrap_err();
    assert!(matches!(refused, CommitError::Closed), "{refused:?}");
    assert_eq!(quantity(&pool).await, 10);
    idle(&locks).await;
}

/// Sets the quantity to 0, and waits for a permit before that.
struct Emptied(Arc<Semaphore>);

impl GroupWrite for Emptied {
    type Change = ();
    type Answer = ();
    type Error = WriteError;

    async fn write(&self, tx: &mut Tx, changes: &[(Fence, ())]) -> Result<Vec<()>, WriteError> {
        self.0.acquire().await.unwrap().forget();
        sqlx::query("update stock set quantity = 0 where sku = 'a'").execute(&mut **tx).await?;
        Ok(vec![(); changes.len()])
    }
}

#[tokio::test]
async fn a_change_of_a_group_is_not_committed_once_its_request_was_ended() {
    let (_server, pool) = database().await;
    let locks = Locks::memory();
    for own_lock in [false, true] {
        let gate = Arc::new(Semaphore::new(0));
        let groups = GroupCommit::new(&pool, Emptied(Arc::clone(&gate)));
        let (say, mut said) = mpsc::channel(1);
        let write = {
            let (groups, locks) = (groups.clone(), locks.clone());
            async move |fence: Fence| {
                let own = locks.write(&Sku("own".to_owned())).acquire().await.unwrap();
                let fence = if own_lock { own.fence() } else { fence };
                say.send(groups.write(&fence, ()).await.map_err(|error| error.applied())).await.unwrap();
            }
        };
        // When the read loses the outer lock, it is answered. Its handler goes on under the inner lock.
        let inner = RouteLock::by::<Sku>(&locks).write();
        let outer = RouteLock::template(&locks, "shop:{sku}");
        let app = Router::new().route("/stock/{sku}", get(write).route_layer(inner).route_layer(outer));
        let lose = async {
            eventually("the group has begun", async || format!("{groups:?}").contains("under_way: 1")).await;
            locks.force_release("shop:a", Force::Now).await.unwrap();
        };
        let (answer, ()) = join(send(&app, request(Method::GET, "/stock/a")), lose).await;
        assert_eq!(answer.refusal(503, "lease-lost")["applied"], false);
        gate.add_permits(1);
        assert_eq!(said.recv().await.unwrap(), Err(Some(false)));
        assert_eq!(quantity(&pool).await, 10);
        idle(&locks).await;
    }
}
