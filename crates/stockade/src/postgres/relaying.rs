use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use rand::Rng;
use sqlx::PgPool;
use tokio_util::sync::CancellationToken;

use super::{
    RelayError,
    applying::apply,
    gauges::Gauges,
    new_run::NewRun,
    outbox,
    presence::Presence,
    refusals::Refusals,
    registry::PoolState,
    replay::Replay,
    sqlstate::{DEADLOCK_DETECTED, LOCK_NOT_AVAILABLE, QUERY_CANCELED, SERIALIZATION_FAILURE, sqlstate},
    vouching::Vouching,
};
use crate::{cache::Invalidator, chain::Chain, clock::Instant, metrics::OUTBOX_LAG};

/// How often the relay looks for rows.
const TICK: Duration = Duration::from_millis(250);
/// How long a committer has to apply its own invalidations.
const GRACE: Duration = Duration::from_secs(2);
/// How many rows are applied and marked together.
const BATCH: u16 = 256;
const MAX_BACKOFF: Duration = Duration::from_secs(5);
/// How often the log repeats that rounds fail.
const REMINDER: Duration = Duration::from_secs(60);
/// The limit of one round, for a database that accepts connections and never answers.
const ROUND_LIMIT: Duration = Duration::from_secs(30);
/// How long one round applies kept rows again for one cache. Waiting rows get their turn then.
const REPLAY_SHARE: Duration = Duration::from_secs(5);
/// Failures to mark rows that have nothing to do with which server answers.
const PASSING: [&str; 4] = [LOCK_NOT_AVAILABLE, DEADLOCK_DETECTED, QUERY_CANCELED, SERIALIZATION_FAILURE];
/// How long one round applies waiting rows of one cache.
const APPLY_SHARE: Duration = Duration::from_secs(1);
/// The limit of a look from the beginning of the outbox.
const FULL_LOOK: Duration = Duration::from_secs(10);
/// How often the relay looks for intents whose writer died.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// One in so many rounds deletes old rows, and looks for waiting ones from the beginning of the outbox.
const FULL_EVERY: u32 = 40;
/// How many batches of old rows one round deletes at most. Of a strict cache, each commit leaves rows to delete.
const DELETE_BATCHES: usize = 20;

/// What a relay does, round by round.
#[derive(Debug)]
pub(super) struct Worker {
    pool: PgPool,
    state: Arc<PoolState>,
    caches: Vec<Invalidator>,
    names: Vec<&'static str>,
    refusals: Refusals,
    gauges: Gauges,
    presence: Presence,
    /// When intents were swept last.
    swept: Mutex<Option<Instant>>,
    /// Since the last look from the beginning failed: when that was logged.
    overlooks: Mutex<Option<Instant>>,
    /// [`ROUND_LIMIT`], and less in a test.
    pub(super) round_limit: Duration,
    /// [`FULL_LOOK`], and less in a test.
    pub(super) full_look: Duration,
    /// [`REPLAY_SHARE`], and less in a test.
    pub(super) replay_share: Duration,
}

impl Worker {
    /// Idle as yet.
    pub(super) fn new(pool: PgPool, caches: Vec<Invalidator>) -> Self {
        let names: Vec<_> = caches.iter().map(Invalidator::name).collect();
        let state = PoolState::of(&pool);
        state.collect();
        let (refusals, gauges) = (Refusals::default(), Gauges::new());
        let (presence, swept, overlooks) = (Presence::default(), Mutex::default(), Mutex::default());
        let (round_limit, full_look, replay_share) = (ROUND_LIMIT, FULL_LOOK, REPLAY_SHARE);
        Self {
            pool,
            state,
            caches,
            names,
            refusals,
            gauges,
            presence,
            swept,
            overlooks,
            round_limit,
            full_look,
            replay_share,
        }
    }

