//! Applies the kept rows of the outbox again, from the lowest id on, a batch at a time.
//!
//! Before the relay vouches for a new run, it applies every row that was committed when the replay began. The outbox of
//! a strict cache holds the rows of the last ten minutes, and each row ends its own intent. So a replay may take many
//! rounds of the relay, and it keeps its position between them. The position survives these changes:
//!
//! | meanwhile | why no row is missed |
//! |---|---|
//! | a row commits late, with an id below the position | The replay begins once every transaction has ended that was writing when the relay heard of the run. The late row is of a transaction that began later, which announced its write to the new run. If an old primary may have got that announcement, a second replay follows, from the lowest id |
//! | rows are marked and become one row | The new row has a higher id than each of them. A row above the position is met by itself, or its replacement is met later |
//! | Postgres crashes or fails over and loses a mark, so the replacement is gone and a row below the position is back | Such a row is not applied again. A replay of several rounds is over only when no row that was there at its beginning waits to be applied |
//! | Postgres fails over, and a prepared transaction is back | Each round asks whether the transactions have ended. If one of them is running, the replay starts again from the lowest id |
//! | the run is replaced, or the connection to it is | The position belongs to one run on one connection. The next run begins a new replay |
//! | another relay replays, too | Each relay has a position of its own. Applying a row twice is harmless |
//! | the process of the relay is restarted | The position is lost. The new relay starts its replay from the lowest id |

use sqlx::PgPool;

use super::{RelayError, applying::apply, outbox};
use crate::cache::Invalidator;

/// How many rows are applied again together. Each row may stand for a batch.
const BATCH: i64 = 32;
/// The same for strict caches, where each row stands for itself.
const STRICT_BATCH: i64 = 256;

/// A replay that is under way.
#[derive(Debug)]
pub(super) struct Replay {
    /// The id of the last row that was applied again.
    last: i64,
    /// No row that was there at the beginning has a higher id, unless it has replaced others since.
    newest: i64,
    /// Whether it went on in another round than the one in which it began.
    resumed: bool,
    pub(super) rows: u64,
    /// The error of the last row that was refused.
    pub(super) refusal: Option<RelayError>,
}

impl Replay {
    /// From the lowest id on.
    pub(super) fn new(newest: i64) -> Self {
        Self { last: i64::MIN, newest, resumed: false, rows: 0, refusal: None }
    }

    pub(super) fn resume(&mut self) {
        self.resumed = true;
    }

    /// Applies the next kept rows of these caches. `false` if there are no more. It skips a row that is refused, and
    /// fails when a store does not answer.
    pub(super) async fn go_on(
        &mut self,
        pool: &PgPool,
        caches: &[Invalidator],
        names: &[&'static str],
    ) -> Result<bool, RelayError> {
        let is_strict = caches.iter().filter(|cache| names.contains(&cache.name())).all(|cache| cache.0.is_strict());
        let limit = if is_strict { STRICT_BATCH } else { BATCH };
        let rows = outbox::after(pool, names, self.last, limit).await.map_err(RelayError::Sqlx)?;
        let Some(end) = rows.last() else {
            let end = outbox::without(pool, names, self.last).await.map_err(RelayError::Sqlx)?;
            self.last = end.unwrap_or(self.last);
            return Ok(end.is_some());
        };
        let applied = apply(caches, &rows).await;
        applied.outage.map_or(Ok(()), Err)?;
        self.last = end.id;
        self.rows += u64::try_from(rows.len()).unwrap_or_default();
        self.refusal = applied.refusal.or(self.refusal.take());
        Ok(true)
    }

    /// Up to which id no row may wait to be applied at the end. `None` if it took one round.
    pub(super) fn settles(&self) -> Option<i64> {
        self.resumed.then_some(self.newest)
    }
}
