use std::{io, iter, slice, time::Duration};

use sqlx::Connection;
use tracing::Instrument;

use super::{
    GroupWrite,
    queue::{Caller, Change, PATIENCE, Shared, Waiting},
};
use crate::{
    cache::some_at_a_time,
    lock::{Mode, order},
    postgres::{CommitError, FenceError, Tx, WriteError},
};

impl<W: GroupWrite> Shared<W> {
    /// Writes the changes of a group, and answers its callers.
    pub(super) async fn settle(&self, mut group: Vec<Waiting<W>>) {
        group.sort_by(|((one, _), _), ((other, _), _)| order(one.key()).cmp(&order(other.key())));
        let (changes, callers): (Vec<_>, Vec<_>) = group.into_iter().filter_map(still_wanted).unzip();
        let error = match self.attempt(&changes, &callers).await {
            Ok(written) => return self.answer(changes, callers, written),
            Err(Failure::Transaction(error)) if of_all(&error).is_some() => error,
            Err(failure) if changes.len() == 1 => {
                return callers.into_iter().zip([failure]).for_each(|(caller, error)| caller.gets(Err(error.into())));
            }
            Err(_) => {
                let apart = changes.into_iter().zip(callers).filter_map(still_wanted);
                some_at_a_time(apart.map(|(change, caller)| self.alone(change, caller))).await;
                return;
            }
        };
        for (caller, error) in callers.into_iter().zip(iter::from_fn(|| of_all(&error))) {
            caller.gets(Err(error.into()));
        }
    }

    /// Makes a change in a transaction of its own.
    async fn alone(&self, change: Change<W>, caller: Caller<W>) {
        match self.attempt(slice::from_ref(&change), slice::from_ref(&caller)).await {
            Ok(written) => self.answer(vec![change], vec![caller], written),
            Err(failure) => caller.gets(Err(failure.into())),
        }
    }

    /// Makes these changes in one transaction, as part of the span of the first caller.
    async fn attempt(&self, changes: &[Change<W>], callers: &[Caller<W>]) -> Result<Written<W>, Failure<W>> {
        let Some(first) = callers.first() else { return Ok(Written { answers: Vec::new(), heard_within: None }) };
        let attempt = self.attempt_within_span(changes, callers).instrument(first.span.clone()).await;
        match &attempt {
            Ok(_) => self.tally.ok(changes.len()),
            Err(failure) if failure.is_of_all() || changes.len() == 1 => self.tally.error.count(),
            Err(_) => self.tally.apart.count(),
        }
        attempt
    }

    async fn attempt_within_span(
        &self,
        changes: &[Change<W>],
        callers: &[Caller<W>],
    ) -> Result<Written<W>, Failure<W>> {
        let tx = match changes {
            [(fence, _)] => fence.begin(&self.database).await,
            _ => {
                let fences = changes.iter().map(|(fence, _)| fence.clone()).collect();
                Tx::under_all(&self.database, fences, Some(PATIENCE)).await
            }
        };
        let mut tx = tx.map_err(WriteError::from)?;
        tx.routes = callers.iter().filter_map(|caller| caller.route.clone()).collect();
        let written = self.write.write(&mut tx, changes).await.map_err(Failure::Write);
        let written = written.and_then(|answers| match answers.len() {
            many if many == changes.len() => Ok(answers),
            many => {
                let error = format!("{many} answers to {} changes of a group", changes.len());
                Err(WriteError::from(sqlx::Error::Protocol(error)).into())
            }
        });
        match written {
            // What the driver has ended can't be rolled back: the commit says so, and makes the invalidations.
            Err(failure) if tx.inner.is_in_transaction() => {
                // Gives the rows back before the changes are made one by one. If it fails, the connection ends.
                let _ = tx.rollback().await;
                Err(failure)
            }
            written => {
                let heard_within = tx.commit_and_tell().await.map_err(WriteError::from)?;
                Ok(Written { answers: written?, heard_within })
            }
        }
    }

    /// Gives the callers their answers. A caller whose lock was lost before the cached values were dropped gets its
    /// answer when every process has heard of the write.
    fn answer(&self, changes: Vec<Change<W>>, callers: Vec<Caller<W>>, written: Written<W>) {
        let mut late = Vec::new();
        for (((fence, _), caller), answer) in changes.into_iter().zip(callers).zip(written.answers) {
            if written.heard_within.is_none() || fence.ownership.is_exclusive() {
                caller.gets(Ok(answer));
            } else {
                late.push((caller, answer));
            }
        }
        if let Some(limit) = written.heard_within.filter(|_| !late.is_empty()) {
            self.pool.tasks.spawn(async move {
                tokio::time::sleep(limit).await;
                late.into_iter().for_each(|(caller, answer)| caller.gets(Ok(answer)));
            });
        }
    }
}

/// The change, if it may still be made. Otherwise its caller is told why not.
fn still_wanted<W: GroupWrite>(((fence, change), caller): Waiting<W>) -> Option<Waiting<W>> {
    if caller.answer.is_closed() {
        return None;
    }
    let is_answered = caller.route.iter().chain([&fence]).any(|fence| fence.ownership.commits.are_closed());
    let refusal: WriteError = match (fence.mode(), fence.loss()) {
        (mode @ (Mode::Read | Mode::Permit), _) => FenceError::Shared(mode).into(),
        (Mode::Write, Some(reason)) => FenceError::Lost(reason).into(),
        (Mode::Write, None) if is_answered => CommitError::Closed.into(),
        (Mode::Write, None) => return Some(((fence, change), caller)),
    };
    caller.gets(Err(refusal.into()));
    None
}

/// The error for each caller of a group, if it does not come from one of the changes: there is no connection, or nobody
/// knows whether the group was applied. `None` if each change is to be made by itself.
fn of_all(error: &WriteError) -> Option<WriteError> {
    Some(match error {
        WriteError::Fence(FenceError::Sqlx(sqlx::Error::PoolTimedOut)) => {
            FenceError::Sqlx(sqlx::Error::PoolTimedOut).into()
        }
        WriteError::Fence(FenceError::Sqlx(sqlx::Error::PoolClosed)) => {
            FenceError::Sqlx(sqlx::Error::PoolClosed).into()
        }
        WriteError::Commit(CommitError::Ended) => CommitError::Ended.into(),
        WriteError::Commit(CommitError::Unknown(sqlx::Error::Io(error))) => {
            CommitError::Unknown(io::Error::new(error.kind(), error.to_string()).into()).into()
        }
        WriteError::Commit(CommitError::Unknown(error)) => {
            CommitError::Unknown(sqlx::Error::Protocol(error.to_string())).into()
        }
        _ => return None,
    })
}

/// What became of a transaction that was committed.
struct Written<W: GroupWrite> {
    answers: Vec<W::Answer>,
    /// How long processes may still serve what it made stale, if a lock was lost.
    heard_within: Option<Duration>,
}

/// Why a transaction was not committed.
enum Failure<W: GroupWrite> {
    /// [`GroupWrite::write`] failed.
    Write(W::Error),
    Transaction(WriteError),
}

impl<W: GroupWrite> From<WriteError> for Failure<W> {
    fn from(error: WriteError) -> Self {
        Self::Transaction(error)
    }
}

impl<W: GroupWrite> Failure<W> {
    fn is_of_all(&self) -> bool {
        matches!(self, Self::Transaction(error) if of_all(error).is_some())
    }

    fn into(self) -> W::Error {
        match self {
            Self::Write(error) => error,
            Self::Transaction(error) => error.into(),
        }
    }
}
