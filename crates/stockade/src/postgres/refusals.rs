use parking_lot::Mutex;
use sqlx::PgPool;

use super::{RelayError, outbox};
use crate::metrics::{self, OUTBOX_REFUSED, tag};

/// The caches that refuse some rows of the outbox and take others.
#[derive(Debug)]
pub(super) struct Refusals(Mutex<Vec<Refusing>>);

#[derive(Debug)]
struct Refusing {
    cache: &'static str,
    /// Whether the refusals were logged.
    told: bool,
}

impl Refusals {
    pub(super) fn of(caches: &[&'static str]) -> Self {
        let mut all: Vec<_> = caches.iter().map(|cache| Refusing { cache, told: false }).collect();
        all.dedup_by_key(|refusing| refusing.cache);
        Self(Mutex::new(all))
    }

    /// Logs that a cache refuses rows, once until all its rows are applied.
    pub(super) fn tell(&self, cache: &'static str, refusal: Option<RelayError>) {
        let Some(error) = refusal else { return };
        let mut all = self.0.lock();
        if let Some(refusing) = all.iter_mut().find(|refusing| refusing.cache == cache && !refusing.told) {
            refusing.told = true;
            tracing::warn!(
                cache,
                error = &error as &dyn std::error::Error,
                "a cache refuses some of its invalidations, so their values may be stale. They are tried again at least \
                 once a minute, and others do not wait for them. Mend what the error names; see \
                 stockade_outbox_refused_rows"
            );
        }
    }

    /// Sets the gauge of refused rows. `waits` says whether any row is pending; if none is, none is refused.
    pub(super) async fn count(&self, pool: &PgPool, waits: bool) -> Result<(), sqlx::Error> {
        let caches: Vec<_> = {
            let all = self.0.lock();
            all.iter().map(|refusing| refusing.cache).collect()
        };
        for cache in caches {
            let rows = if waits { outbox::refused(pool, cache).await? } else { 0 };
            #[expect(clippy::cast_precision_loss, reason = "a gauge")]
            metrics::gauge(OUTBOX_REFUSED, &[tag("cache", cache)], rows as f64);
            let mut all = self.0.lock();
            if let Some(refusing) =
                all.iter_mut().find(|refusing| refusing.cache == cache && refusing.told && rows == 0)
            {
                refusing.told = false;
                tracing::info!(cache, "every invalidation that the cache had refused is applied");
            }
        }
        Ok(())
    }
}
