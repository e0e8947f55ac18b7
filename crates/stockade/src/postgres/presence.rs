//! Whether a relay runs for a cache, in any process.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use sqlx::{PgExecutor, PgPool};

use super::{registry::PoolState, wanted::Wanted};
use crate::clock::Instant;

/// How often a relay writes that it runs.
const SAY_EVERY: Duration = Duration::from_secs(5);
/// How long a relay counts as running after it last wrote so.
const HOLDS: Duration = Duration::from_secs(30);

/// When a relay last wrote that it runs.
#[derive(Debug, Default)]
pub(super) struct Presence(Mutex<Option<Instant>>);

impl Presence {
    /// Writes that a relay runs for these caches, if that is due.
    pub(super) async fn say(&self, pool: &PgPool, caches: &[&'static str]) -> Result<(), sqlx::Error> {
        // Of several relays, one writes each time.
        const SQL: &str = "insert into stockade.relay as r (cache, seen_at)
            select distinct cache, clock_timestamp() from unnest($1::text[]) cache order by cache
            on conflict (cache) do update set seen_at = excluded.seen_at
            where r.seen_at < excluded.seen_at - make_interval(secs => $2) or r.seen_at > excluded.seen_at";
        let said = *self.0.lock();
        if said.is_none_or(|said| said.elapsed() >= SAY_EVERY) {
            sqlx::query(SQL).bind(caches).bind(SAY_EVERY.as_secs_f64() / 2.0).execute(pool).await?;
            *self.0.lock() = Some(Instant::now());
        }
        Ok(())
    }
}

/// Those of `caches` for which no relay wrote within [`HOLDS`] that it runs.
pub(super) async fn absent(executor: impl PgExecutor<'_>, caches: &[&'static str]) -> Result<Vec<String>, sqlx::Error> {
    const SQL: &str = "select cache from unnest($1::text[]) cache where not exists (select from stockade.relay r
        where r.cache = cache.cache and r.seen_at > clock_timestamp() - make_interval(secs => $2))";
    sqlx::query_scalar(SQL).bind(caches).bind(HOLDS.as_secs_f64()).fetch_all(executor).await
}

/// Logs once for each of these caches if no relay runs that could make their invalidations. The look is a task of its
/// own, and takes a connection only if one is free.
pub(super) fn look_for_relays(pool: &PgPool, state: &Arc<PoolState>, caches: impl Iterator<Item = &'static str>) {
    let due = state.wanted.due(caches);
    if !due.is_empty() {
        let (pool, wanting) = (pool.clone(), Arc::clone(state));
        // There is one look at a time for each cache: a cache that is due is not due again before its look has ended.
        state.tasks.spawn(async move { look(&pool, &wanting.wanted, &due).await });
    }
}

async fn look(pool: &PgPool, wanted: &Wanted, due: &[&'static str]) {
    let Some(mut connection) = pool.try_acquire() else { return wanted.again(due) };
    match absent(&mut *connection, due).await {
        Ok(absent) => absent.iter().for_each(|cache| tell_of_none(cache)),
        Err(error) => {
            wanted.again(due);
            tracing::debug!(%error, "whether a relay runs is not known");
        }
    }
}

fn tell_of_none(cache: &str) {
    tracing::warn!(
        cache,
        "no stockade::postgres::Relay runs for this cache in any process: an invalidation that its committer can't \
         make is never made, and rows stay in stockade.outbox. Run one with `Relay::spawn(pool, [cache.invalidator()])`"
    );
}
