//! A holder that is stopped for longer than its lease, in a process of its own, on a real Redis and a real Postgres.
//!
//! The holder reads under its lock, is stopped before it writes, and writes after its successor did. It does not check
//! its lease on purpose, so that only the fence can stop it. A second run without the fence loses an update, which
//! shows that the check at the end can fail.

use std::time::Duration;

use sqlx::PgPool;
use stockade::{Fence, Guard, LockError, Locks, Redis, postgres::FenceError};

use crate::{
    child::{Child, say, wait_for_parent},
    postgres::{Sku, database, pool},
    world::World,
};

const LEASE: Duration = Duration::from_secs(1);
/// The check that the holder leaves out when it writes. Unset in an ordinary test run.
const ROLE: &str = "STALLED_HOLDER";
const REDIS_URL: &str = "STALLED_HOLDER_REDIS";
const POSTGRES_URL: &str = "STALLED_HOLDER_POSTGRES";

#[tokio::test]
async fn the_fence_refuses_a_holder_that_slept_past_its_lease() {
    let run = Run::with_holder("claims").await;
    assert_eq!(run.holder, "refused");
    assert_eq!(run.lost_updates(), 0, "{run:?}");
}

#[tokio::test]
async fn without_the_claim_the_same_holder_loses_an_update() {
    let run = Run::with_holder("writes").await;
    assert_eq!(run.holder, "wrote");
    assert_eq!(run.lost_updates(), 1, "{run:?}");
}

#[tokio::test]
async fn the_local_check_sees_it_before_the_fence_is_asked() {
    let run = Run::with_holder("begins").await;
    assert_eq!(run.holder, "lost");
    assert_eq!(run.lost_updates(), 0, "{run:?}");
}

#[tokio::test]
async fn whoever_looks_after_such_a_sleep_finds_the_lock_lost() {
    let run = Run::with_holder("looks").await;
    assert_eq!(run.holder, "0ns left, Some(Expired), told Expired");
    assert_eq!(run.lost_updates(), 0, "{run:?}");
}

/// The result of one run.
#[derive(Debug)]
struct Run {
    holder: String,
    successor_token_is_higher: bool,
    acknowledged: i32,
    quantity: i32,
}

impl Run {
    async fn with_holder(role: &str) -> Self {
        let redis = World::start().await;
        let (postgres, pool) = database().await;
        let environment = [(ROLE, role.to_owned()), (REDIS_URL, redis.url()), (POSTGRES_URL, postgres.url())];
        let mut holder = Child::start("stalled_holder::holder_process", &environment);
        let token: u64 = holder.says("read 10 under ").await.parse().unwrap();

        holder.pause().await;
        let link = Redis::connect(redis.url().as_str()).await.unwrap();
        let locks = redis.opened(Locks::new(&link));
        let successor = acquire(&locks).await;
        let mut tx = successor.begin(&pool).await.unwrap();
        sqlx::query("update stock set quantity = quantity - 1 where sku = 'a'").execute(&mut *tx).await.unwrap();
        tx.commit().await.unwrap();
        let successor_token_is_higher = successor.fence().token().get() > token;
        successor.release().await.unwrap();

        holder.resume();
        holder.go_on().await;
        let outcome = holder.says("").await;
        let acknowledged = if outcome == "wrote" { 2 } else { 1 };
        let quantity = sqlx::query_scalar("select quantity from stock where sku = 'a'").fetch_one(&pool).await.unwrap();
        drop(holder);
        pool.close().await;
        redis.end().await;
        Self { holder: outcome, successor_token_is_higher, acknowledged, quantity }
    }

    /// How many updates were lost. There were ten units, and each acknowledged update took one.
    fn lost_updates(&self) -> i32 {
        assert!(self.successor_token_is_higher, "{self:?}");
        self.acknowledged - (10 - self.quantity)
    }
}

/// The holder, when the tests above start it in a process of its own. In an ordinary run it does nothing.
#[tokio::test]
async fn holder_process() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let redis = Redis::connect(std::env::var(REDIS_URL).unwrap().as_str()).await.unwrap();
    let pool = pool(&std::env::var(POSTGRES_URL).unwrap()).await;
    let locks = Locks::builder().lease(LEASE).redis(&redis);

    let held = acquire(&locks).await;
    let mut tx = held.begin(&pool).await.unwrap();
    let read: i32 = sqlx::query_scalar("select quantity from stock where sku = 'a'").fetch_one(&mut *tx).await.unwrap();
    tx.commit().await.unwrap();
    say(&format!("read {read} under {}", held.fence().token()));

    wait_for_parent().await;

    match role.as_str() {
        "begins" => match held.begin(&pool).await {
            Err(FenceError::Lost(_)) => say("lost"),
            other => say(&format!("{other:?}")),
        },
        "looks" => {
            let (left, loss) = (held.remaining(), held.loss());
            say(&format!("{left:?} left, {loss:?}, told {:?}", held.lost().await));
        }
        "claims" => say(if write(&pool, read - 1, Some(&held.fence())).await { "wrote" } else { "refused" }),
        "writes" => say(if write(&pool, read - 1, None).await { "wrote" } else { "refused" }),
        unknown => say(unknown),
    }
}

/// Tries until the lock is granted, since new locks may not have their connection yet.
async fn acquire(locks: &Locks) -> Guard {
    loop {
        match locks.write(&Sku("a")).wait(LEASE * 10).acquire().await {
            Err(LockError::Unavailable { .. }) => tokio::time::sleep(Duration::from_millis(10)).await,
            acquired => return acquired.unwrap(),
        }
    }
}

/// Writes as code on another driver would, without asking the guard whether it is still valid.
async fn write(pool: &PgPool, quantity: i32, fence: Option<&Fence>) -> bool {
    let mut tx = pool.begin().await.unwrap();
    if let Some(fence) = fence {
        let args = fence.claim_args().unwrap();
        let claimed: Option<i64> = sqlx::query_scalar(Fence::CLAIM_SQL)
            .bind(args.resource)
            .bind(args.token)
            .bind(args.owner)
            .fetch_optional(&mut *tx)
            .await
            .unwrap();
        if claimed.is_none() {
            return false;
        }
    }
    sqlx::query("update stock set quantity = $1 where sku = 'a'").bind(quantity).execute(&mut *tx).await.unwrap();
    tx.commit().await.unwrap();
    true
}
