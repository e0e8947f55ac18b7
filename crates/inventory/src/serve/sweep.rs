use std::time::Duration;

use rand::Rng;
use sqlx::PgPool;
use stockade::postgres::{prune_floor, prune_rows};

use crate::{console::chain, db};

const PAUSE: Duration = Duration::from_secs(10 * 60);
const BATCH: i64 = 1000;

/// How old the claim of a fence is before its row is removed. No lock is held as long.
const CLAIMS: Duration = Duration::from_secs(24 * 60 * 60);
/// How often an instance removes them. Instances that did so more often would leave no pause between raising the floor
/// and removing rows.
const PRUNE: Duration = Duration::from_secs(2 * 60 * 60);

/// Removes answers kept for repeated requests once they have expired, until it is dropped.
///
/// Expired answers count as absent wherever they are read, so nothing depends on when this runs.
pub(super) async fn sweep(pool: PgPool) {
    loop {
        // Instances that started together do not sweep together.
        let pause = PAUSE.mul_f64(rand::rng().random_range(0.5..1.0));
        tokio::time::sleep(pause).await;
        loop {
            match db::idempotency::sweep(&pool, BATCH).await {
                Ok(swept) if swept == BATCH.unsigned_abs() => {}
                Ok(_) => break,
                Err(error) => {
                    tracing::warn!(
                        error = %chain(&error),
                        "expired answers stay until the next sweep"
                    );
                    break;
                }
            }
        }
    }
}

/// Removes the rows of fences that nobody has claimed for a day, until it is dropped: an adjustment of a SKU that does
/// not exist may leave one.
pub(super) async fn prune(pool: PgPool) {
    loop {
        let pause = PRUNE.mul_f64(rand::rng().random_range(0.5..1.0));
        tokio::time::sleep(pause).await;
        // The floor rises also if rows stay.
        let (rows, floor) = (prune_rows(&pool).await, prune_floor(&pool, CLAIMS).await);
        if let Err(error) = rows.and(floor) {
            tracing::warn!(error = %chain(&error), "old fences stay until the next time");
        }
    }
}
