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
    outbox::{self, New, Row},
    registry::PoolState,
};
#[cfg(feature = "redis")]
use crate::cache::Bloom;
use crate::{
    Fence, Resource,
    cache::{Cache, CacheError, Intent, Invalidator, Tag},
    lock::Mode,
    metrics,
    resource::Key,
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
    /// Whether the fence was exclusive when this began.
    exclusive: bool,
    pool: Arc<PoolState>,
    pending: Vec<Pending>,
    /// What the transaction creates, for the filters of their kind.
    #[cfg(feature = "redis")]
    ids: Vec<(Bloom, Key)>,
    /// Why it can't commit: it was given a key or a tag that there can't be.
    refused: Option<CommitError>,
}

/// The invalidations of one cache.
struct Pending {
    cache: Invalidator,
    keys: Vec<Key>,
    tags: Vec<Tag>,
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
        let mode = fence.as_ref().map(Fence::mode);
        let begin = match mode {
            Some(Mode::Read | Mode::Permit) => "begin isolation level read committed read only",
            Some(Mode::Write) | None => "begin isolation level read committed read write",
        };
        let state = PoolState::of(pool);
        let mut inner = pool.begin_with(begin).await.map_err(FenceError::Sqlx)?;
        state.check_schema(&mut inner).await?;
        let exclusive = mode == Some(Mode::Write);
        Ok(Self {
            inner,
            fence,
            exclusive,
            pool: state,
            pending: Vec::new(),
            #[cfg(feature = "redis")]
            ids: Vec::new(),
            refused: None,
        })
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
            Err(error) => self.refuse(CommitError::Key(error)),
        }
    }

    /// Drops every cached value with this tag ([`Loaded::tags`](crate::cache::Loaded::tags)) when, and only when, this
    /// transaction commits.
    ///
    /// A tag that is refused makes the commit fail with [`CommitError::Tag`]; a strict cache refuses every tag.
    pub fn invalidate_tag<K, V, T>(&mut self, cache: &Cache<K, V>, tag: &T)
    where
        K: Resource,
        T: AsRef<str> + ?Sized,
    {
        let cache = cache.invalidator();
        match cache.tag(tag) {
            Ok(tag) => {
                let tags = &mut self.pending(cache).tags;
                if !tags.contains(&tag) {
                    tags.push(tag);
                }
            }
            Err(error) => self.refuse(CommitError::Tag(error)),
        }
    }

    fn refuse(&mut self, error: CommitError) {
        self.refused.get_or_insert(error);
    }

    /// Adds the id of a row that this transaction creates to a filter, before COMMIT. Without this a read of the row may be
    /// answered as absent.
    ///
    /// A key that can't be encoded makes the commit fail, and so does a filter that does not confirm, with
    /// [`CommitError::Announce`].
    #[cfg(feature = "redis")]
    pub fn add<K: Resource>(&mut self, filter: &Bloom, key: &K) {
        match Key::of(key) {
            Ok(key) => self.ids.push((filter.clone(), key)),
            Err(error) => self.refuse(CommitError::Key(error)),
        }
    }

    pub(super) fn invalidate_key(&mut self, cache: Invalidator, key: Key) {
        let keys = &mut self.pending(cache).keys;
        if !keys.contains(&key) {
            keys.push(key);
        }
    }

    fn pending(&mut self, cache: Invalidator) -> &mut Pending {
        let known = self.pending.iter().position(|pending| pending.cache.is(&cache));
        let place = known.unwrap_or_else(|| {
            self.pending.push(Pending { cache, keys: Vec::new(), tags: Vec::new() });
            self.pending.len() - 1
        });
        &mut self.pending[place]
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
        if let Some(error) = self.refused.take() {
            // A rollback that fails ends the connection, which rolls back as well.
            let _ = self.inner.rollback().await;
            return Err(error);
        }
        let exclusive = self.fence.as_ref().filter(|_| self.exclusive);
        if exclusive.is_some_and(|fence| fence.mode() != Mode::Write) {
            let _ = self.inner.rollback().await;
            return Err(CommitError::Downgraded);
        }
        let intent = self.pending.iter().any(|pending| pending.cache.is_strict()).then(Intent::random_id);
        let (rows, xid) = self.before_commit(intent.as_deref()).await.map_err(CommitError::NotApplied)?;
        #[cfg(feature = "redis")]
        if let Err(error) = add_ids(&self.ids).await {
            let _ = self.inner.rollback().await;
            return Err(CommitError::Announce(error));
        }
        let intent = intent.map(|id| Intent { id, xid: xid.into() });
        if let Some(intent) = &intent
            && let Err(error) = announce(&self.pending, intent).await
        {
            let _ = self.inner.rollback().await;
            // Where this is not confirmed either, a reader finds out that the transaction is over.
            retract(&self.pending, Some(intent)).await;
            return Err(CommitError::Announce(error));
        }
        // What only reads applies nothing, and is no reason to answer that it may have.
        let writes = self.fence.as_ref().filter(|_| self.exclusive);
        if let Some(Err(refused)) = writes.map(may_send) {
            let _ = self.inner.rollback().await;
            retract(&self.pending, intent.as_ref()).await;
            return Err(refused);
        }
        let committed = self.inner.commit().await.map_err(commit_statement);
        if let Some(fence) = writes
            && !matches!(committed, Err(CommitError::Unknown(_)))
        {
            fence.ownership.commit_answered();
        }
        if let Err(error) = committed {
            // One whose fate is unknown keeps its intent until the database has told a reader.
            if error.applied() == Some(false) {
                retract(&self.pending, intent.as_ref()).await;
            }
            return Err(error);
        }
        if !self.pending.is_empty() {
            let left = flush(&self.pending, intent.as_ref()).await;
            let ids: Vec<i64> =
                rows.iter().filter(|row| !left.contains(&row.cache.as_str())).map(|row| row.id).collect();
            self.pool.flushed(&ids);
        }
        Ok(())
    }

    /// The last statement before COMMIT. There always is one: a transaction in which a statement failed answers COMMIT
    /// with a rollback and no error, and only a statement shows it.
    async fn before_commit(&mut self, intent: Option<&str>) -> Result<(Vec<Row>, String), sqlx::Error> {
        if self.pending.is_empty() {
            sqlx::query("select 1").execute(&mut *self.inner).await?;
            return Ok((Vec::new(), String::new()));
        }
        let mut rows = Vec::new();
        for Pending { cache, keys, tags } in &self.pending {
            let intent = intent.filter(|_| cache.is_strict());
            for key in keys {
                rows.push(New { cache: cache.name(), resource: key.as_str().into(), intent });
            }
            for tag in tags {
                rows.push(New { cache: cache.name(), resource: tag.marked().into(), intent: None });
            }
        }
        outbox::write(&mut self.inner, rows).await
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

/// Whether COMMIT may be sent. From here to its answer the lock is neither downgraded nor handed over; it may have been
/// before. That is asked first: once the request was told of a commit, nobody can say that nothing was applied.
fn may_send(fence: &Fence) -> Result<(), CommitError> {
    if !fence.ownership.commit_sent() {
        return Err(CommitError::Downgraded);
    }
    if !fence.commit_started() {
        fence.ownership.commit_answered();
        return Err(CommitError::Closed);
    }
    Ok(())
}

#[cfg(feature = "redis")]
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

fn strict(pending: &[Pending]) -> impl Iterator<Item = &Pending> {
    pending.iter().filter(|pending| pending.cache.is_strict())
}

/// Tells all strict caches at once that the transaction is about to commit.
async fn announce(pending: &[Pending], intent: &Intent) -> Result<(), CacheError> {
    let mut calls = Vec::new();
    for Pending { cache, keys, .. } in strict(pending) {
        calls.push(cache.begin(keys, intent));
    }
    join_all(calls).await.into_iter().collect()
}

/// Tells the strict caches that the transaction was rolled back. Those that do not hear it find out by asking.
async fn retract(pending: &[Pending], intent: Option<&Intent>) {
    if let Some(intent) = intent {
        let mut calls = Vec::new();
        for Pending { cache, keys, .. } in strict(pending) {
            calls.push(cache.end(keys, &intent.id));
        }
        let _ = tokio::time::timeout(FLUSH_LIMIT, join_all(calls)).await;
    }
}

/// Invalidates all caches at once, and ends what was announced; the names of those that did not confirm. Of several with one
/// name each has to.
async fn flush(pending: &[Pending], intent: Option<&Intent>) -> Vec<&'static str> {
    let mut flushes = Vec::new();
    for pending in pending {
        flushes.push(flush_one(pending, intent.filter(|_| pending.cache.is_strict())));
    }
    join_all(flushes).await.into_iter().flatten().collect()
}

