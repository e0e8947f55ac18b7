use std::{sync::Arc, time::Duration};

use sqlx::PgPool;

use super::{
    RelayError, outbox,
    replay::{self, Replay},
    settled::Writing,
    vouching::{Step, Vouching},
};
use crate::{
    cache::{Invalidator, UnsureRun},
    clock::Instant,
};

/// A new run of the store of one cache, which may have lost invalidations.
#[derive(Debug)]
pub(super) struct NewRun<'a> {
    pub(super) pool: &'a PgPool,
    /// All caches of the relay. Several of them may have one name.
    pub(super) caches: &'a [Invalidator],
    pub(super) cache: &'a Invalidator,
    pub(super) run: &'a UnsureRun,
    pub(super) vouching: &'a Vouching,
    /// How long one round applies kept rows again.
    pub(super) share: Duration,
}

impl NewRun<'_> {
    /// Returns whether it vouched. It looks once and leaves the next look to the next round, so that waiting rows do
    /// not wait for a transaction as well.
    pub(super) async fn vouch(&self) -> Result<bool, RelayError> {
        let Self { pool, cache, run, vouching, .. } = self;
        // A transaction whose intent was lost with the earlier run may be committing right now. Its row is not visible
        // yet, so a value from before its commit could still be served.
        let writing = match vouching.next(run, Instant::now()) {
            Step::Rest => return Ok(false),
            Step::Look(writing) => writing,
            Step::Ask => {
                let asked = Instant::now();
                let writing = Arc::new(Writing::now(pool).await.map_err(RelayError::Sqlx)?);
                vouching.waits_for(run, Some((Arc::clone(&writing), asked)));
                writing
            }
        };
        match writing.are_over(pool).await.map_err(RelayError::Sqlx)? {
            Some(true) => {}
            Some(false) => {
                vouching.tell_of_long_wait(cache.name());
                // A replay has begun already if Postgres has failed over since, and a prepared transaction is back.
                vouching.replay_anew(run);
                return Ok(false);
            }
            None => {
                vouching.waits_for(run, None);
                return Ok(false);
            }
        }
        if !self.replay().await? {
            return Ok(false);
        }
        let Some(Replay { rows, refusal, .. }) = vouching.replayed(run) else { return Ok(false) };
        if let Some(refusal) = refusal {
            vouching.was_refused(run, Instant::now(), &refusal);
            return Ok(false);
        }
        tracing::info!(cache = cache.name(), rows, "invalidations applied again to a new run of the store");
        // Commands on another connection may have reached another server.
        if cache.0.unsure_run().as_ref() != Some(*run) || !vouching.applied(run) {
            return Ok(false);
        }
        let refused = |source| RelayError::Cache { cache: cache.name(), source };
        cache.0.trust(run).await.map_err(refused)?;
        Ok(true)
    }

    /// Applies kept rows again, from where the round before stopped. Returns whether all were applied.
    async fn replay(&self) -> Result<bool, RelayError> {
        let Self { pool, caches, cache, run, vouching, share } = self;
        let began = Instant::now();
        if !vouching.resume(run) {
            let newest = outbox::newest(*pool).await.map_err(RelayError::Sqlx)?;
            vouching.begin(run, Replay::new(newest));
        }
        while let Some(last) = vouching.position(run) {
            let Some(batch) = replay::batch(pool, caches, &[cache.name()], last).await? else { break };
            vouching.note(run, batch);
            if began.elapsed() >= *share {
                return Ok(false);
            }
        }
        let Some(newest) = vouching.settles(run) else { return Ok(true) };
        Ok(!outbox::waits(*pool, cache.name(), newest).await.map_err(RelayError::Sqlx)?)
    }
}
