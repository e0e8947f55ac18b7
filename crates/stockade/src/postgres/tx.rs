use std::{
    fmt,
    ops::{Deref, DerefMut},
    sync::Arc,
};

use sqlx::{PgConnection, PgPool, Postgres, Transaction};

use super::{CommitError, FenceError, begin, invalidations::Invalidations, registry::PoolState};
use crate::{
    Fence, Resource,
    cache::{Bloom, Cache},
    resource::Key,
};

/// A Postgres transaction under a fence, with the invalidations that belong to it.
///
/// [`Fence::begin`] makes one. It derefs to [`PgConnection`]: pass `&mut *tx` where sqlx wants an executor. Dropping a
/// `Tx` rolls back and forgets its invalidations.
///
/// A savepoint, `tx.begin()`, has to begin: if its future is dropped before, or fails, sqlx rolls back the whole
/// transaction and applies each later statement by itself, without the fence. [`Tx::commit`] then returns
/// [`CommitError::Ended`].
#[must_use = "dropping the transaction rolls it back"]
pub struct Tx {
    pub(super) inner: Transaction<'static, Postgres>,
    /// In lock order. Empty for a transaction without a lock.
    pub(super) fences: Vec<Fence>,
    /// The route locks of the requests that it is committed for, if their handlers do not commit it themselves.
    pub(super) routes: Vec<Fence>,
    /// Whether the fences were exclusive when the transaction began.
    pub(super) exclusive: bool,
    pub(super) database: PgPool,
    pub(super) pool: Arc<PoolState>,
    pub(super) invalidations: Invalidations,
    /// Whether its commit rolls it back.
    pub(super) applies_nothing: bool,
    /// The ids of rows that the transaction creates, each with the filter to add it to.
    pub(super) ids: Vec<(Bloom, Key)>,
    /// Why it can't commit: it was given an invalid key or tag.
    pub(super) refused: Option<CommitError>,
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
        let state = PoolState::of(pool);
        // A database may default to another isolation level, under which every statement would read from the snapshot
        // of the first.
        let begin = "begin isolation level read committed read write".to_owned();
        state.check_schema(pool).await?;
        let inner = begin::begin(pool, &state, begin).await.map_err(FenceError::Sqlx)?;
        Ok(Self::begun(pool, state, inner, Vec::new(), false))
    }

    pub(super) fn begun(
        pool: &PgPool,
        state: Arc<PoolState>,
        inner: Transaction<'static, Postgres>,
        fences: Vec<Fence>,
        exclusive: bool,
    ) -> Self {
        Self {
            inner,
            fences,
            routes: Vec::new(),
            exclusive,
            database: pool.clone(),
            pool: state,
            invalidations: Invalidations::default(),
            applies_nothing: false,
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
            Ok(key) => self.invalidations.add_key(cache.invalidator(), key),
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

    /// Makes [`Tx::commit`] roll back, and succeed: there turned out to be nothing to apply. Not even the claim of a
    /// resource that has no row is kept then, and the disk is not waited for.
    pub const fn apply_nothing(&mut self) {
        self.applies_nothing = true;
    }

    fn refuse(&mut self, error: CommitError) {
        self.refused.get_or_insert(error);
    }

    /// Adds the id of a row that this transaction creates to a filter, before COMMIT. Without this call a read of the
    /// new row may be answered as absent.
    ///
    /// A key that can't be encoded, or is of another kind than the keys of the filter, makes the commit fail. If the
    /// filter does not confirm, the commit fails with [`CommitError::Announce`].
    pub fn add<K: Resource>(&mut self, filter: &Bloom, key: &K) {
        match filter.key_of(key) {
            Ok(key) => self.ids.push((filter.clone(), key)),
            Err(error) => self.refuse(CommitError::Key(error)),
        }
    }

    /// Rolls back, and waits for the database to confirm it. Dropping the transaction does the same in the background.
    ///
    /// # Errors
    ///
    /// When the connection ends, which rolls back too.
    pub async fn rollback(self) -> Result<(), sqlx::Error> {
        self.inner.rollback().await
    }
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
