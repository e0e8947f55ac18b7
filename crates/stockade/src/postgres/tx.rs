use std::{
    fmt,
    ops::{Deref, DerefMut},
    sync::Arc,
    time::Duration,
};

use futures_util::future::join_all;
use sqlx::{PgConnection, PgPool, Postgres, Transaction};

use super::{
    CommitError, FenceError,
    error::commit_statement,
    outbox::{self, Row},
    registry::PoolState,
};
use crate::{
    Fence, Resource,
    cache::{Cache, Invalidator},
    lock::Mode,
    resource::{Key, KeyError},
};

/// The least time that [`Tx::commit`] gives its invalidations before it leaves them to the relay.
const FLUSH_LIMIT: Duration = Duration::from_millis(250);

/// A Postgres transaction under a fence, with the invalidations that belong to it.
///
/// From [`Fence::begin`]. It derefs to [`PgConnection`]: pass `&mut *tx` where sqlx wants an executor. Dropping it rolls
/// back, and its invalidations are gone with it.
#[must_use = "dropping the transaction rolls it back"]
pub struct Tx {
    inner: Transaction<'static, Postgres>,
    fence: Option<Fence>,
    pool: Arc<PoolState>,
    pending: Vec<Pending>,
    bad_key: Option<KeyError>,
}

/// The invalidations of one cache.
struct Pending {
    cache: Invalidator,
    keys: Vec<Key>,
}

impl Tx {
    /// A transaction without a fence, for writers that nothing competes with: imports before the service runs, repairs.
    ///
    /// Its invalidations work as under a fence; nothing protects its writes from a lock holder's.
    ///
    /// # Errors
    ///
    /// [`FenceError::Schema`], [`FenceError::Sqlx`].
    pub async fn unfenced(pool: &PgPool) -> Result<Self, FenceError> {
        Self::start(pool, None).await
    }

    pub(super) async fn start(pool: &PgPool, fence: Option<Fence>) -> Result<Self, FenceError> {
        // The level is named because a database may default to another, under which every statement would read from the
        // claim's snapshot.
        let begin = match fence.as_ref().map(Fence::mode) {
            Some(Mode::Read) => "begin isolation level read committed read only",
            Some(Mode::Write) | None => "begin isolation level read committed read write",
        };
        let state = PoolState::of(pool);
        let mut inner = pool.begin_with(begin).await.map_err(FenceError::Sqlx)?;
        state.check_schema(&mut inner).await?;
        Ok(Self { inner, fence, pool: state, pending: Vec::new(), bad_key: None })
    }

    /// Drops the cached value of `key` when, and only when, this transaction commits.
    ///
    /// A key that can't be encoded makes the commit fail.
    pub fn invalidate<K, V>(&mut self, cache: &Cache<K, V>, key: &K)
    where
        K: Resource,
    {
        match cache.key(key) {
            Ok(key) => self.invalidate_key(cache.invalidator(), key),
            Err(error) => {
                self.bad_key.get_or_insert(error);
            }
        }
    }

    pub(super) fn invalidate_key(&mut self, cache: Invalidator, key: Key) {
        match self.pending.iter_mut().find(|pending| pending.cache.name() == cache.name()) {
            Some(pending) if pending.keys.contains(&key) => {}
            Some(pending) => pending.keys.push(key),
            None => self.pending.push(Pending { cache, keys: vec![key] }),
        }
    }

    /// Writes the invalidations to the outbox, commits, and drops the cached values.
    ///
    /// Once COMMIT succeeded, so has this call: a cache that does not answer within one command time-out is left to the
    /// [`Relay`](super::Relay). Dropping the future before COMMIT was sent rolls back; afterwards the transaction may be
    /// applied, and the relay then invalidates.
    ///
    /// # Errors
    ///
    /// [`CommitError`], which tells "not applied" from "nobody can say".
    pub async fn commit(mut self) -> Result<(), CommitError> {
        if let Some(error) = self.bad_key.take() {
            // A rollback that fails ends the connection, which rolls back as well.
            let _ = self.inner.rollback().await;
            return Err(CommitError::Key(error));
        }
        let rows = self.before_commit().await.map_err(CommitError::NotApplied)?;
        // What only reads applies nothing, and is no reason to answer that it may have.
        let writes = self.fence.as_ref().filter(|fence| fence.mode() == Mode::Write);
        if writes.is_some_and(|fence| !fence.commit_started()) {
            let _ = self.inner.rollback().await;
            return Err(CommitError::Closed);
        }
        self.inner.commit().await.map_err(commit_statement)?;
        if !self.pending.is_empty() {
            let applied = flush(&self.pending).await;
            let ids: Vec<i64> =
                rows.iter().filter(|row| applied.contains(&row.cache.as_str())).map(|row| row.id).collect();
            self.pool.flushed(&ids);
        }
        Ok(())
    }

    /// The last statement before COMMIT. There always is one: a transaction in which a statement failed answers COMMIT
    /// with a rollback and no error, and only a statement shows it.
    async fn before_commit(&mut self) -> Result<Vec<Row>, sqlx::Error> {
        if self.pending.is_empty() {
            sqlx::query("select 1").execute(&mut *self.inner).await?;
            return Ok(Vec::new());
        }
        let (caches, keys) = self
            .pending
            .iter()
            .flat_map(|pending| pending.keys.iter().map(|key| (pending.cache.name(), key.as_str())))
            .unzip();
        outbox::write(&mut self.inner, caches, keys).await
    }

    /// Ends the transaction without applying anything, and waits for the database to say so. Dropping does the same in
    /// the background.
    ///
    /// # Errors
    ///
    /// When the connection ends, which rolls back too.
    pub async fn rollback(self) -> Result<(), sqlx::Error> {
        self.inner.rollback().await
    }

    /// Commits a transaction that only claimed.
    pub(super) async fn end(self) -> Result<(), sqlx::Error> {
        self.inner.commit().await
    }
}

/// Invalidates all caches at once; the names of those that confirmed.
async fn flush(pending: &[Pending]) -> Vec<&'static str> {
    let flushes = pending.iter().map(async |pending| {
        let name = pending.cache.name();
        match tokio::time::timeout(FLUSH_LIMIT, pending.cache.invalidate(&pending.keys)).await {
            Ok(Ok(())) => Some(name),
            Ok(Err(error)) => {
                tracing::debug!(%error, cache = name, "invalidation left to the relay");
                None
            }
            Err(_) => {
                tracing::debug!(cache = name, "invalidation left to the relay: no answer in time");
                None
            }
        }
    });
    join_all(flushes).await.into_iter().flatten().collect()
}

impl Deref for Tx {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.inner
    }
}

impl DerefMut for Tx {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.inner
    }
}

impl fmt::Debug for Tx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pending: usize = self.pending.iter().map(|pending| pending.keys.len()).sum();
        f.debug_struct("Tx").field("fence", &self.fence).field("invalidations", &pending).finish_non_exhaustive()
    }
}
