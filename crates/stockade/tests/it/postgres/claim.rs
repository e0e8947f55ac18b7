use std::time::Duration;

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::StatusCode,
    routing::get,
};
use sqlx::{PgPool, postgres::PgPoolOptions};
use stockade::{
    Fence, Locks,
    lock::{Force, LossReason, Mode, MultiFence, Token},
    postgres::{FenceError, SCHEMA, Tx, WriteError, claim_forced},
    resource::Key,
    route_lock::{Problem, Rejection, RouteLock},
};
use tower::ServiceExt;

use super::{Sku, blocked, claim, database, quantity, until};

#[tokio::test]
async fn a_holder_that_is_no_longer_the_newest_is_refused_before_it_reads() {
    let (_server, pool) = database().await;
    let held = Locks::memory().write(&Sku("a")).acquire().await.unwrap();
    let token = held.fence().token();
    held.begin(&pool).await.unwrap().commit().await.unwrap();

    let newer = i64::try_from(token.get()).unwrap() + 1;
    assert!(claim(&mut pool.acquire().await.unwrap(), "stock:a", newer, "another process").await);

    let refused = held.begin(&pool).await.unwrap_err();
    let FenceError::Rejected { token: mine, last } = refused else { panic!("{refused:?}") };
    assert_eq!((mine, last.get()), (token, token.get() + 1));
}

#[tokio::test]
async fn the_pair_of_token_and_owner_decides() {
    let (_server, pool) = database().await;
    let mut connection = pool.acquire().await.unwrap();
    let rules = [
        (33, "a", true, "the first"),
        (33, "a", true, "the same ownership again"),
        (33, "b", false, "the same token of another owner, as after a failover"),
        (34, "b", true, "a newer one"),
        (33, "a", false, "an older one"),
        (34, "a", false, "a known owner with another's token"),
        (34, "b", true, "the newest again"),
        (35, "a", true, "a known owner with a newer token"),
    ];
    for (token, owner, accepted, why) in rules {
        assert_eq!(claim(&mut connection, "stock:a", token, owner).await, accepted, "{why}");
    }
    assert!(claim(&mut connection, "stock:b", 1, "a").await, "resources do not share a fence");

    sqlx::query("update stockade.fence_floor set token = 40").execute(&mut *connection).await.unwrap();
    assert!(!claim(&mut connection, "stock:c", 40, "a").await, "at the floor");
    assert!(claim(&mut connection, "stock:c", 41, "a").await, "above the floor");
    assert!(!claim(&mut connection, "stock:a", 39, "a").await, "above its row and below the floor");
}

#[tokio::test]
async fn a_number_that_is_no_token_is_refused_and_changes_nothing() {
    let (_server, pool) = database().await;
    let mut connection = pool.acquire().await.unwrap();
    assert!(claim(&mut connection, "stock:a", 1, "a").await);
    let new = "insert into stockade.fence values ('stock:b', $1::bigint, 'b')";
    let (old, floor) =
        ("update stockade.fence set token = $1::bigint", "update stockade.fence_floor set token = $1::bigint");
    for (statement, number) in [(new, -1), (new, 1 << 53), (old, -1), (old, 1 << 53), (floor, -1), (floor, 1 << 53)] {
        let refused = sqlx::query(statement).bind::<i64>(number).execute(&mut *connection).await.unwrap_err();
        assert!(refused.as_database_error().unwrap().is_check_violation(), "{statement}, {number}: {refused}");
    }
    assert!(claim(&mut connection, "stock:a", (1 << 53) - 1, "a").await, "the highest token");
}

