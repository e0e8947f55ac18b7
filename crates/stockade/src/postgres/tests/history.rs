//! The rows that are kept after they were applied.

use std::collections::BTreeSet;

use sqlx::PgConnection;
use tokio::task::JoinSet;

use super::*;
use crate::postgres::{FenceError, SCHEMA_VERSION, outbox, registry::PoolState, relaying::Worker};

/// Rows of the cache `stock`, old enough for a relay; their ids.
async fn pending(pool: &PgPool, resources: impl Iterator<Item = String>) -> Vec<i64> {
    const INSERT: &str = "insert into stockade.outbox (cache, resource, created_at)
        select 'stock', resource, clock_timestamp() - interval '5 s' from unnest($1::text[]) resource returning id";
    sqlx::query_scalar(INSERT).bind(resources.collect::<Vec<_>>()).fetch_all(pool).await.unwrap()
}

fn numbered(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|number| format!("stock:{number}"))
}

/// The resources of all kept rows.
async fn kept(pool: &PgPool) -> Vec<String> {
    let rows = outbox::after(pool, &["stock"], i64::MIN, i64::MAX).await.unwrap();
    rows.into_iter().map(|row| row.resource).collect()
}

#[tokio::test]
async fn rows_applied_together_are_kept_as_one_and_applied_again_one_by_one() {
    let (_server, pool) = database().await;
    let (recorder, cache) = Recorder::new();
    pending(&pool, numbered(200)).await;
    let others = "insert into stockade.outbox (cache, resource, intent, created_at) values
        ('stock', 'stock:announced', 'intent', clock_timestamp() - interval '5 s'), ('other', 'x', null, clock_timestamp())";
    sqlx::raw_sql(others).execute(&pool).await.unwrap();
    let relay = Relay::spawn(pool.clone(), [cache]);
    // Three rows: one for the batch, the announced one, and the other cache's, which is not applied.
    until(async || rows(&pool).await == (3, 1)).await;
    let announced =
        "select array_agg(resource) from stockade.outbox where intent = 'intent' and applied_at is not null";
    assert_eq!(sqlx::query_scalar::<_, Vec<String>>(announced).fetch_one(&pool).await.unwrap(), ["stock:announced"]);
    let once = recorder.seen();
    assert_eq!(relay.reapply().await.unwrap(), 201);
    let twice = recorder.seen();
    let named = |seen: &[String]| seen.iter().cloned().collect::<BTreeSet<_>>();
    assert_eq!((once.len(), twice.len(), named(&once).len()), (201, 402, 201));
    assert_eq!(named(&twice[201..]), named(&once));
    relay.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn rows_that_are_marked_while_all_are_applied_again_are_met() {
    let (_server, pool) = database().await;
    let ids = pending(&pool, numbered(60)).await;
    let mut met = BTreeSet::new();
    let mut last = i64::MIN;
    // While the rows are read, others are marked: rows before and after this point, only later ones, only earlier ones.
    for marked in [&ids[15..25], &ids[50..58], &ids[..5], &[]] {
        let page = outbox::after(&pool, &["stock"], last, 20).await.unwrap();
        last = page.last().map_or(last, |row| row.id);
        met.extend(page.into_iter().map(|row| row.resource));
        outbox::mark(&pool, marked).await.unwrap();
    }
    let rest = outbox::after(&pool, &["stock"], last, i64::MAX).await.unwrap();
    met.extend(rest.into_iter().map(|row| row.resource));
    assert_eq!(met, numbered(60).collect());
}

#[tokio::test]
async fn rows_that_two_processes_mark_are_kept_once_and_those_of_one_that_died_are_marked() {
    let (_server, pool) = database().await;
    for dies in [true, false] {
        let ids = pending(&pool, numbered(10)).await;
        let mut relay = pool.begin().await.unwrap();
        let claimed = outbox::claim(&mut relay, "stock", Duration::ZERO, 0.0, 5).await.unwrap();
        assert_eq!(claimed.len(), 5);
        let mut committer = JoinSet::new();
        committer.spawn({
            let (pool, ids) = (pool.clone(), ids.clone());
            async move { outbox::mark(&pool, &ids).await }
        });
        until(async || {
            let waits = "select exists (select from pg_stat_activity where wait_event_type = 'Lock')";
            sqlx::query_scalar(waits).fetch_one(&pool).await.unwrap()
        })
        .await;
        if dies {
            relay.rollback().await.unwrap();
        } else {
            outbox::mark(&mut *relay, &ids[..5]).await.unwrap();
            relay.commit().await.unwrap();
        }
        committer.join_next().await.unwrap().unwrap().unwrap();
        let mut found = kept(&pool).await;
        found.sort_unstable();
        assert_eq!(found, numbered(10).collect::<Vec<_>>());
        assert_eq!(rows(&pool).await, (if dies { 1 } else { 2 }, 0));
        sqlx::raw_sql("delete from stockade.outbox").execute(&pool).await.unwrap();
    }
}

/// The older version does not know the column `resources`, but knows that `#` stands for the whole cache.
#[tokio::test]
async fn a_relay_of_an_older_version_drops_the_whole_cache_in_place_of_what_it_can_not_see() {
    let (_server, pool) = database().await;
    let (recorder, cache) = Recorder::new();
    let ids = pending(&pool, numbered(3)).await;
    outbox::mark(&pool, &ids).await.unwrap();
    sqlx::raw_sql("update stockade.outbox set resources = null").execute(&pool).await.unwrap();
    let relay = Relay::spawn(pool.clone(), [cache]);
    assert_eq!(relay.reapply().await.unwrap(), 1);
    assert_eq!(recorder.seen(), ["#"]);
    relay.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn a_database_from_before_is_upgraded_with_its_rows() {
    let (_server, pool) = database().await;
    let before = "alter table stockade.outbox drop column resources;
        create index outbox_pending on stockade.outbox (id) where applied_at is null; update stockade.schema_version set version = 5;
        insert into stockade.outbox (cache, resource, applied_at) values ('stock', 'stock:applied', now())";
    sqlx::raw_sql(before).execute(&pool).await.unwrap();
    pending(&pool, ["stock:pending".to_owned()].into_iter()).await;
    let refused = Tx::unfenced(&pool).await.unwrap_err();
    assert!(matches!(refused, FenceError::Schema { found: Some(5) }), "{refused:?}");

    install(&pool).await.unwrap();
    let version: i32 =
        sqlx::query_scalar("select version from stockade.schema_version").fetch_one(&pool).await.unwrap();
    assert_eq!(version, SCHEMA_VERSION);
    let is_gone = "select to_regclass('stockade.outbox_pending') is null";
    assert!(sqlx::query_scalar::<_, bool>(is_gone).fetch_one(&pool).await.unwrap());
    let (recorder, cache) = Recorder::new();
    let relay = Relay::spawn(pool.clone(), [cache.clone()]);
    until(async || rows(&pool).await == (2, 0)).await;
    commit(&pool, &cache, "a").await;
    until(async || rows(&pool).await == (3, 0)).await;
    relay.reapply().await.unwrap();
    assert_eq!(recorder.seen(), ["stock:pending", "stock:a", "stock:applied", "stock:pending", "stock:a"]);
    relay.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn old_rows_of_many_commits_are_deleted_as_fast_as_they_come() {
    // One batch every ten seconds would take a minute.
    const OLD: &str = "insert into stockade.outbox (cache, resource, intent, created_at, applied_at)
        select 'stock', 'stock:a', 'intent ' || n, now() - interval '11 min', now() - interval '11 min'
        from generate_series(1, 30000) n";
    let (_server, pool) = database().await;
    let (_recorder, cache) = Recorder::new();
    sqlx::raw_sql(OLD).execute(&pool).await.unwrap();
    let relay = Relay::spawn(pool.clone(), [cache]);
    until(async || rows(&pool).await == (0, 0)).await;
    relay.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn a_relay_reads_no_row_of_a_cache_that_nobody_relays() {
    const MANY: &str = "insert into stockade.outbox (cache, resource, created_at)
        select 'nobody', 'x:' || n, clock_timestamp() - interval '5 s' from generate_series(1, 5000) n;
        analyze stockade.outbox";
    // Written before the clock of the server was set back.
    const LATER: &str = "insert into stockade.outbox (cache, resource, created_at)
        values ('stock', 'stock:later', clock_timestamp() + interval '1 h')";
    const READ: &str = "select seq_tup_read + idx_tup_fetch from pg_stat_xact_user_tables where relname = 'outbox'";
    let (_server, pool) = database().await;
    sqlx::raw_sql(MANY).execute(&pool).await.unwrap();
    pending(&pool, numbered(2)).await;
    sqlx::raw_sql(LATER).execute(&pool).await.unwrap();
    let mut tx = pool.begin().await.unwrap();
    // As the server plans a statement that it has been sent often.
    sqlx::raw_sql("set local plan_cache_mode = force_generic_plan").execute(&mut *tx).await.unwrap();
    assert!(outbox::lag(&mut *tx, &["stock", "empty"], 0.0).await.unwrap().0 > 3_500.0);
    assert_eq!(outbox::lag(&mut *tx, &["empty"], 0.0).await.unwrap().0.to_bits(), 0);
    assert_eq!(outbox::claim(&mut tx, "stock", Duration::ZERO, 0.0, 5).await.unwrap().len(), 3);
    assert!(outbox::waits(&mut *tx, "stock", i64::MAX).await.unwrap());
    assert_eq!(outbox::refused(&mut *tx, "stock").await.unwrap(), 0);
    let read: i64 = sqlx::query_scalar(READ).fetch_one(&mut *tx).await.unwrap();
    assert!(read < 20, "{read} rows were read to find three");
}

/// How many entries of the index of waiting rows were read so far.
async fn looked_at(connection: &mut PgConnection) -> i64 {
    const READ: &str = "select idx_tup_read from pg_stat_user_indexes where indexrelname = 'outbox_waiting'";
    sqlx::raw_sql("select pg_stat_force_next_flush()").execute(&mut *connection).await.unwrap();
    sqlx::query_scalar(READ).fetch_one(connection).await.unwrap()
}

#[tokio::test]
async fn a_look_at_the_waiting_rows_passes_over_what_was_applied_during_a_backup() {
    const APPLIED: &str = "insert into stockade.outbox (cache, resource, created_at)
        select 'stock', 'x:' || n, clock_timestamp() - interval '2 min' from generate_series(1, 5000) n;
        update stockade.outbox set applied_at = clock_timestamp();
        analyze stockade.outbox";
    let (_server, pool) = database().await;
    let mut backup = pool.begin().await.unwrap();
    sqlx::raw_sql("set transaction isolation level repeatable read; select from stockade.outbox")
        .execute(&mut *backup)
        .await
        .unwrap();
    sqlx::raw_sql(APPLIED).execute(&pool).await.unwrap();
    let ids = pending(&pool, numbered(1)).await;
    let mut connection = pool.acquire().await.unwrap();
    sqlx::raw_sql("set enable_seqscan = off").execute(&mut *connection).await.unwrap();
    let before = looked_at(&mut connection).await;
    let (lag, since) = outbox::lag(&mut *connection, &["stock"], 0.0).await.unwrap();
    let first = looked_at(&mut connection).await;
    assert!(first - before > 5_000 && lag >= 5.0, "{before} {first} {lag}");
    let (same, again) = outbox::lag(&mut *connection, &["stock"], since).await.unwrap();
    let second = looked_at(&mut connection).await;
    assert!(
        second - first < 10 && same >= lag && (again - since).abs() < 1e-3,
        "{first} {second} {same} {again} {since}"
    );
    outbox::mark(&mut *connection, &ids).await.unwrap();
    let (none, later) = outbox::lag(&mut *connection, &["stock"], since).await.unwrap();
    assert!(none.to_bits() == 0 && later > since, "{none} {later} {since}");
}

#[tokio::test]
async fn a_look_from_the_beginning_that_takes_too_long_ends_no_round() {
    let (_server, pool) = database().await;
    let (recorder, cache) = Recorder::new();
    let mut worker = Worker::new(pool.clone(), vec![cache]);
    pending(&pool, numbered(1)).await;
    // As if the look had to pass over what was applied during a backup.
    const SLOW: &str = "alter table stockade.outbox rename to hidden;
        create view stockade.outbox as select * from stockade.hidden
            where current_setting('statement_timeout') <> '7ms' or pg_sleep(1) is not null";
    sqlx::raw_sql(SLOW).execute(&pool).await.unwrap();
    worker.full_look = Duration::from_millis(7);
    let mut since = f64::INFINITY;
    for full in [true, false] {
        worker.round(full, &mut since, &mut [None]).await.unwrap();
    }
    assert_eq!(recorder.seen(), ["stock:0"]);
}

#[tokio::test]
async fn a_cache_that_is_down_slows_no_other() {
    let (_server, pool) = database().await;
    let (well, cache) = Recorder::new();
    let down = Arc::new(Recorder { named: Some("other"), ..Recorder::default() });
    down.down.store(true, Ordering::Release);
    pending(&pool, numbered(10_000)).await;
    const OTHER: &str = "insert into stockade.outbox (cache, resource, created_at)
        values ('other', 'stock:a', clock_timestamp() - interval '5 s')";
    sqlx::raw_sql(OTHER).execute(&pool).await.unwrap();
    let relay = Relay::spawn(pool.clone(), [cache, Invalidator(Arc::clone(&down) as Arc<dyn Invalidate>)]);
    until(async || well.seen().len() == 10_000).await;
    assert!(down.refused.load(Ordering::Acquire) < 20, "a round takes more than one batch");
    relay.shutdown(Duration::from_secs(1)).await;
}

/// Another server may take over that gives their ids to other rows.
#[tokio::test]
async fn rows_are_not_marked_after_the_database_was_away() {
    let (server, pool) = database().await;
    let ids = pending(&pool, numbered(3)).await;
    // As it is on a standby to which the address leads already.
    sqlx::raw_sql("alter role all set default_transaction_read_only = on").execute(&pool).await.unwrap();
    let options = options(server.url().parse().unwrap(), &Timeouts::default());
    let pool = PgPool::connect_with(options).await.unwrap();
    let (_recorder, cache) = Recorder::new();
    let (worker, state) = (Worker::new(pool.clone(), vec![cache]), PoolState::of(&pool));
    state.flushed(&ids);
    let refused = worker.mark_flushed().await.unwrap_err();
    assert!(refused.to_string().contains("read-only"), "{refused}");
    assert!(state.take_flushed().is_empty());
    state.flushed(&ids);
    pool.close().await;
    assert!(matches!(worker.mark_flushed().await, Err(sqlx::Error::PoolClosed)));
    assert!(state.take_flushed().is_empty());
}

#[tokio::test]
async fn rows_that_could_not_be_marked_are_marked_later() {
    let (_server, pool) = database().await;
    let (_recorder, cache) = Recorder::new();
    let worker = Worker::new(pool.clone(), vec![cache]);
    let ids = pending(&pool, numbered(300)).await;
    PoolState::of(&pool).flushed(&ids);
    let mut holder = pool.begin().await.unwrap();
    sqlx::query("lock table stockade.outbox in exclusive mode").execute(&mut *holder).await.unwrap();
    let refused = worker.mark_flushed().await.unwrap_err();
    assert!(refused.to_string().contains("lock timeout"), "{refused}");
    holder.rollback().await.unwrap();
    worker.mark_flushed().await.unwrap();
    assert!(!outbox::waits(&pool, "stock", i64::MAX).await.unwrap());
}

#[tokio::test]
async fn rows_are_applied_again_behind_many_of_a_cache_that_nobody_relays() {
    const MANY: &str =
        "insert into stockade.outbox (cache, resource) select 'nobody', 'x:' || n from generate_series(1, 40000) n;
        analyze stockade.outbox";
    const READ: &str = "select seq_tup_read + idx_tup_fetch from pg_stat_xact_user_tables where relname = 'outbox'";
    let (_server, pool) = database().await;
    sqlx::raw_sql(MANY).execute(&pool).await.unwrap();
    pending(&pool, numbered(3)).await;
    let mut tx = pool.begin().await.unwrap();
    assert!(outbox::after(&mut *tx, &["stock"], i64::MIN, 5).await.unwrap().is_empty());
    let read: i64 = sqlx::query_scalar(READ).fetch_one(&mut *tx).await.unwrap();
    assert!(read < 15_000, "one statement reads {read} rows");
    drop(tx);
    let (recorder, cache) = Recorder::new();
    let relay = Relay::spawn(pool.clone(), [cache]);
    until(async || recorder.seen().len() == 3).await;
    assert_eq!(relay.reapply().await.unwrap(), 3);
    assert_eq!(recorder.seen().len(), 6);
    relay.shutdown(Duration::from_secs(1)).await;
}
