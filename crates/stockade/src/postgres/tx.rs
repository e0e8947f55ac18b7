use std::{
    fmt,
    ops::{Deref, DerefMut},
    sync::Arc,
};

use sqlx::{PgConnection, PgPool, Postgres, Transaction};

use super::{
    CommitError, FenceError, begin,
    error::commit_statement,
    invalidations::Invalidations,
    outbox::{self, Written},
    presence,
    registry::PoolState,
};
use crate::cache::{Bloom, CacheError};
use crate::{
    Fence, Resource,
    cache::{Cache, Intent, Invalidator},
    lock::Mode,
    resource::Key,
};

/// A Postgres transaction under a fence, with the invalidations that belong to it.
///
/// [`Fence::begin`] makes one. It derefs to [`PgConnection`]: pass `&mut *tx` where sqlx wants an executor. Dropping a
/// `Tx` rolls back and forgets its invalidations.
#[must_use = "dropping the transaction rolls it back"]
pub struct Tx {
    inner: Transaction<'static, Postgres>,
    /// In lock order. Empty for a transaction without a lock.
    fences: Vec<Fence>,
    /// Whether the fences were exclusive when the transaction began.
    exclusive: bool,
    database: PgPool,
    pool: Arc<PoolState>,
    invalidations: Invalidations,
    /// The ids of rows that the transaction creates, each with the filter to add it to.
    ids: Vec<(Bloom, Key)>,
    /// Why it can't commit: it was given an invalid key or tag.
    refused: Option<CommitError>,
}

impl Tx {
    /// A transaction without a fence, for writers without competition, such as imports before the service runs, and
    /// repairs.
    ///
    /// Its invalidations work as under a fence. Nothing protects its writes from those of a lock holder.
    ///
    /// # Errors
    ///
    /// [`FenceError::Schema`], [`FenceError::Sqlx`].
    pub async fn unfenced(pool: &PgPool) -> Result<Self, FenceError> {
        Self::start(pool, Vec::new()).await
    }

    /// Begins without a claim. It names the isolation level, because a database may default to another one, under which
    /// every statement would read from the snapshot of the first.
    pub(super) async fn start(pool: &PgPool, fences: Vec<Fence>) -> Result<Self, FenceError> {
        let state = PoolState::of(pool);
        let begin = "begin isolation level read committed read write".to_owned();
        let mut inner = begin::begin(pool, &state, begin).await.map_err(FenceError::Sqlx)?;
        state.check_schema(&mut inner).await?;
        Ok(Self::begun(pool, state, inner, fences))
    }

    /// Begins with the message of a claim.
    pub(super) async fn claimed(
        pool: &PgPool,
        state: Arc<PoolState>,
        fence: &Fence,
        opening: String,
    ) -> Result<Self, sqlx::Error> {
        let inner = begin::begin(pool, &state, opening).await?;
        Ok(Self::begun(pool, state, inner, vec![fence.clone()]))
    }

    fn begun(pool: &PgPool, state: Arc<PoolState>, inner: Transaction<'static, Postgres>, fences: Vec<Fence>) -> Self {
        let exclusive = fences.first().map(Fence::mode) == Some(Mode::Write);
        Self {
            inner,
            fences,
            exclusive,
            database: pool.clone(),
            pool: state,
            invalidations: Invalidations::default(),
            ids: Vec::new(),
            refused: None,
        }
    }

    /// Drops the cached value of `key` if this transaction commits, and not otherwise.
    ///
    /// A key that can't be encoded makes the commit fail.
    pub fn invalidate<K, V>(&mut self, cache: &Cache<K, V>, key: &K)
    where
        K: Resource,
    {
        match cache.key(key) {
            Ok(key) => self.invalidate_key(cache.invalidator(), key),
            Err(error) => self.refuse(CommitError::Key(error)),
        }
    }

