use std::{error::Error, time::Duration};

use sqlx::PgPool;
use tokio::time::{Instant, sleep};

use crate::{config::Database, console, db};

const LOOK: Duration = Duration::from_secs(5);

/// How often the log repeats a trouble that goes on.
const REMINDER: Duration = Duration::from_secs(60);

/// Logs why the database gives no connection, from the start on, and when it gives one again. A request only knows that
/// it got none in time.
pub(super) async fn watch(database: Database, pool: PgPool) {
    let mut trouble: Option<(String, Instant)> = None;
    loop {
        match db::connect::look(&pool, &database.options).await {
            Ok(()) if trouble.take().is_some() => {
                tracing::info!(
                    database = db::connect::place(&database.options),
                    "the database gives connections again"
                );
            }
            Ok(()) => {}
            Err(error) => {
                let cause = console::chain(&error);
                if trouble.as_ref().is_none_or(|(known, told)| *known != cause || told.elapsed() > REMINDER) {
                    tracing::warn!(error = &error as &dyn Error, "the database gives no connection");
                    trouble = Some((cause, Instant::now()));
                }
            }
        }
        sleep(LOOK).await;
    }
}