#[tokio::test]
async fn shared_holders_check_and_never_claim() {
    let (_server, pool) = database().await;
    let locks = Locks::memory();
    let older = locks.read(&Sku("a")).acquire().await.unwrap();
    let newer = locks.read(&Sku("a")).acquire().await.unwrap();

    for reader in [&newer, &older] {
        let mut tx = reader.begin(&pool).await.unwrap();
        assert_eq!(quantity(&mut tx).await, 10);
        let write = sqlx::query("update stock set quantity = 0").execute(&mut *tx).await.unwrap_err();
        assert_eq!(write.as_database_error().unwrap().code().unwrap(), "25006", "{write}");
    }
    let rows: i64 = sqlx::query_scalar("select count(*) from stockade.fence").fetch_one(&pool).await.unwrap();
    assert_eq!(rows, 0, "a reader's claim would refuse the other reader");

    assert!(matches!(older.fence().claim(&pool).await, Err(FenceError::Shared(Mode::Read))));
    assert!(matches!(older.fence().claim_args(), Err(FenceError::Shared(Mode::Read))));

    let between = i64::try_from(older.fence().token().get()).unwrap();
    assert!(claim(&mut pool.acquire().await.unwrap(), "stock:a", between, "a writer").await);
    assert!(matches!(older.begin(&pool).await, Err(FenceError::Rejected { .. })));
    newer.begin(&pool).await.unwrap().rollback().await.unwrap();
}

