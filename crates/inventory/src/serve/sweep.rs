use std::time::Duration;

use rand::Rng;
use sqlx::PgPool;

use crate::db;

const PAUSE: Duration = Duration::from_secs(10 * 60);
const BATCH: i64 = 1000;

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
                        error = &error as &dyn std::error::Error,
                        "expired answers stay until the next sweep"
                    );
                    break;
                }
            }
        }
    }
}
