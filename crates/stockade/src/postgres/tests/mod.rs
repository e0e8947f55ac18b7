//! Invalidations against a real Postgres and a cache whose store fails on command.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::{BoxFuture, pending};
use metrics_exporter_prometheus::PrometheusBuilder;
use parking_lot::Mutex;
use sqlx::PgPool;
use stockade_testbed::{PostgresServer, eventually};
use tokio::time::Instant;

use super::{CommitError, Relay, Timeouts, Tx, applying, install, options, outbox::Row};
use crate::{
    Locks,
    cache::{CacheError, Fault, Intent, Invalidate, Invalidator, LoadError, NotTaken, Outcomes, Tag, UnsureRun},
    resource::{Key, Sku},
};

mod group_commit;
mod history;
#[path = "../../../tests/it/log.rs"]
mod log;
mod replay;

/// A cache that records its invalidations. While `down` an invalidation fails after a second, like a command to a
/// frozen store.
#[derive(Default)]
struct Recorder {
    down: AtomicBool,
    /// How many invalidations were refused while it was down.
    refused: AtomicUsize,
    /// Whether no invalidation ever ends.
    hangs: bool,
    seen: Mutex<Vec<String>>,
    /// The run of its store that no relay has vouched for.
    unsure: Mutex<Option<UnsureRun>>,
    /// How many of the next invalidations each raise the connection number of the unsure run.
    reconnects: AtomicUsize,
    /// Whether it takes one key and falls silent then.
    falls_silent: bool,
    /// Whether it is strict, and refuses to trust any run.
    refuses_trust: bool,
    /// Its name, if that is not `stock`.
    named: Option<&'static str>,
    /// How long a process may serve dropped values to a holder of a lock.
    heard_within: Option<Duration>,
    /// How often its announcements were swept.
    swept: AtomicUsize,
}

impl Recorder {
    fn new() -> (Arc<Self>, Invalidator) {
        let recorder = Arc::<Self>::default();
        (Arc::clone(&recorder), Invalidator(recorder))
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().clone()
    }
}

impl Invalidate for Recorder {
    fn name(&self) -> &'static str {
        self.named.unwrap_or("stock")
    }

    fn heard_within(&self) -> Option<Duration> {
        self.heard_within
    }

    fn invalidate<'a>(&'a self, keys: &'a [Key]) -> BoxFuture<'a, Outcomes<()>> {
        Box::pin(async {
            if self.hangs {
                return pending().await;
            }
            if self.falls_silent {
                return keys.iter().enumerate().map(|(at, _)| if at == 0 { Ok(()) } else { Err(frozen()) }).collect();
            }
            if self.down.load(Ordering::Acquire) {
                tokio::time::sleep(Duration::from_secs(1)).await;
                self.refused.fetch_add(1, Ordering::AcqRel);
                return keys.iter().map(|_| Err(frozen())).collect();
            }
            let mut seen = self.seen.lock();
            seen.extend(keys.iter().map(ToString::to_string));
            let left = self.reconnects.load(Ordering::Acquire);
            if let (Some(run), Some(left)) = (&mut *self.unsure.lock(), left.checked_sub(1)) {
                run.connection += 1;
                self.reconnects.store(left, Ordering::Release);
            }
            keys.iter().map(|_| Ok(())).collect()
        })
    }

    fn invalidate_tags<'a>(&'a self, tags: &'a [Tag]) -> BoxFuture<'a, Outcomes<()>> {
        Box::pin(async {
            let mut seen = self.seen.lock();
            seen.extend(tags.iter().map(Tag::marked));
            tags.iter().map(|_| Ok(())).collect()
        })
    }

    fn is_strict(&self) -> bool {
        self.refuses_trust
    }

    fn begin<'a>(&'a self, _keys: &'a [Key], _intent: &'a Intent) -> BoxFuture<'a, Result<(), CacheError>> {
        Box::pin(async { Ok(()) })
    }

    fn sweep(&self) -> BoxFuture<'_, Result<(), CacheError>> {
        self.swept.fetch_add(1, Ordering::AcqRel);
        Box::pin(async { Ok(()) })
    }

    fn unsure_run(&self) -> Option<UnsureRun> {
        self.unsure.lock().clone()
    }

    fn trust<'a>(&'a self, run: &'a UnsureRun) -> BoxFuture<'a, Result<(), CacheError>> {
        Box::pin(async {
            if self.refuses_trust {
                return Err(frozen().error);
            }
            *self.unsure.lock() = None;
            let mut seen = self.seen.lock();
            seen.push(format!("trusted on connection {}", run.connection));
            Ok(())
        })
    }

    fn end<'a>(&'a self, keys: &'a [Key], _id: &'a str) -> BoxFuture<'a, Outcomes<bool>> {
        Box::pin(async { self.invalidate(keys).await.into_iter().map(|done| done.map(|()| true)).collect() })
    }
}