/// The name of the cache unless it has confirmed.
async fn flush_one(Pending { cache, keys, tags }: &Pending, intent: Option<&Intent>) -> Option<&'static str> {
    let name = cache.name();
    let flushed = async {
        let Some(intent) = intent else {
            let (by_key, by_tag) = tokio::join!(cache.invalidate(keys), cache.invalidate_tags(tags));
            return by_key.and(by_tag);
        };
        if !cache.end(keys, &intent.id).await? {
            lost_intent(name);
        }
        Ok(())
    };
    match tokio::time::timeout(FLUSH_LIMIT, flushed).await {
        Ok(Ok(())) => None,
        Ok(Err(error)) => {
            tracing::debug!(%error, cache = name, "invalidation left to the relay");
            Some(name)
        }
        Err(_) => {
            tracing::debug!(cache = name, "invalidation left to the relay: no answer in time");
            Some(name)
        }
    }
}

/// A value from before the commit may have been stored while the announcement was gone; it was dropped with the end.
fn lost_intent(cache: &'static str) {
    metrics::count(metrics::CACHE_INTENT_LOST, &[metrics::tag("cache", cache)]);
    tracing::warn!(cache, "the cache store lost the announcement of a write");
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
        let pending: usize = self.pending.iter().map(|pending| pending.keys.len() + pending.tags.len()).sum();
        f.debug_struct("Tx").field("fence", &self.fence).field("invalidations", &pending).finish_non_exhaustive()
    }
}
