use std::{fmt, sync::Arc};

use parking_lot::Mutex;
use sqlx::PgPool;
use tokio::{runtime::Handle, sync::oneshot};
use tracing::Span;

use super::{
    GroupWrite,
    queue::{Caller, Limits, Shared},
    tally::Tally,
};
use crate::{
    Fence,
    lock::handled,
    postgres::{CommitError, WriteError, registry::PoolState},
};

/// Group commit: writes under different locks that are asked for at the same time share a transaction.
///
/// A transaction has a price that does not depend on what it changes: its messages, its plans, its commit. Callers of
/// [`GroupCommit::write`] that arrive while two groups are under way form the next group, of 64 changes at most, and pay
/// this price once. A group that takes longer than 50 ms no longer keeps others waiting. Callers of different runtimes
/// share no group.
///
/// What holds for a transaction of its own holds for each change of a group:
///
/// - All fences are claimed before anything is read, and a claim that is refused refuses its own change only.
/// - If a change fails, or waits for a row for longer than 50 ms, its group is rolled back, and each of its changes is
///   made in a transaction of its own. If that transaction also waits 50 ms, it is rolled back, and the change is tried
///   a third time, now with the `lock_timeout` of the connection. A change that is alone in its group skips the second
///   try. An error of [`GroupWrite::write`] after 50 ms counts as such a wait. Third tries take a quarter of the pool's
///   connections at most. A change that gets no connection for its third try within two seconds fails with the error of
///   the try before.
/// - If the database is silent for two minutes, the transaction is given up.
/// - A change whose lock was lost while it waited, or whose request was answered as not applied, is not made.
/// - If the database does not answer COMMIT, nobody knows whether the group was applied, and all of its callers get
///   [`CommitError::Unknown`]. So do they if a change panics. If a savepoint of a change ends the transaction, all get
///   [`CommitError::Ended`].
///
/// The caller keeps the lock until it has its answer. Cheap to clone.
///
/// ```no_run
/// # use std::borrow::Cow;
/// use stockade::{Cache, Fence, Resource, postgres::{GroupCommit, GroupWrite, Tx, WriteError}};
/// # #[derive(Clone)]
/// # struct Sku(String);
/// # impl Resource for Sku { const KIND: &'static str = "stock"; fn id(&self) -> Cow<'_, str> { Cow::Borrowed(&self.0) } }
///
/// /// Sells a unit of a SKU, if there is one.
/// struct Sales(Cache<Sku, i64>);
///
/// impl GroupWrite for Sales {
///     type Change = Sku;
///     type Answer = bool;
///     type Error = WriteError;
///
///     async fn write(&self, tx: &mut Tx, changes: &[(Fence, Sku)]) -> Result<Vec<bool>, WriteError> {
///         let sql = "update stock set quantity = quantity - 1 where sku = any($1) and quantity > 0 returning sku";
///         let skus: Vec<_> = changes.iter().map(|(_, sku)| &*sku.0).collect();
///         let sold: Vec<String> = sqlx::query_scalar(sql).bind(skus).fetch_all(&mut **tx).await?;
///         changes.iter().for_each(|(_, sku)| tx.invalidate(&self.0, sku));
///         Ok(changes.iter().map(|(_, sku)| sold.contains(&sku.0)).collect())
///     }
/// }
///
/// # async fn example(pool: sqlx::PgPool, stocks: Cache<Sku, i64>, fence: Fence) -> Result<(), WriteError> {
/// let sales = GroupCommit::new(&pool, Sales(stocks)); // one for all handlers
/// let sold = sales.write(&fence, Sku("85123A".to_owned())).await?; // in each handler
/// # Ok(())
/// # }
/// ```
pub struct GroupCommit<W: GroupWrite>(Arc<Shared<W>>);

impl<W: GroupWrite> GroupCommit<W> {
    /// Writes to this database.
    pub fn new(database: &PgPool, write: W) -> Self {
        Self::within(database, write, Limits::default())
    }

    pub(in crate::postgres) fn within(database: &PgPool, write: W, limits: Limits) -> Self {
        let (database, pool) = (database.clone(), PoolState::of(database));
        let (queues, tally) = (Mutex::default(), Tally::default());
        Self(Arc::new(Shared { database, pool, write, queues, limits, tally }))
    }

    /// Makes a change under an exclusive ownership, and returns once it is committed and the cached values are dropped.
    /// At most 1,024 changes wait for a group. Each further one has a transaction, and so a connection, of its own.
    ///
    /// If the future is dropped before its group begins, nothing is applied. If it is dropped later, the change may be
    /// applied.
    ///
    /// # Errors
    ///
    /// What [`GroupWrite::write`] returned, if it failed: nothing was applied. Otherwise what is made of a
    /// [`WriteError`], whose [`WriteError::applied`] says whether the change was applied. If the task of the group ended,
    /// because [`GroupWrite::write`] panicked or with its runtime, that is [`CommitError::Unknown`].
    ///
    /// # Panics
    ///
    /// Outside of a Tokio runtime, as sqlx does.
    #[tracing::instrument(name = "group_commit", level = "debug", skip_all)]
    pub async fn write(&self, fence: &Fence, change: W::Change) -> Result<W::Answer, W::Error> {
        let (answer, answered) = oneshot::channel();
        let caller = Caller { route: handled(), span: Span::current(), answer };
        self.0.join(Handle::current(), ((fence.clone(), change), caller));
        answered.await.unwrap_or_else(|_| {
            let unknown = CommitError::Unknown(sqlx::Error::WorkerCrashed);
            Err(WriteError::from(unknown).into())
        })
    }
}

impl<W: GroupWrite> Clone for GroupCommit<W> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<W: GroupWrite> fmt::Debug for GroupCommit<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (waiting, under_way) = self.0.stand();
        f.debug_struct("GroupCommit").field("waiting", &waiting).field("under_way", &under_way).finish()
    }
}
