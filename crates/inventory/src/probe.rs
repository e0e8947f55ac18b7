//! What a probe asks of the database.

use std::{sync::Arc, time::Duration};

use sqlx::PgPool;
use tokio::{sync::Mutex, time::Instant};

use crate::db;

/// How old an answer to a probe may be. The public port has probes too, and a flood of them must not keep those of the
/// balancer waiting.
const FRESH: Duration = Duration::from_millis(100);

/// Asks whether the database is there and its schema is current. Callers that ask at the same time share one answer. An
/// error is not shared: the next caller asks again.
///
/// The probe has a connection of its own. If all other connections are in use, those of the other instances probably
/// are, too. If all instances were then not ready, nobody would serve the reads that memory and Redis can answer. Cheap
/// to clone.
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

    /// Whether the schema is current. Cancel safe: the next caller asks instead.
    pub(crate) async fn is_current(&self) -> Result<bool, sqlx::Error> {
        let called = Instant::now();
        let mut last = self.last.lock().await;
        if let Some(answer) = last.filter(|answer| answer.asked >= called || answer.asked.elapsed() < FRESH) {
            return Ok(answer.is_current);
        }
        let asked = Instant::now();
        let is_current = db::schema::is_current(&self.pool).await?;
        *last = Some(Answer { asked, is_current });
        Ok(is_current)
    }
}