    /// Drops every cached value with this tag ([`Loaded::tags`](crate::cache::Loaded::tags)) if this transaction
    /// commits, and not otherwise.
    ///
    /// A refused tag makes the commit fail with [`CommitError::Tag`]. A strict cache refuses every tag.
    pub fn invalidate_tag<K, V, T>(&mut self, cache: &Cache<K, V>, tag: &T)
    where
        K: Resource,
        T: AsRef<str> + ?Sized,
    {
        let cache = cache.invalidator();
        match cache.tag(tag) {
            Ok(tag) => self.invalidations.add_tag(cache, tag),
            Err(error) => self.refuse(CommitError::Tag(error)),
        }
    }

    /// Drops every value of this cache ([`Cache::clear`]) if this transaction commits, and not otherwise.
    ///
    /// With a strict cache the commit fails with [`CommitError::Tag`].
    pub fn clear<K, V>(&mut self, cache: &Cache<K, V>)
    where
        K: Resource,
    {
        let cache = cache.invalidator();
        match cache.whole() {
            Ok(whole) => self.invalidations.add_tag(cache, whole),
            Err(error) => self.refuse(CommitError::Tag(error)),
        }
    }

    fn refuse(&mut self, error: CommitError) {
        self.refused.get_or_insert(error);
    }

    /// Adds the id of a row that this transaction creates to a filter, before COMMIT. Without this call a read of the
    /// new row may be answered as absent.
    ///
    /// A key that can't be encoded makes the commit fail. If the filter does not confirm, the commit fails with
    /// [`CommitError::Announce`].
    pub fn add<K: Resource>(&mut self, filter: &Bloom, key: &K) {
        match Key::of(key) {
            Ok(key) => self.ids.push((filter.clone(), key)),
            Err(error) => self.refuse(CommitError::Key(error)),
        }
    }

    pub(super) fn invalidate_key(&mut self, cache: Invalidator, key: Key) {
        self.invalidations.add_key(cache, key);
    }

    /// Writes the invalidations to the outbox, commits, and drops the cached values.
    ///
    /// The outbox rows and COMMIT take one round trip together, unless a strict cache must be told of the write in
    /// between.
    ///
    /// If COMMIT succeeds, so does this call. A cache that does not answer within one command time-out is left to the
    /// [`Relay`](super::Relay). Dropping the future before COMMIT is sent rolls back. If the future is dropped later,
    /// the transaction may be applied; the relay then invalidates what the cache has not confirmed.
    ///
    /// The lock is neither downgraded nor handed over until the cached values are dropped. If a lock of the transaction
    /// was lost or released before that, and a cache is built with
    /// [`CacheBuilder::under_locks`](crate::cache::CacheBuilder::under_locks), this call returns 3 s later, without
    /// holding a database connection. Another holder may have read under the lock meanwhile; after 3 s every process
    /// has heard of the write.
    ///
    /// # Errors
    ///
    /// [`CommitError`], which distinguishes "not applied" from "nobody can say".
    #[tracing::instrument(name = "commit", level = "debug", skip_all)]
    pub async fn commit(mut self) -> Result<(), CommitError> {
        if let Some(error) = self.refusal() {
            // If ROLLBACK fails, the connection ends, and the server rolls back.
            let _ = self.inner.rollback().await;
            return Err(error);
        }
        let (rows, intent) = self.write_down_if_strict().await.map_err(CommitError::NotApplied)?.unzip();
        let intent = intent.as_ref();
        if let Err(error) = add_ids(&self.ids).await {
            let _ = self.inner.rollback().await;
            return Err(CommitError::Announce(error));
        }
        if let Some(intent) = intent
            && let Err(error) = self.invalidations.announce(intent).await
        {
            let _ = self.inner.rollback().await;
            // If this is not confirmed either, a reader finds out that the transaction has ended.
            self.invalidations.retract(Some(intent)).await;
            return Err(CommitError::Announce(error));
        }
        // A transaction that only read applies nothing, so no answer may say that it perhaps did.
        let writes = self.fences.first().filter(|_| self.exclusive);
        if let Some(Err(refused)) = writes.map(may_send) {
            let _ = self.inner.rollback().await;
            self.invalidations.retract(intent).await;
            return Err(refused);
        }
        let committed = match rows {
            Some(rows) => self.inner.commit().await.map(|()| rows).map_err(commit_statement),
            None => outbox::write_and_commit(self.inner, &self.invalidations.rows(None)).await,
        };
        let answered = writes.filter(|_| !matches!(committed, Err(CommitError::Unknown(_)))).map(Answered);
        let written = match committed {
            Ok(written) => written,
            Err(error) => {
                // If nobody knows whether it committed, the intent stays until a reader has asked the database.
                if error.applied() == Some(false) {
                    self.invalidations.retract(intent).await;
                }
                return Err(error);
            }
        };
        if !self.invalidations.is_empty() {
            let left = self.invalidations.flush(intent).await;
            // While all locks are held nobody else has read under one of them. A later holder reads the new value.
            let lost = !self.fences.iter().all(|fence| fence.ownership.is_exclusive());
            let heard_within = self.invalidations.heard_within(&left).filter(|_| lost);
            drop(answered);
            let flushed = written.iter().filter(|row| !left.contains(&row.cache.as_str())).map(|row| row.id);
            self.pool.flushed(&flushed.collect::<Vec<_>>());
            presence::look_for_relays(&self.database, &self.pool, self.invalidations.caches());
            if let Some(limit) = heard_within {
                tokio::time::sleep(limit).await;
            }
        }
        Ok(())
    }

