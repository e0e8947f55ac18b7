//! What a probe asks of the database.

use std::{sync::Arc, time::Duration};

use sqlx::PgPool;
use tokio::{sync::Mutex, time::Instant};

use crate::db;

/// How old an answer to a probe may be. The public port has probes too, and a flood of them must not keep those of the
/// balancer waiting.
const FRESH: Duration = Duration::from_millis(100);

/// Asks whether the database is there and its schema is current: once for all who ask at the same time.
///
/// It has a connection of its own. If all others are in use, those of the other instances are too: an instance that was
/// not ready then would take the reads with it that memory and Redis can answer. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Probe {
    pool: PgPool,
    last: Arc<Mutex<Option<Answer>>>,
}

#[derive(Clone, Copy, Debug)]
struct Answer {
    asked: Instant,
    is_current: bool,
}

impl Probe {
    /// Asks over this pool, which needs one connection.
    #[must_use]
    pub fn new(pool: PgPool) -> Self {
        Self { pool, last: Arc::default() }
    }

    /// Whether the schema is current. Cancel safe: whoever waits next asks then.
    pub(crate) async fn is_current(&self) -> Result<bool, sqlx::Error> {
        let mut last = self.last.lock().await;
        if let Some(answer) = last.filter(|answer| answer.asked.elapsed() < FRESH) {
            return Ok(answer.is_current);
        }
        let asked = Instant::now();
        let is_current = db::schema::is_current(&self.pool).await?;
        *last = Some(Answer { asked, is_current });
        Ok(is_current)
    }
}
