use std::time::Duration;

use sqlx::PgPool;
use stockade::cache::Limits;
use tokio::time::sleep;

use crate::{config::Database, console::chain, db, trouble::Trouble};

const LOOK: Duration = Duration::from_secs(5);

/// Logs why the database gives no connection, from the start on, and when it gives one again. A request only knows that
/// it got none in time. While the database gives connections, no breaker of `loads` stays open for want of a load.
pub(super) async fn watch(database: Database, pool: PgPool, loads: Limits) {
    let mut trouble = Trouble::default();
    loop {
        match db::connect::look(&pool, &database.options).await {
            Ok(()) => {
                loads.database_answered();
                if trouble.end() {
                    let database = db::connect::place(&database.options);
                    tracing::info!(database, "the database gives connections again");
                }
            }
            Err(error) => {
                if trouble.is_news() {
                    tracing::warn!(error = %chain(&error), "the database gives no connection");
                }
            }
        }
        sleep(LOOK).await;
    }
}
