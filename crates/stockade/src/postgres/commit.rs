use std::{mem, time::Duration};

use sqlx::Connection as _;

use super::{
    CommitError, Tx,
    error::commit_statement,
    outbox::{self, Written},
    presence,
};
use crate::{
    Fence,
    cache::{Bloom, CacheError, Intent},
    lock::{Mode, handler_commits},
    resource::Key,
};

impl Tx {
    /// Writes the invalidations to the outbox, commits, and drops the cached values.
    ///
    /// The outbox rows and COMMIT take one round trip together, unless a strict cache must be told of the write in
    /// between.
    ///
    /// If COMMIT succeeds, so does this call. A cache that does not answer within one command time-out is left to the
    /// [`Relay`](super::Relay). If a transaction invalidates many keys, the call waits as long as the cache goes on
    /// answering, 10 s at most, and leaves the rest to the relay. Dropping the future before COMMIT is sent rolls back.
    /// If the future is dropped later, the transaction may be applied; the relay then invalidates what the cache has not
    /// confirmed.
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
    pub async fn commit(self) -> Result<(), CommitError> {
        if let Some(limit) = self.commit_and_tell().await? {
            tokio::time::sleep(limit).await;
        }
        Ok(())
    }

    /// As [`Tx::commit`], without the wait after a lock was lost. Returns how long it would take.
    #[tracing::instrument(name = "commit", level = "debug", skip_all)]
    pub(super) async fn commit_and_tell(self) -> Result<Option<Duration>, CommitError> {
        if !self.inner.is_in_transaction() {
            self.invalidate_alone().await;
            return Err(CommitError::Ended);
        }
        if self.applies_nothing {
            // If this fails, the connection ends, and the server rolls back.
            let _ = self.inner.rollback().await;
            return Ok(None);
        }
        // Without a fence, only the request that it is handled in can rule its commit out.
        if self.fences.is_empty() && !handler_commits() {
            let _ = self.inner.rollback().await;
            return Err(CommitError::Closed);
        }
        self.apply().await
    }

    /// [`Tx::commit_and_tell`] of a transaction that the driver has not ended.
    async fn apply(mut self) -> Result<Option<Duration>, CommitError> {
        if let Some(error) = self.refusal() {
            // If ROLLBACK fails, the connection ends, and the server rolls back.
            let _ = self.inner.rollback().await;
            return Err(error);
        }
        self.invalidations.deduplicate();
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
        let writes = if self.exclusive { self.fences.as_slice() } else { &[] };
        if let Err(refused) = may_send(writes, &self.routes) {
            let _ = self.inner.rollback().await;
            self.invalidations.retract(intent).await;
            return Err(refused);
        }
        let committed = match rows {
            Some(rows) => self.inner.commit().await.map(|()| rows).map_err(commit_statement),
            None => outbox::write_and_commit(self.inner, &self.invalidations.rows(None)).await,
        };
        let answered = (!matches!(committed, Err(CommitError::Unknown(_)))).then(|| Answered(writes));
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
        if self.invalidations.is_empty() {
            return Ok(None);
        }
        let left = self.invalidations.flush(intent).await;
        // While all locks are held nobody else has read under one of them. A later holder reads the new value.
        let lost = !self.fences.iter().all(|fence| fence.ownership.is_exclusive());
        let heard_within = self.invalidations.heard_within(&left).filter(|_| lost);
        drop(answered);
        let flushed = written.iter().filter(|row| !left.contains(&row.cache.as_str())).map(|row| row.id);
        self.pool.flushed(&flushed.collect::<Vec<_>>());
        presence::look_for_relays(&self.database, &self.pool, self.invalidations.caches());
        Ok(heard_within)
    }

    /// Makes the invalidations of a transaction that has ended, in one of their own.
    async fn invalidate_alone(mut self) {
        let (database, invalidations) = (self.database.clone(), mem::take(&mut self.invalidations));
        // Returns the connection to the pool first: the next transaction needs one too.
        drop(self);
        if invalidations.is_empty() {
            return;
        }
        let made = match Self::unfenced(&database).await {
            Ok(tx) => Self { invalidations, ..tx }.apply().await.is_ok(),
            Err(_) => false,
        };
        if !made {
            tracing::error!(
                "what a transaction changed after a savepoint had ended it is cached until it expires: clear its caches"
            );
        }
    }

    /// Why it may not be committed, as far as this is known before anything is sent.
    fn refusal(&mut self) -> Option<CommitError> {
        let is_downgraded = self.exclusive && self.fences.iter().any(|fence| fence.mode() != Mode::Write);
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
}

/// A write whose COMMIT was answered. Dropping this allows its locks to be downgraded and handed over again: either the
/// caches have been told, or the future that would have told them was dropped.
struct Answered<'a>(&'a [Fence]);

impl Drop for Answered<'_> {
    fn drop(&mut self) {
        for fence in self.0 {
            fence.ownership.commits.answered();
        }
    }
}

/// Whether COMMIT may be sent under these ownerships, and for the requests of these route locks. From here until
/// [`Answered`] is dropped the locks are neither downgraded nor handed over. They may have been before, so that is
/// checked first: once a request has been told of a commit, nobody can say that nothing was applied.
fn may_send(fences: &[Fence], routes: &[Fence]) -> Result<(), CommitError> {
    let mut gates = fences.iter().chain(routes);
    // Asked of all before one of them is told: the others then do not hear of a commit that is not sent.
    if gates.any(|fence| fence.ownership.commits.are_closed()) {
        return Err(CommitError::Closed);
    }
    let sent = fences.iter().take_while(|fence| fence.ownership.commits.sent()).count();
    let refused = if sent < fences.len() {
        CommitError::Downgraded
    } else if !fences.iter().chain(routes).all(Fence::commit_started) {
        CommitError::Closed
    } else {
        return Ok(());
    };
    drop(Answered(&fences[..sent]));
    Err(refused)
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