    /// Why it may not be committed, as far as this is known before anything is sent.
    fn refusal(&mut self) -> Option<CommitError> {
        let exclusive = self.fences.first().filter(|_| self.exclusive);
        let is_downgraded = exclusive.is_some_and(|fence| fence.mode() != Mode::Write);
        self.refused.take().or_else(|| is_downgraded.then_some(CommitError::Downgraded))
    }

    /// Writes the invalidations of strict caches to the outbox, under a new intent. The intent names the transaction,
    /// so the rows are written before the intent is announced.
    async fn write_down_if_strict(&mut self) -> Result<Option<(Vec<Written>, Intent)>, sqlx::Error> {
        if !self.invalidations.is_strict() {
            return Ok(None);
        }
        let id = Intent::random_id();
        let (written, xid) = outbox::write(&mut self.inner, self.invalidations.rows(Some(&id))).await?;
        Ok(Some((written, Intent { id, xid: xid.into() })))
    }

    /// Rolls back, and waits for the database to confirm it. Dropping the transaction does the same in the background.
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

/// A write whose COMMIT was answered. Dropping this allows the lock to be downgraded and handed over again: either the
/// caches have been told, or the future that would have told them was dropped.
struct Answered<'a>(&'a Fence);

impl Drop for Answered<'_> {
    fn drop(&mut self) {
        self.0.ownership.commits.answered();
    }
}

/// Whether COMMIT may be sent. From here until [`Answered`] is dropped the lock is neither downgraded nor handed over.
/// It may have been before, so that is checked first: once the request has been told of a commit, nobody can say that
/// nothing was applied.
fn may_send(fence: &Fence) -> Result<(), CommitError> {
    if !fence.ownership.commits.sent() {
        return Err(CommitError::Downgraded);
    }
    if !fence.commit_started() {
        fence.ownership.commits.answered();
        return Err(CommitError::Closed);
    }
    Ok(())
}

async fn add_ids(ids: &[(Bloom, Key)]) -> Result<(), CacheError> {
    let mut filters: Vec<(&Bloom, Vec<Key>)> = Vec::new();
    for (filter, key) in ids {
        match filters.iter_mut().find(|(known, _)| known.is(filter)) {
            Some((_, keys)) => keys.push(key.clone()),
            None => filters.push((filter, vec![key.clone()])),
        }
    }
    for (filter, keys) in filters {
        filter.add_keys(&keys).await?;
    }
    Ok(())
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
        let invalidations = self.invalidations.count();
        f.debug_struct("Tx")
            .field("fences", &self.fences)
            .field("invalidations", &invalidations)
            .finish_non_exhaustive()
    }
}
