//! Applying all kept rows again takes more than one round of the relay.

use std::collections::BTreeSet;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{log::Log, *};
use crate::postgres::relaying::Worker;

/// Ten batches of a cache that is not strict.
const ROWS: usize = 320;

/// Applied rows, and a relay that applies one batch of them again in each round.
async fn one_batch_a_round(pool: &PgPool, cache: Invalidator) -> JoinSet<()> {
    const APPLIED: &str = "insert into stockade.outbox (cache, resource, applied_at)
        select 'stock', 'stock:' || n, clock_timestamp() from generate_series(1, $1) n";
    sqlx::query(APPLIED).bind(i64::try_from(ROWS).unwrap()).execute(pool).await.unwrap();
    let mut worker = Worker::new(pool.clone(), vec![cache]);
    worker.replay_share = Duration::ZERO;
    let mut running = JoinSet::new();
    running.spawn(Arc::new(worker).run(CancellationToken::new()));
    running
}

fn numbered(numbers: impl Iterator<Item = usize>) -> impl Iterator<Item = String> {
    numbers.map(|number| format!("stock:{number}"))
}

fn lost_what_it_knew(recorder: &Recorder) {
    *recorder.unsure.lock() = Some(UnsureRun { id: Arc::from("run"), connection: 1, has_rival: false });
}

#[tokio::test]
async fn a_replay_goes_on_in_the_next_round_where_it_stopped() {
    let (_server, pool) = database().await;
    let (recorder, cache) = Recorder::new();
    lost_what_it_knew(&recorder);
    let _relay = one_batch_a_round(&pool, cache).await;
    until(async || recorder.unsure.lock().is_none()).await;
    let all = numbered(1..=ROWS).chain(["trusted on connection 1".to_owned()]);
    assert_eq!(recorder.seen(), all.collect::<Vec<_>>());
}

#[tokio::test]
async fn a_replay_of_many_rounds_begins_anew_on_another_connection() {
    let (_server, pool) = database().await;
    let (recorder, cache) = Recorder::new();
    lost_what_it_knew(&recorder);
    let _relay = one_batch_a_round(&pool, cache).await;
    until(async || recorder.seen().len() >= 64).await;
    recorder.reconnects.store(1, Ordering::Release);
    until(async || recorder.unsure.lock().is_none()).await;
    let seen = recorder.seen();
    let all = numbered(1..=ROWS).chain(["trusted on connection 2".to_owned()]).collect::<Vec<_>>();
    assert!(seen.len() > all.len(), "the connection changed after the end");
    assert_eq!(seen[seen.len() - all.len()..], all);
}

#[tokio::test]
async fn a_row_whose_mark_was_lost_during_a_replay_is_applied_before_the_run_is_vouched_for() {
    let (_server, pool) = database().await;
    let (recorder, cache) = Recorder::new();
    lost_what_it_knew(&recorder);
    let _relay = one_batch_a_round(&pool, cache).await;
    until(async || recorder.seen().len() >= 64).await;
    // The relay takes the row only some seconds after the replay has ended.
    let lost = "update stockade.outbox set applied_at = null, retry_at = clock_timestamp() + interval '4 s'
        where resource = 'stock:1'";
    sqlx::raw_sql(lost).execute(&pool).await.unwrap();
    until(async || recorder.unsure.lock().is_none()).await;
    let seen = recorder.seen();
    assert_eq!(seen[..=ROWS], numbered((1..=ROWS).chain([1])).collect::<Vec<_>>());
    assert_eq!(seen.last().unwrap(), "trusted on connection 1");
}

#[tokio::test]
async fn the_relay_tells_once_that_its_rounds_are_cut_off() {
    const WAITING: &str = "select pid from pg_stat_activity where wait_event_type = 'Lock'";
    let (log, _logging) = Log::start();
    let (_server, pool) = database().await;
    let (_recorder, cache) = Recorder::new();
    let mut holder = pool.begin().await.unwrap();
    sqlx::raw_sql("set local idle_in_transaction_session_timeout = 0; lock table stockade.outbox")
        .execute(&mut *holder)
        .await
        .unwrap();
    let mut worker = Worker::new(pool.clone(), vec![cache]);
    worker.round_limit = Duration::from_millis(200);
    let mut relay = JoinSet::new();
    relay.spawn(Arc::new(worker).run(CancellationToken::new()));
    let rounds = Mutex::new(BTreeSet::<i32>::new());
    until(async || {
        // Each round waits on a connection of its own.
        let waiting: Vec<i32> =
            sqlx::query_scalar(WAITING).fetch_all(&mut *pool.acquire().await.unwrap()).await.unwrap();
        let mut rounds = rounds.lock();
        rounds.extend(waiting);
        rounds.len() > 2
    })
    .await;
    let text = log.text();
    let told: Vec<_> = text.lines().filter(|line| line.contains("the relay was cut off")).collect();
    assert!(told.len() == 1 && told[0].contains("WARN") && told[0].contains("stock"), "{text}");
}
