//! Several resources claimed in one transaction.

use std::time::Duration;

use sqlx::{PgConnection, PgPool};
use stockade::{
    Locks,
    lock::{Force, LossReason, MultiGuard},
    postgres::{self, FenceError, Timeouts},
};
use tokio::task::JoinSet;

use super::{Sku, blocked, claim, database};

/// The units of all stocks together.
const UNITS: i64 = 400;
const SKUS: [Sku; 4] = [Sku("a"), Sku("b"), Sku("c"), Sku("d")];

async fn stocked(pool: &PgPool) {
    sqlx::query("delete from stock").execute(pool).await.unwrap();
    for sku in &SKUS {
        sqlx::query("insert into stock values ($1, $2)").bind(sku.0).bind(100).execute(pool).await.unwrap();
    }
}

async fn units(pool: &PgPool) -> i64 {
    sqlx::query_scalar("select sum(quantity) from stock").fetch_one(pool).await.unwrap()
}

async fn quantity(connection: &mut PgConnection, sku: &Sku) -> i32 {
    let query = sqlx::query_scalar("select quantity from stock where sku = $1");
    query.bind(sku.0).fetch_one(connection).await.unwrap()
}

/// Reads both rows and then writes both, so that an update in between is lost.
async fn transfer(held: &MultiGuard, pool: &PgPool, from: &Sku, to: &Sku) -> Result<(), FenceError> {
    let mut tx = held.begin(pool).await?;
    let (left, had) = (quantity(&mut tx, from).await, quantity(&mut tx, to).await);
    // Leave time for other transfers to come in between.
    tokio::time::sleep(Duration::from_millis(2)).await;
    for (sku, quantity) in [(from, left - 1), (to, had + 1)] {
        let update = sqlx::query("update stock set quantity = $2 where sku = $1");
        update.bind(sku.0).bind(quantity).execute(&mut *tx).await.unwrap();
    }
    tx.commit().await.unwrap();
    Ok(())
}

