use std::time::Duration;

use sqlx::PgPool;

/// How often it looks.
const EVERY: Duration = Duration::from_millis(20);

/// Returns once every transaction of this database that was writing when this was called has ended: what is read
/// afterwards holds all that they committed. Those of other databases on the server are not waited for.
///
/// It sees a transaction from its first write on, with which Postgres gives it an id, and one that was prepared for a
/// commit in two phases until that.
///
/// For the source of a [`Bloom`](crate::cache::Bloom): a transaction that added its id before the new filter was begun
/// may commit after the source has been read. Wait for it first.
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
    /// A transaction id that was given out at that moment: theirs are lower.
    pub(super) next: String,
}

impl Writing {
    pub(super) async fn now(pool: &PgPool) -> Result<Self, sqlx::Error> {
        // An id of its own: the end of a snapshot is where the *completed* transactions end, and says nothing about
        // running ones.
        Ok(Self { next: sqlx::query_scalar("select pg_current_xact_id()::text").fetch_one(pool).await? })
    }

    /// Whether all of them have ended; `None` when the server was replaced by one that has not come so far yet.
    ///
    /// A snapshot knows the transactions of all databases. Where it shows an older one, sessions and prepared
    /// transactions of this database are looked at, which every user may see. Sessions come first: a transaction that
    /// is prepared in between is found as prepared, and one that neither shows has ended, and is seen by every later
    /// snapshot.
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

    /// The id that theirs are below.
    pub(super) fn below(&self) -> &str {
        &self.next
    }
}
