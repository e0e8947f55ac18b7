use std::time::Duration;

use sqlx::PgPool;

/// How often it looks.
const EVERY: Duration = Duration::from_millis(20);

/// Waits for the writers of this moment: returns once every transaction of this database that was writing when the call
/// began has ended. A later read sees everything that those transactions committed.
///
/// A transaction counts from its first write on, when Postgres gives it an id. A prepared transaction counts until its
/// two-phase commit ends. Transactions of other databases on the server do not count.
///
/// The source of a [`Bloom`](crate::cache::Bloom) needs this: a transaction that added its id before the new filter was
/// begun may commit after the source was read. Call this before you read the source.
///
/// Cancel safe. It waits as long as such a transaction runs, so put a limit on it.
///
/// # Errors
///
/// Whatever the database answers.
pub async fn settled(pool: &PgPool) -> Result<(), sqlx::Error> {
    let mut writing = Writing::now(pool).await?;
    loop {
        match writing.are_over(pool).await? {
            Some(true) => return Ok(()),
            Some(false) => {}
            None => writing = Writing::now(pool).await?,
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// The transactions of this database that were writing at some moment.
#[derive(Debug)]
pub(super) struct Writing {
    /// A transaction id that was given out at that moment. Their ids are lower.
    pub(super) next: String,
}

impl Writing {
    pub(super) async fn now(pool: &PgPool) -> Result<Self, sqlx::Error> {
        // Takes an id of its own: the upper end of a snapshot follows the last *completed* transaction and says nothing
        // about running ones.
        Ok(Self { next: sqlx::query_scalar("select pg_current_xact_id()::text").fetch_one(pool).await? })
    }

    /// Whether all of them have ended. `None` if the server was replaced by one whose ids are not that far yet.
    ///
    /// A snapshot includes the transactions of all databases. If it shows one with a lower id, this looks at sessions
    /// and prepared transactions of this database, which every user may see. It looks at sessions first, so a
    /// transaction that is prepared in between is found among the prepared ones. A transaction in neither list has
    /// ended, and every later snapshot sees it.
    pub(super) async fn are_over(&self, pool: &PgPool) -> Result<Option<bool>, sqlx::Error> {
        const WRITES: &str = "select exists (select from pg_stat_activity
            where datname = current_database() and age(backend_xid) > age($1::text::xid8::xid))";
        const OVER: &str =
            "select case when pg_snapshot_xmax(now) > $1::text::xid8 then pg_snapshot_xmin(now) > $1::text::xid8
                or not ($2 or exists (select from pg_prepared_xacts
                    where database = current_database() and age(transaction) > age($1::text::xid8::xid))) end
            from pg_current_snapshot() now";
        let writes: bool = sqlx::query_scalar(WRITES).bind(&self.next).fetch_one(pool).await?;
        sqlx::query_scalar(OVER).bind(&self.next).bind(writes).fetch_one(pool).await
    }
}