    /// Works until it is stopped.
    pub(super) async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut backoff = TICK;
        let mut rounds = 0_u32;
        // When it was logged that a round failed.
        let mut told: Option<Instant> = None;
        // The first round looks from the beginning.
        let mut since = f64::INFINITY;
        // One for each cache.
        let mut vouching: Vec<_> = self.caches.iter().map(|_| None).collect();
        loop {
            let round = self.round(rounds.is_multiple_of(FULL_EVERY), &mut since, &mut vouching);
            let round = tokio::time::timeout(self.round_limit, round);
            let pause = match stop.run_until_cancelled(round).await {
                None => break,
                Some(Ok(Ok(more))) => {
                    (backoff, told) = (TICK, None);
                    if more { Duration::ZERO } else { TICK }
                }
                Some(failed) => {
                    if told.is_none_or(|told| told.elapsed() >= REMINDER) {
                        told = Some(Instant::now());
                        self.tell(failed.ok().and_then(Result::err));
                    }
                    backoff = (backoff * 2).min(MAX_BACKOFF);
                    backoff.mul_f64(rand::rng().random_range(0.5..1.0))
                }
            };
            rounds = rounds.wrapping_add(1);
            if stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
                break;
            }
        }
        self.mark_flushed().await.unwrap_or_else(|error| {
            tracing::debug!(%error, "rows applied before the stop are applied again by another relay");
        });
    }

    /// Says why a round failed: by its error, or because it took too long.
    fn tell(&self, error: Option<RelayError>) {
        match error {
            Some(error) => tracing::warn!(error = %Chain(&error), "the outbox waits"),
            None => tracing::warn!(
                caches = ?self.names,
                "the relay was cut off after {:?} of one round, so invalidations wait, and no new run of a store is \
                 vouched for: look whether Postgres and the Redis of these caches answer",
                self.round_limit
            ),
        }
    }

    /// Applies the kept rows of all its caches.
    pub(super) async fn reapply_all(&self) -> Result<Replay, RelayError> {
        let mut replay = Replay::new(i64::MAX);
        while replay.go_on(&self.pool, &self.caches, &self.names).await? {}
        Ok(replay)
    }

    /// One round. Returns whether more rows are waiting. Dropping the future is harmless: its rows are unlocked.
    pub(super) async fn round(
        &self,
        full: bool,
        since: &mut f64,
        vouching: &mut [Option<Vouching>],
    ) -> Result<bool, RelayError> {
        if let Err(error) = self.presence.say(&self.pool, &self.names).await {
            tracing::debug!(%error, "others may not know that a relay runs");
        }
        let marked = self.mark_flushed().await.map_err(RelayError::Sqlx);
        let lag;
        (lag, *since) = self.lag(full, *since).await.map_err(RelayError::Sqlx)?;
        // Where older rows are not looked for, their lag is not known to be over.
        if lag > 0.0 || self.overlooks.lock().is_none() {
            self.gauges.set(OUTBOX_LAG, None, lag);
        }
        let waits = lag >= GRACE.as_secs_f64();
        let applied = if waits { self.apply_pending(*since).await } else { Ok(false) };
        self.refusals.count(&self.pool, &self.names, waits, &self.gauges).await.map_err(RelayError::Sqlx)?;
        if full {
            self.delete_old().await.map_err(RelayError::Sqlx)?;
        }
        // A cache that takes no invalidations must not delay the vouching for other caches.
        let vouched = self.vouch(vouching).await;
        self.sweep().await;
        vouched.and(marked)?;
        applied
    }

    /// As [`outbox::lag`], from the beginning in a full round. During a transaction of hours such a look may take too
    /// long: then the round goes on with what is newer than `since`.
    async fn lag(&self, full: bool, since: f64) -> Result<(f64, f64), sqlx::Error> {
        if full {
            let looked = outbox::lag_of_all(&self.pool, &self.names, self.full_look).await;
            let mut overlooks = self.overlooks.lock();
            match looked {
                Ok(found) => {
                    *overlooks = None;
                    return Ok(found);
                }
                Err(error) if overlooks.is_none_or(|told| told.elapsed() >= REMINDER) => {
                    *overlooks = Some(Instant::now());
                    tracing::warn!(
                        error = %Chain(&error),
                        "invalidations older than a minute are not looked for: does a transaction run for hours?"
                    );
                }
                Err(_) => {}
            }
        }
        outbox::lag(&self.pool, &self.names, since).await
    }

    async fn delete_old(&self) -> Result<(), sqlx::Error> {
        for _ in 0..DELETE_BATCHES {
            if !outbox::delete_old(&self.pool).await? {
                break;
            }
        }
        Ok(())
    }

    /// Ends the intents of writers that died before they could end them.
    async fn sweep(&self) {
        {
            let mut swept = self.swept.lock();
            if swept.is_some_and(|swept| swept.elapsed() < SWEEP_EVERY) {
                return;
            }
            *swept = Some(Instant::now());
        }
        for cache in self.caches.iter().filter(|cache| cache.0.is_strict()) {
            if let Err(error) = cache.0.sweep().await {
                tracing::debug!(%error, cache = cache.name(), "announcements are swept in the next round");
            }
        }
    }

    /// Vouches for new runs of stores, once every invalidation that they may have lost was applied again.
    async fn vouch(&self, vouching: &mut [Option<Vouching>]) -> Result<(), RelayError> {
        let mut failure = None;
        for (cache, known) in self.caches.iter().zip(vouching) {
            let Some(run) = cache.0.unsure_run() else {
                *known = None;
                continue;
            };
            let (pool, caches, share) = (&self.pool, &self.caches[..], self.replay_share);
            let vouching = Vouching::of(known, run, Instant::now());
            let vouched = NewRun { pool, caches, cache, vouching, share }.vouch().await;
            match vouched {
                Ok(true) => *known = None,
                Ok(false) => {}
                Err(error) => failure = Some(error),
            }
        }
        failure.map_or(Ok(()), Err)
    }

    /// Marks the rows that transactions of this process have applied themselves. If others held them, they are marked
    /// in the next round.
    ///
    /// After any other failure the rows are forgotten, and a relay makes their invalidations again: perhaps another
    /// server takes over that lacks the last commits, and gives their ids to other rows.
    pub(super) async fn mark_flushed(&self) -> Result<(), sqlx::Error> {
        let mut rows = self.state.take_flushed();
        while !rows.is_empty() {
            let batch = rows.len().min(BATCH.into());
            let marked = outbox::mark(&self.pool, &rows[..batch]).await;
            if marked.as_ref().is_err_and(|error| sqlstate(error).is_some_and(|code| PASSING.contains(&code))) {
                self.state.flushed(&rows);
            }
            marked?;
            rows.drain(..batch);
        }
        Ok(())
    }

    /// Applies the waiting rows, one cache after the other: rows of a cache that is down take no place in the batch of
    /// another. Each cache has a share of the time, since a round that fails is followed by a pause for all of them.
    /// Returns whether more rows are waiting.
    async fn apply_pending(&self, since: f64) -> Result<bool, RelayError> {
        let (mut waits, mut failure) = (false, None);
        for name in &self.names {
            let began = Instant::now();
            let more = loop {
                match self.apply_pending_of(name, since).await {
                    Ok(true) if began.elapsed() < APPLY_SHARE => {}
                    Ok(more) => break more,
                    Err(error) => {
                        failure = Some(error);
                        break false;
                    }
                }
            };
            waits |= more;
        }
        failure.map_or(Ok(waits), Err)
    }

    async fn apply_pending_of(&self, name: &'static str, since: f64) -> Result<bool, RelayError> {
        let mut tx = self.pool.begin().await.map_err(RelayError::Sqlx)?;
        let rows = outbox::claim(&mut tx, name, GRACE, since, BATCH.into()).await.map_err(RelayError::Sqlx)?;
        if !rows.is_empty() {
            let applied = apply(&self.caches, &rows).await;
            outbox::mark(&mut *tx, &applied.rows).await.map_err(RelayError::Sqlx)?;
            if !applied.refused.is_empty() {
                let refused: Vec<_> = applied.refused.into_iter().collect();
                outbox::step_over(&mut *tx, &refused).await.map_err(RelayError::Sqlx)?;
            }
            tx.commit().await.map_err(RelayError::Sqlx)?;
            self.refusals.tell(name, applied.refusal);
            applied.outage.map_or(Ok(()), Err)?;
        }
        Ok(!rows.is_empty())
    }
}
