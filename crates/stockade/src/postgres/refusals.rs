use std::collections::BTreeSet;

use parking_lot::Mutex;
use sqlx::PgPool;

use super::{RelayError, gauges::Gauges, outbox};
use crate::{chain::Chain, metrics::OUTBOX_REFUSED};

/// The caches that refuse some rows of the outbox and take others, and whose refusals were logged.
#[derive(Debug, Default)]
pub(super) struct Refusals(Mutex<BTreeSet<&'static str>>);

impl Refusals {
    /// Logs that a cache refuses rows, once until all its rows are applied.
    pub(super) fn tell(&self, cache: &'static str, refusal: Option<RelayError>) {
        if let Some(error) = refusal
            && self.0.lock().insert(cache)
        {
            tracing::warn!(
                cache,
                error = %Chain(&error),
                "a cache refuses some of its invalidations, so their values may be stale. They are tried again at least \
                 once a minute, and others do not wait for them. Mend what the error names; see \
                 stockade_outbox_refused_rows"
            );
        }
    }

    /// Sets the gauge of refused rows. `waits` says whether any row is pending; if none is, none is refused.
    pub(super) async fn count(
        &self,
        pool: &PgPool,
        caches: &[&'static str],
        waits: bool,
        gauges: &Gauges,
    ) -> Result<(), sqlx::Error> {
        for cache in caches {
            let rows = if waits { outbox::refused(pool, cache).await? } else { 0 };
            #[expect(clippy::cast_precision_loss, reason = "a gauge")]
            gauges.set(OUTBOX_REFUSED, Some(cache), rows as f64);
            if rows == 0 && self.0.lock().remove(cache) {
                tracing::info!(cache, "every invalidation that the cache had refused is applied");
            }
        }
        Ok(())
    }
}
