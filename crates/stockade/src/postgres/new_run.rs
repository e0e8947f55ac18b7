use std::time::Duration;

use sqlx::PgPool;

use super::{RelayError, outbox, replay::Replay, settled::Writing, vouching::Vouching};
use crate::{cache::Invalidator, clock::Instant};

/// A new run of the store of one cache, which may have lost invalidations.
#[derive(Debug)]
pub(super) struct NewRun<'a> {
    pub(super) pool: &'a PgPool,
    /// All caches of the relay. Several of them may have one name.
    pub(super) caches: &'a [Invalidator],
    pub(super) cache: &'a Invalidator,
    pub(super) vouching: &'a mut Vouching,
    /// How long one round applies kept rows again.
    pub(super) share: Duration,
}

impl NewRun<'_> {
    /// Returns whether it vouched. It looks once and leaves the next look to the next round, so that waiting rows do
    /// not wait for a transaction as well.
    pub(super) async fn vouch(&mut self) -> Result<bool, RelayError> {
        if self.vouching.rests(Instant::now()) || !self.are_writers_over().await? || !self.replay().await? {
            return Ok(false);
        }
        let Self { cache, vouching, .. } = self;
        let Some(Replay { rows, refusal, .. }) = vouching.replay.take() else { return Ok(false) };
        if let Some(refusal) = refusal {
            vouching.was_refused(Instant::now(), &refusal);
            return Ok(false);
        }
        tracing::info!(cache = cache.name(), rows, "invalidations applied again to a new run of the store");
        // Commands on another connection may have reached another server.
        if cache.0.unsure_run().as_ref() != Some(&vouching.run) || !vouching.applied() {
            return Ok(false);
        }
        let refused = |source| RelayError::Cache { cache: cache.name(), source };
        cache.0.trust(&vouching.run).await.map_err(refused)?;
        Ok(true)
    }

    /// A transaction whose intent was lost with the earlier run may be committing right now. Its row is not visible
    /// yet, so a value from before its commit could still be served. A cache that is not strict waits for none: whoever
    /// commits after the replay invalidates in the new run, or leaves a row that is applied there.
    async fn are_writers_over(&mut self) -> Result<bool, RelayError> {
        let Self { pool, cache, vouching, .. } = self;
        if vouching.writing.is_none() {
            let asked = Instant::now();
            vouching.writing = Some((Writing::now(pool).await.map_err(RelayError::Sqlx)?, asked));
        }
        let Some((writing, _)) = &vouching.writing else { return Ok(false) };
        if !cache.0.is_strict() {
            return Ok(true);
        }
        let are_over = writing.are_over(pool).await.map_err(RelayError::Sqlx)?;
        match are_over {
            Some(true) => return Ok(true),
            Some(false) => vouching.tell_of_long_wait(cache.name()),
            None => vouching.writing = None,
        }
        // A replay has begun already if Postgres has failed over since, and a prepared transaction is back.
        vouching.replay = None;
        Ok(false)
    }

    /// Applies kept rows again, from where the round before stopped. Returns whether all were applied.
    async fn replay(&mut self) -> Result<bool, RelayError> {
        let Self { pool, caches, cache, vouching, share } = self;
        let began = Instant::now();
        match &mut vouching.replay {
            Some(replay) => replay.resume(),
            None => vouching.replay = Some(Replay::new(outbox::newest(*pool).await.map_err(RelayError::Sqlx)?)),
        }
        let Some(replay) = &mut vouching.replay else { return Ok(false) };
        while replay.go_on(pool, caches, &[cache.name()]).await? {
            if began.elapsed() >= *share {
                return Ok(false);
            }
        }
        let Some(newest) = replay.settles() else { return Ok(true) };
        Ok(!outbox::waits(*pool, cache.name(), newest).await.map_err(RelayError::Sqlx)?)
    }
}