#[tokio::test]
async fn the_fences_of_a_route_with_one_shared_lock_begin_as_its_fence_does() {
    let (_server, pool) = database().await;
    let show = async |State(pool): State<PgPool>, fences: MultiFence| {
        let mut tx = fences.begin(&pool).await?;
        Ok::<_, WriteError>(quantity(&mut tx).await.to_string())
    };
    let lock = RouteLock::template(&Locks::memory(), "stock:{sku}");
    let app = Router::new().route("/stock/{sku}", get(show).route_layer(lock)).with_state(pool);
    let response = app.oneshot(Request::get("/stock/a").body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
}

#[tokio::test]
async fn a_standby_is_a_database_that_is_not_available() {
    let (server, pool) = database().await;
    let held = Locks::memory().write(&Sku("a")).acquire().await.unwrap();
    let folder: String = sqlx::query_scalar("show data_directory").fetch_one(&pool).await.unwrap();
    std::fs::write(format!("{folder}/standby.signal"), "").unwrap();
    server.restart().await.unwrap();
    let pool = super::pool(&server.url()).await;
    for refused in [held.begin(&pool).await.unwrap_err(), Tx::unfenced(&pool).await.unwrap_err()] {
        assert!(matches!(refused, FenceError::Sqlx(_)), "{refused:?}");
        assert_eq!(Rejection::from(&WriteError::from(refused)).problem(), Problem::DatabaseUnavailable);
    }
}

#[tokio::test]
async fn a_refusal_of_a_live_guard_raises_the_lock_store_above_the_fence() {
    let (_server, pool) = database().await;
    let locks = Locks::memory();
    let held = locks.write(&Sku("a")).acquire().await.unwrap();

    // The fence is an hour ahead of the store, as if the store had failed over and lost its newest writes.
    let ahead = held.fence().token().get() + 3_600_000_000;
    assert!(claim(&mut pool.acquire().await.unwrap(), "stock:a", i64::try_from(ahead).unwrap(), "lost").await);
    assert!(matches!(held.begin(&pool).await, Err(FenceError::Rejected { .. })));
    held.release().await.unwrap();

    let held = locks.write(&Sku("a")).acquire().await.unwrap();
    assert!(held.fence().token().get() > ahead, "one refusal is enough");
    held.begin(&pool).await.unwrap().commit().await.unwrap();
}

#[tokio::test]
async fn a_second_claim_waits_for_the_first_transaction_and_is_busy_at_the_lock_time_out() {
    let (_server, pool) = database().await;
    let held = Locks::memory().write(&Sku("a")).acquire().await.unwrap();
    let first = held.begin(&pool).await.unwrap();

    let started = tokio::time::Instant::now();
    let busy = held.begin(&pool).await.unwrap_err();
    assert!(matches!(busy, FenceError::Busy(_)), "{busy:?}");
    assert!(started.elapsed() >= Duration::from_millis(400), "{:?}", started.elapsed());

    first.rollback().await.unwrap();
    held.begin(&pool).await.unwrap().commit().await.unwrap();
}

#[tokio::test]
async fn a_begin_that_is_dropped_while_it_waits_leaves_nothing_behind() {
    let (_server, pool) = database().await;
    // It does not get the connection on which a transaction may have been left open.
    let elsewhere = PgPoolOptions::new().connect_with((*pool.connect_options()).clone()).await.unwrap();
    let held = Locks::memory().write(&Sku("a")).acquire().await.unwrap();
    let first = held.begin(&pool).await.unwrap();
    {
        let second = held.begin(&pool);
        tokio::pin!(second);
        tokio::select! {
            done = &mut second => panic!("{done:?}"),
            () = blocked(&pool, 1) => {}
        }
    }
    first.commit().await.unwrap();
    held.begin(&elsewhere).await.unwrap().commit().await.unwrap();
    blocked(&pool, 0).await;
    until(async || {
        let open = "select count(*) from pg_stat_activity where state like 'idle in transaction%'";
        sqlx::query_scalar::<_, i64>(open).fetch_one(&pool).await.unwrap() == 0
    })
    .await;
}

#[tokio::test]
async fn a_claim_that_fails_leaves_its_connection_clean() {
    let (server, other) = database().await;
    // The pool has only the connection on which the claim fails.
    let pool = PgPoolOptions::new().max_connections(1).connect_with((*other.connect_options()).clone()).await.unwrap();
    let locks = Locks::memory();
    let held = locks.write(&Sku("a")).acquire().await.unwrap();
    let first = held.begin(&other).await.unwrap();
    let busy = held.begin(&pool).await.unwrap_err();
    assert!(matches!(busy, FenceError::Busy(_)), "{busy:?}");
    assert_eq!(quantity(&mut pool.acquire().await.unwrap()).await, 10);
    first.rollback().await.unwrap();

    let newer = held.fence().token().get() + 5;
    assert!(claim(&mut other.acquire().await.unwrap(), "stock:a", i64::try_from(newer).unwrap(), "newer").await);
    let refused = held.begin(&pool).await.unwrap_err();
    assert!(matches!(refused, FenceError::Rejected { last, .. } if last.get() == newer), "{refused:?}");
    assert_eq!(quantity(&mut pool.acquire().await.unwrap()).await, 10);
    drop((server, held));
}

#[test]
fn the_claim_of_the_schema_is_the_one_of_other_drivers() {
    assert!(SCHEMA.contains(&format!("{} into claimed;", Fence::CLAIM_SQL)));
}

#[tokio::test]
async fn a_holder_stopped_inside_its_transaction_blocks_its_successor_for_the_idle_limit_only() {
    let (_server, pool) = database().await;
    let locks = Locks::memory();
    let held = locks.write(&Sku("a")).acquire().await.unwrap();
    let mut stopped = held.begin(&pool).await.unwrap();
    sqlx::query("set idle_in_transaction_session_timeout = 200").execute(&mut *stopped).await.unwrap();
    sqlx::query("update stock set quantity = 1 where sku = 'a'").execute(&mut *stopped).await.unwrap();
    locks.force_release("stock:a", Force::Now).await.unwrap();

    let successor = locks.write(&Sku("a")).acquire().await.unwrap();
    let mut tx = successor.begin(&pool).await.unwrap();
    assert_eq!(quantity(&mut tx).await, 10);
    tx.commit().await.unwrap();
    let late = stopped.commit().await.unwrap_err();
    assert_eq!(late.applied(), Some(false), "{late:?}");
}

#[tokio::test]
async fn a_lost_guard_begins_nothing() {
    let (_server, pool) = database().await;
    let locks = Locks::memory();
    let held = locks.write(&Sku("a")).acquire().await.unwrap();
    locks.force_release("stock:a", Force::Now).await.unwrap();
    let lost = held.begin(&pool).await.unwrap_err();
    assert!(matches!(lost, FenceError::Lost(LossReason::Forced)), "{lost:?}");
}

#[tokio::test]
async fn a_forced_claim_always_wins_and_ends_the_writes_of_the_holder_it_cut_off() {
    let (_server, pool) = database().await;
    let locks = Locks::memory();
    let held = locks.write(&Sku("a")).acquire().await.unwrap();
    held.begin(&pool).await.unwrap().commit().await.unwrap();
    let args = held.fence().claim_args().unwrap();

    let forced = locks.force_release("stock:a", Force::Now).await.unwrap();
    assert_eq!(claim_forced(&pool, held.fence().key(), forced.token).await.unwrap(), forced.token);
    let mut connection = pool.acquire().await.unwrap();
    assert!(!claim(&mut connection, &args.resource, args.token, &args.owner).await, "its local check left out");

    let low = Token::new(1).unwrap();
    assert_eq!(claim_forced(&pool, "stock:a", low).await.unwrap().get(), forced.token.get() + 1);
    assert!(claim_forced(&pool, "stock:never seen", low).await.unwrap() >= low);
}

#[tokio::test]
async fn a_forced_claim_waits_for_the_holder_also_where_the_default_is_serializable() {
    let (server, pool) = database().await;
    sqlx::raw_sql("alter role all set default_transaction_isolation = 'serializable'").execute(&pool).await.unwrap();
    let pool = super::pool(&server.url()).await;
    let locks = Locks::memory();
    let held = locks.write(&Sku("a")).acquire().await.unwrap();
    held.begin(&pool).await.unwrap().commit().await.unwrap();
    let tx = held.begin(&pool).await.unwrap();
    let forced = locks.force_release("stock:a", Force::Now).await.unwrap();
    let claimed = claim_forced(&pool, "stock:a", forced.token);
    let commits = async {
        const WAITS: &str = "select exists (select from pg_stat_activity where wait_event_type = 'Lock')";
        until(async || sqlx::query_scalar(WAITS).fetch_one(&pool).await.unwrap()).await;
        // The guard knows that its lock was forced, so the commit is made as one that was under way then.
        let mut tx = tx;
        sqlx::raw_sql("commit and chain").execute(&mut *tx).await.unwrap();
    };
    assert_eq!(tokio::join!(claimed, commits).0.unwrap(), forced.token);
}

#[tokio::test]
async fn a_long_key_is_claimed_by_force_under_both_of_its_texts() {
    let (_server, pool) = database().await;
    let locks = Locks::memory();
    let key = Key::new("stock", &"x".repeat(600)).unwrap();
    let held = locks.write_keys([key.clone()]).acquire().await.unwrap();
    held.begin(&pool).await.unwrap().commit().await.unwrap();
    let low = Token::new(1).unwrap();
    let whole = claim_forced(&pool, key.to_string(), low).await.unwrap();
    let hashed = claim_forced(&pool, &key, low).await.unwrap();
    let token = held.fences().iter().next().unwrap().token();
    assert_eq!((whole.get(), hashed.get()), (token.get() + 1, token.get() + 2));
}

#[tokio::test]
async fn the_database_is_not_told_who_owns_the_lock() {
    let (_server, pool) = database().await;
    let held = Locks::memory().write(&Sku("a")).acquire().await.unwrap();
    held.begin(&pool).await.unwrap().commit().await.unwrap();
    let owner: String = sqlx::query_scalar("select owner from stockade.fence").fetch_one(&pool).await.unwrap();
    assert_eq!(held.fence().claim_args().unwrap().owner, owner);
    // The text of a handover holds the owner: who has it has the lock.
    let text = held.hand_over().unwrap().to_text();
    assert!(!text.contains(&owner) && owner.len() == 32, "{owner}");
}

#[tokio::test]
async fn an_unfenced_transaction_claims_nothing() {
    let (_server, pool) = database().await;
    let mut tx = Tx::unfenced(&pool).await.unwrap();
    sqlx::query("update stock set quantity = 11").execute(&mut *tx).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(quantity(&mut pool.acquire().await.unwrap()).await, 11);
    let rows: i64 = sqlx::query_scalar("select count(*) from stockade.fence").fetch_one(&pool).await.unwrap();
    assert_eq!(rows, 0);
}