async fn transfers_in_opposite_orders_keep_the_sum(processes: [Locks; 2]) {
    const TASKS: usize = 8;
    const ROUNDS: usize = 12;
    let (_server, pool) = database().await;
    stocked(&pool).await;
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let (locks, pool) = (processes[task % 2].clone(), pool.clone());
        tasks.spawn(async move {
            for round in 0..ROUNDS {
                let (one, other) = (&SKUS[(task + round) % 4], &SKUS[(task + round * 3 + 1) % 4]);
                if one.0 == other.0 {
                    continue;
                }
                let (from, to) = if task % 2 == 0 { (one, other) } else { (other, one) };
                let held = locks.write_all([from, to]).wait(Duration::from_secs(20)).acquire().await.unwrap();
                transfer(&held, &pool, from, to).await.unwrap();
                held.release().await.unwrap();
            }
        });
    }
    tasks.join_all().await;
    assert_eq!(units(&pool).await, UNITS);
    let deadlocks: i64 =
        sqlx::query_scalar("select deadlocks from pg_stat_database where datname = current_database()")
            .fetch_one(&pool)
            .await
            .unwrap();
    assert_eq!(deadlocks, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transfers_in_opposite_orders_in_one_process_keep_the_sum() {
    let locks = Locks::memory();
    transfers_in_opposite_orders_keep_the_sum([locks.clone(), locks]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transfers_in_opposite_orders_over_a_redis_keep_the_sum() {
    let server = crate::world::World::start().await;
    transfers_in_opposite_orders_keep_the_sum([server.locks().await, server.locks().await]).await;
    server.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_of_live_and_stale_holders_never_wait_in_a_circle() {
    let (_server, pool) = database().await;
    stocked(&pool).await;
    // Two lock stores that do not know of each other, as after a failover that lost data: each grants both locks. Only
    // the order of the claims can keep the transactions from waiting for each other.
    let stores = [Locks::memory(), Locks::memory()];
    let mut tasks = JoinSet::new();
    for (locks, [from, to]) in stores.into_iter().zip([[0, 1], [1, 0]]) {
        let pool = pool.clone();
        tasks.spawn(async move {
            let (from, to, mut applied) = (&SKUS[from], &SKUS[to], 0);
            for _ in 0..40 {
                let held = locks.write_all([from, to]).acquire().await.unwrap();
                match transfer(&held, &pool, from, to).await {
                    Ok(()) => applied += 1,
                    Err(FenceError::Rejected { .. }) => {}
                    Err(error) => panic!("{error:?}"),
                }
            }
            applied
        });
    }
    let applied: i32 = tasks.join_all().await.into_iter().sum();
    assert!(applied > 0, "nothing was applied, so nothing was tested");
    assert_eq!(units(&pool).await, UNITS);
}

#[tokio::test]
async fn a_holder_that_is_stale_on_one_of_them_applies_nothing() {
    let (_server, pool) = database().await;
    stocked(&pool).await;
    for stale in ["stock:a", "stock:b"] {
        let held = Locks::memory().write_all(&SKUS[..2]).acquire().await.unwrap();
        transfer(&held, &pool, &SKUS[0], &SKUS[1]).await.unwrap();
        let before = quantity(&mut pool.acquire().await.unwrap(), &SKUS[0]).await;
        let fence = held.fences().iter().find(|fence| fence.key().as_str() == stale).unwrap().clone();
        let newer = i64::try_from(fence.token().get()).unwrap() + 1;
        assert!(claim(&mut pool.acquire().await.unwrap(), stale, newer, "another process").await);

        let refused = transfer(&held, &pool, &SKUS[0], &SKUS[1]).await.unwrap_err();
        let FenceError::Rejected { token, last } = refused else { panic!("{refused:?}") };
        assert_eq!((token, last.get()), (fence.token(), fence.token().get() + 1));
        assert_eq!(quantity(&mut pool.acquire().await.unwrap(), &SKUS[0]).await, before);
        assert_eq!(units(&pool).await, UNITS);
        // The claims that were accepted before the refused one are undone: nobody waits for their rows.
        blocked(&pool, 0).await;
        let rows: i64 = sqlx::query_scalar("select count(*) from stockade.fence where token = $1")
            .bind(newer)
            .fetch_one(&pool)
            .await
            .unwrap();
        assert_eq!(rows, 1);
        sqlx::query("delete from stockade.fence").execute(&pool).await.unwrap();
    }
}

#[tokio::test]
async fn the_loss_of_one_begins_nothing() {
    let (_server, pool) = database().await;
    let locks = Locks::memory();
    let held = locks.write_all(&SKUS[..2]).acquire().await.unwrap();
    held.fences().claim(&pool).await.unwrap();
    locks.force_release("stock:b", Force::Now).await.unwrap();
    let lost = held.begin(&pool).await.unwrap_err();
    assert!(matches!(lost, FenceError::Lost(LossReason::Forced)), "{lost:?}");
}

#[tokio::test]
async fn all_rows_stay_locked_to_the_end_of_the_transaction() {
    let (_server, pool) = database().await;
    let held = Locks::memory().write_all(&SKUS[..2]).acquire().await.unwrap();
    let tx = held.begin(&pool).await.unwrap();
    for fence in held.fences().iter() {
        let busy = fence.begin(&pool).await.unwrap_err();
        assert!(matches!(busy, FenceError::Busy(_)), "{busy:?}");
    }
    tx.commit().await.unwrap();
    for fence in held.fences().iter() {
        fence.begin(&pool).await.unwrap().commit().await.unwrap();
    }
}

#[tokio::test]
async fn claims_are_made_in_one_order_whatever_the_order_of_the_names() {
    let (server, _) = database().await;
    // No statement here is impatient before the test has looked.
    let timeouts = Timeouts::default().statement(Duration::from_secs(30)).lock(Duration::from_secs(25));
    let options = postgres::options(server.url().parse().unwrap(), &timeouts);
    let pool = PgPool::connect_with(options).await.unwrap();
    let locks = Locks::memory();
    let mut is_claimed = Vec::new();
    for [one, other] in [[0, 1], [1, 0]] {
        let held = locks.write_all([&SKUS[one], &SKUS[other]]).acquire().await.unwrap();
        held.fences().claim(&pool).await.unwrap();
        let mut holder = pool.begin().await.unwrap();
        sqlx::query("select from stockade.fence where resource = 'stock:b' for update")
            .execute(&mut *holder)
            .await
            .unwrap();
        let mut waits = JoinSet::new();
        let (fences, database) = (held.fences().clone(), pool.clone());
        waits.spawn(async move { fences.begin(&database).await.map(drop) });
        blocked(&pool, 1).await;
        let free = sqlx::query("select from stockade.fence where resource = 'stock:a' for update nowait");
        is_claimed.push(free.execute(&pool).await.is_err());
        holder.rollback().await.unwrap();
        waits.join_next().await.unwrap().unwrap().unwrap();
        held.release().await.unwrap();
    }
    assert_eq!(is_claimed[0], is_claimed[1]);
}