#[tokio::test]
async fn a_run_that_can_not_be_vouched_for_keeps_no_announcement_from_being_swept() {
    let (_server, pool) = database().await;
    let recorder = Arc::new(Recorder { refuses_trust: true, ..Recorder::default() });
    *recorder.unsure.lock() = Some(UnsureRun { id: Arc::from("run"), connection: 1, has_rival: false });
    let relay = Relay::spawn(pool, [Invalidator(Arc::clone(&recorder) as Arc<dyn Invalidate>)]);
    until(async || recorder.swept.load(Ordering::Acquire) >= 2).await;
    assert!(recorder.unsure.lock().is_some());
    relay.shutdown(Duration::from_secs(1)).await;
}

fn frozen() -> NotTaken {
    NotTaken { error: CacheError::Unavailable(LoadError::new("frozen")), fault: Fault::Silence }
}

async fn database() -> (PostgresServer, PgPool) {
    let server = PostgresServer::start().await.unwrap();
    let options = options(server.url().parse().unwrap(), &Timeouts::default());
    let pool = PgPool::connect_with(options).await.unwrap();
    install(&pool).await.unwrap();
    (server, pool)
}

/// Rows of the outbox: all, and those not applied.
async fn rows(pool: &PgPool) -> (i64, i64) {
    sqlx::query_as("select count(*), count(*) filter (where applied_at is null) from stockade.outbox")
        .fetch_one(pool)
        .await
        .unwrap()
}

async fn until(condition: impl AsyncFn() -> bool) {
    eventually("the condition comes true", condition).await;
}

async fn commit(pool: &PgPool, cache: &Invalidator, sku: &'static str) {
    let held = Locks::memory().write(&Sku(sku)).acquire().await.unwrap();
    let mut tx = Tx::unfenced(pool).await.unwrap();
    tx.invalidations.add_key(cache.clone(), Key::of(&Sku(sku)).unwrap());
    tx.invalidations.add_key(cache.clone(), Key::of(&Sku(sku)).unwrap());
    tx.commit().await.unwrap();
    drop(held);
}

