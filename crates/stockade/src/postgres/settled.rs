use std::time::Duration;

use sqlx::PgPool;

/// How often it looks.
const EVERY: Duration = Duration::from_millis(20);

/// Returns once every transaction that was writing when this was called has ended: what is read afterwards holds all that
/// they committed.
///
/// It sees a transaction from its first write on, with which Postgres gives it an id.
///
/// For the source of a [`Bloom`](crate::cache::Bloom): a transaction that added its id before the new filter was begun may
/// commit after the source has been read. Wait for it first.
///
/// Cancel safe. It waits as long as such a transaction runs, so put a limit on it.
///
/// # Errors
///
/// Whatever the database answers.
pub async fn settled(pool: &PgPool) -> Result<(), sqlx::Error> {
    // An id of its own: the end of a snapshot is where the *completed* transactions end, and says nothing about running ones.
    let next: String = sqlx::query_scalar("select pg_current_xact_id()::text").fetch_one(pool).await?;
    loop {
        let over: bool = sqlx::query_scalar("select pg_snapshot_xmin(pg_current_snapshot()) > $1::text::xid8")
            .bind(&next)
            .fetch_one(pool)
            .await?;
        if over {
            return Ok(());
        }
        tokio::time::sleep(EVERY).await;
    }
}