#[tokio::test]
async fn a_commit_invalidates_once_and_the_relay_does_not_repeat_it() {
    let (_server, pool) = database().await;
    let (recorder, cache) = Recorder::new();
    let relay = Relay::spawn(pool.clone(), [cache.clone()]);
    commit(&pool, &cache, "a").await;
    assert_eq!(recorder.seen(), ["stock:a"], "before commit returned");
    until(async || rows(&pool).await == (1, 0)).await;
    // The relay applies rows that are not marked, oldest first: it would have applied the one of the commit as well.
    sqlx::raw_sql("insert into stockade.outbox (cache, resource) values ('stock', 'stock:b')")
        .execute(&pool)
        .await
        .unwrap();
    until(async || rows(&pool).await == (2, 0)).await;
    assert_eq!(recorder.seen(), ["stock:a", "stock:b"]);
    relay.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn a_rollback_leaves_no_row_and_no_invalidation() {
    let (_server, pool) = database().await;
    let (recorder, cache) = Recorder::new();
    for explicit in [true, false] {
        let mut tx = Tx::unfenced(&pool).await.unwrap();
        tx.invalidations.add_key(cache.clone(), Key::of(&Sku("a")).unwrap());
        if explicit {
            tx.rollback().await.unwrap();
        }
    }
    let mut tx = Tx::unfenced(&pool).await.unwrap();
    tx.invalidations.add_key(cache.clone(), Key::of(&Sku("a")).unwrap());
    let _ = sqlx::query("select 1 / 0").execute(&mut *tx).await;
    assert!(matches!(tx.commit().await, Err(CommitError::NotApplied(_))));

    assert_eq!(rows(&pool).await, (0, 0));
    assert!(recorder.seen().is_empty());
}

#[tokio::test]
async fn a_commit_whose_cache_is_frozen_answers_in_time_and_the_relay_catches_up() {
    let (_server, pool) = database().await;
    let (recorder, cache) = Recorder::new();
    recorder.down.store(true, Ordering::Release);
    let relay = Relay::spawn(pool.clone(), [cache.clone()]);

    let started = Instant::now();
    commit(&pool, &cache, "a").await;
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    assert_eq!(rows(&pool).await, (1, 1));

    let refused = recorder.refused.load(Ordering::Acquire);
    until(async || recorder.refused.load(Ordering::Acquire) >= refused + 2).await;
    assert_eq!(rows(&pool).await, (1, 1));
    recorder.down.store(false, Ordering::Release);
    until(async || rows(&pool).await == (1, 0)).await;
    assert_eq!(recorder.seen(), ["stock:a"]);
    relay.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn a_commit_leaves_a_cache_that_never_answers_to_the_relay() {
    let (_server, pool) = database().await;
    let cache = Invalidator(Arc::new(Recorder { hangs: true, ..Recorder::default() }));
    // Twice as long as it may take on a machine that does not stall.
    let limit = Duration::from_secs(20);
    tokio::time::timeout(limit, commit(&pool, &cache, "a")).await.expect("the commit waits for the cache");
    assert_eq!(rows(&pool).await, (1, 1));
}

#[tokio::test]
async fn a_store_that_falls_silent_within_a_batch_has_refused_none_of_its_rows() {
    let cache = Invalidator(Arc::new(Recorder { falls_silent: true, ..Recorder::default() }));
    let row = |id| Row { id, cache: "stock".to_owned(), resource: format!("stock:{id}"), intent: None };
    let applied = applying::apply(&[cache], &[row(1), row(2), row(3)]).await;
    assert_eq!((applied.rows.len(), applied.refused.len()), (1, 0), "{applied:?}");
    assert!(applied.outage.is_some() && applied.refusal.is_none(), "{applied:?}");
}

#[tokio::test]
async fn a_row_waits_for_every_cache_of_its_name() {
    let (_server, pool) = database().await;
    let ((taking, one), (frozen, other)) = (Recorder::new(), Recorder::new());
    frozen.down.store(true, Ordering::Release);
    let row = "insert into stockade.outbox (cache, resource, created_at)
        values ('stock', 'stock:a', clock_timestamp() - interval '5 s')";
    sqlx::query(row).execute(&pool).await.unwrap();
    let relay = Relay::spawn(pool.clone(), [one, other]);
    // One cache fails, so the next round applies the row to both again.
    until(async || taking.seen().len() > 1).await;
    frozen.down.store(false, Ordering::Release);
    until(async || frozen.seen() == ["stock:a"] && rows(&pool).await == (1, 0)).await;
    relay.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn the_gauges_show_the_worst_of_all_relays_and_end_with_them() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let shown = recorder.handle();
    let _recorder = metrics::set_default_local_recorder(&recorder);
    let ((_late, late), (_well, well)) = (database().await, database().await);
    let (frozen, cache) = Recorder::new();
    frozen.down.store(true, Ordering::Release);
    let row = "insert into stockade.outbox (cache, resource, created_at, attempts)
        values ('stock', 'stock:a', clock_timestamp() - interval '1 hour', 1)";
    sqlx::query(row).execute(&late).await.unwrap();
    let relays = [(late, cache), (well, Recorder::new().1)].map(|(pool, cache)| Relay::spawn(pool, [cache]));
    let value = |series: &str| -> Option<f64> {
        let text = shown.render();
        text.lines().find_map(|line| line.strip_prefix(series))?.trim().parse().ok()
    };
    let are_high = || {
        let [lag, refused] =
            [value("stockade_outbox_lag_seconds "), value("stockade_outbox_refused_rows{cache=\"stock\"} ")];
        lag > Some(3_000.0) && refused >= Some(1.0)
    };
    until(async || are_high()).await;
    // For longer than some rounds of the other relay.
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert!(are_high(), "{}", shown.render());
    }
    drop(relays);
    // Relays of other tests in this process may see rows that are minutes old.
    until(async || value("stockade_outbox_lag_seconds ") < Some(3_000.0)).await;
}

#[tokio::test]
async fn a_row_that_commits_late_with_a_lower_id_is_not_skipped() {
    const INSERT: &str = "insert into stockade.outbox (cache, resource, created_at)
        values ('stock', $1, clock_timestamp() - interval '5 s')";
    let (_server, pool) = database().await;
    let (recorder, cache) = Recorder::new();
    let mut late = pool.begin().await.unwrap();
    sqlx::query(INSERT).bind("stock:late").execute(&mut *late).await.unwrap();
    sqlx::query(INSERT).bind("stock:early").execute(&pool).await.unwrap();
    sqlx::query(INSERT).bind("stock:locked").execute(&pool).await.unwrap();
    sqlx::query("insert into stockade.outbox (cache, resource) values ('another service', 'x')")
        .execute(&pool)
        .await
        .unwrap();
    let mut other_relay = pool.begin().await.unwrap();
    sqlx::query("select 1 from stockade.outbox where resource = 'stock:locked' for update")
        .execute(&mut *other_relay)
        .await
        .unwrap();

    let relay = Relay::spawn(pool.clone(), [cache]);
    until(async || recorder.seen() == ["stock:early"]).await;
    late.commit().await.unwrap();
    until(async || recorder.seen() == ["stock:early", "stock:late"]).await;
    other_relay.rollback().await.unwrap();
    until(async || recorder.seen() == ["stock:early", "stock:late", "stock:locked"]).await;
    until(async || rows(&pool).await == (4, 1)).await;
    relay.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn kept_rows_are_applied_again_on_demand_and_old_ones_are_deleted() {
    let (_server, pool) = database().await;
    let (recorder, cache) = Recorder::new();
    sqlx::query(
        "insert into stockade.outbox (cache, resource, created_at, applied_at)
         select 'stock', 'stock:' || n, now() - interval '11 min', now() - make_interval(secs => n) from generate_series(1, 700) n",
    )
    .execute(&pool)
    .await
    .unwrap();
    let relay = Relay::spawn(pool.clone(), [cache]);
    until(async || rows(&pool).await.0 <= 600).await;
    let (kept, _) = rows(&pool).await;
    let again = relay.reapply().await.unwrap();
    assert!(again >= 580 && again <= u64::try_from(kept).unwrap(), "{again} of {kept}");
    assert_eq!(u64::try_from(recorder.seen().len()).unwrap(), again);
    relay.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn what_was_applied_while_the_connection_changed_vouches_for_nothing() {
    let (_server, pool) = database().await;
    let (recorder, cache) = Recorder::new();
    sqlx::raw_sql("insert into stockade.outbox (cache, resource, applied_at) values ('stock', 'stock:a', now())")
        .execute(&pool)
        .await
        .unwrap();
    *recorder.unsure.lock() = Some(UnsureRun { id: Arc::from("run"), connection: 1, has_rival: false });
    recorder.reconnects.store(2, Ordering::Release);
    let relay = Relay::spawn(pool, [cache]);
    until(async || recorder.unsure.lock().is_none()).await;
    assert_eq!(recorder.seen(), ["stock:a", "stock:a", "stock:a", "trusted on connection 3"]);
    relay.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn the_relay_outlives_an_outage_of_postgres() {
    let (server, pool) = database().await;
    let (recorder, cache) = Recorder::new();
    recorder.down.store(true, Ordering::Release);
    let relay = Relay::spawn(pool.clone(), [cache.clone()]);
    commit(&pool, &cache, "a").await;
    until(async || recorder.refused.load(Ordering::Acquire) > 0).await;
    server.kill().await.unwrap();
    // Eight rounds of the relay.
    tokio::time::sleep(Duration::from_secs(1)).await;
    recorder.down.store(false, Ordering::Release);
    server.restart().await.unwrap();
    until(async || recorder.seen() == ["stock:a"]).await;
    relay.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn a_commit_that_is_refused_counts_as_none() {
    let (_server, pool) = database().await;
    let locks = Locks::memory();
    // Nothing was sent, so the request may still be answered as not applied.
    let writer = locks.write(&Sku("a")).acquire().await.unwrap();
    let (fence, tx) = (writer.fence(), writer.begin(&pool).await.unwrap());
    let adopted = locks.adopt(writer.hand_over().unwrap()).await.unwrap();
    assert!(matches!(tx.commit().await, Err(CommitError::Downgraded)));
    assert!(fence.ownership.commits.close());
    adopted.release().await.unwrap();
    // A downgrade does not wait for a commit that was refused.
    let writer = locks.write(&Sku("a")).acquire().await.unwrap();
    let tx = writer.begin(&pool).await.unwrap();
    assert!(writer.fence().ownership.commits.close());
    assert!(matches!(tx.commit().await, Err(CommitError::Closed)));
    writer.downgrade().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn under_several_locks_a_commit_is_refused_whichever_of_them_was_answered_as_not_applied() {
    let (_server, pool) = database().await;
    let locks = Locks::memory();
    for answered in ["a", "b"] {
        let held = locks.write_all(&[Sku("a"), Sku("b")]).acquire().await.unwrap();
        let tx = held.begin(&pool).await.unwrap();
        assert!(held.fence_of(&Sku(answered)).unwrap().ownership.commits.close());
        assert!(matches!(tx.commit().await, Err(CommitError::Closed)));
        held.release().await.unwrap();
    }
}
