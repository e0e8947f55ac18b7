use std::{slice, sync::Arc, time::Duration};

use futures_util::{StreamExt, future::BoxFuture, stream};
use parking_lot::Mutex;
use sqlx::Connection;
use tokio::time::{Instant, timeout};
use tracing::Instrument;

use super::{
    GroupWrite,
    failure::{Failure, silence},
    queue::{Caller, Change, PATIENCE, Shared, Waiting},
};
use crate::{
    lock::{Mode, order},
    postgres::{CommitError, FenceError, Tx, WriteError},
};

/// How many changes of a group that was taken apart are made at the same time.
const APART: usize = 8;
/// How long a change whose row somebody holds waits for its turn to wait for the row.
const TURN: Duration = Duration::from_secs(2);

impl<W: GroupWrite> Shared<W> {
    /// Writes the changes of a group, and answers its callers. A change that waits for its row is settled by a task of
    /// its own. Returns the error if the database could not be reached.
    pub(super) async fn settle(self: &Arc<Self>, mut group: Vec<Waiting<W>>) -> Option<WriteError> {
        group.sort_by(|((one, _), _), ((other, _), _)| order(one.key()).cmp(&order(other.key())));
        let (changes, callers): (Vec<_>, Vec<_>) = group.into_iter().filter_map(still_wanted).unzip();
        let failure = match self.attempt(&changes, &callers, Some(PATIENCE)).await {
            Ok(written) => {
                self.answer(changes, callers, written);
                return None;
            }
            Err(failure) => failure,
        };
        let is_one = changes.len() == 1;
        if failure.is_of_all() || is_one && !failure.found_a_row_held() {
            let away = failure.away();
            self.fail(callers, failure);
            return away;
        }
        let mut apart = changes.into_iter().zip(callers);
        if !is_one {
            self.tally.apart.count();
            let away = Mutex::new(None);
            let alone = stream::iter(apart.map(|one| self.settle_alone(one, &away)));
            alone.for_each_concurrent(APART, |settled| settled).await;
        } else if let Some(one) = apart.next() {
            self.pool.tasks.spawn(Arc::clone(self).settle_patiently(one, failure));
        }
        None
    }

    /// Makes a change of a group that was taken apart. Once the database could not be reached for one of these, the
    /// others do not wait for it in turn: it has rolled back the group.
    fn settle_alone<'a>(
        self: &'a Arc<Self>,
        one: Waiting<W>,
        away: &'a Mutex<Option<Failure<W>>>,
    ) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let known = away.lock().as_ref().and_then(Failure::away);
            match known {
                Some(error) => self.fail(vec![one.1], error.into()),
                None => {
                    if let Some(error) = self.settle(vec![one]).await {
                        *away.lock() = Some(error.into());
                    }
                }
            }
        })
    }

    /// Makes a change whose row somebody holds, and waits for the row as long as any transaction. Few do so at a time:
    /// each keeps a connection.
    async fn settle_patiently(self: Arc<Self>, one: Waiting<W>, failure: Failure<W>) {
        let turn = timeout(TURN, self.pool.patient.acquire()).await;
        let Some((change, caller)) = still_wanted(one) else { return };
        if turn.is_err() {
            return self.fail(vec![caller], failure);
        }
        match self.attempt(slice::from_ref(&change), slice::from_ref(&caller), None).await {
            Ok(written) => self.answer(vec![change], vec![caller], written),
            Err(failure) => self.fail(vec![caller], failure),
        }
    }

    /// Makes these changes in one transaction, as part of the span of the first caller.
    async fn attempt(
        &self,
        changes: &[Change<W>],
        callers: &[Caller<W>],
        patience: Option<Duration>,
    ) -> Result<Written<W>, Failure<W>> {
        let Some(first) = callers.first() else { return Ok(Written { answers: Vec::new(), heard_within: None }) };
        let attempt = self.attempt_within_span(changes, callers, patience);
        let attempt = attempt.instrument(first.span.clone()).await;
        if attempt.is_ok() {
            self.tally.ok(changes.len());
        }
        attempt
    }

    async fn attempt_within_span(
        &self,
        changes: &[Change<W>],
        callers: &[Caller<W>],
        patience: Option<Duration>,
    ) -> Result<Written<W>, Failure<W>> {
        let limit = self.limits.step;
        let begun = timeout(limit, self.begin(changes, patience)).await;
        let mut tx = begun.unwrap_or_else(|_| Err(FenceError::Sqlx(silence()))).map_err(WriteError::from)?;
        tx.routes = callers.iter().filter_map(|caller| caller.route.clone()).collect();
        let began = Instant::now();
        let written = match timeout(limit, self.write.write(&mut tx, changes)).await {
            Ok(written) => written.map_err(|error| Failure::Write { error, waited: began.elapsed() >= PATIENCE }),
            Err(_) => Err(WriteError::from(silence()).into()),
        };
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
                if !failure.is_of_all() {
                    // Gives the rows back before the changes are made one by one. If it fails, the connection ends.
                    let _ = timeout(limit, tx.rollback()).await;
                }
                Err(failure)
            }
            written => {
                let committed = timeout(limit, tx.commit_and_tell()).await;
                let committed = committed.unwrap_or_else(|_| Err(CommitError::Unknown(silence())));
                let heard_within = committed.map_err(WriteError::from)?;
                Ok(Written { answers: written?, heard_within })
            }
        }
    }

    async fn begin(&self, changes: &[Change<W>], patience: Option<Duration>) -> Result<Tx, FenceError> {
        if let [(fence, _)] = changes {
            return fence.begin_within(&self.database, patience).await;
        }
        let fences = changes.iter().map(|(fence, _)| fence.clone()).collect();
        Tx::under_all(&self.database, fences, patience).await
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

    fn fail(&self, callers: Vec<Caller<W>>, failure: Failure<W>) {
        self.tally.error.count();
        let errors = failure.of_each(callers.len());
        callers.into_iter().zip(errors).for_each(|(caller, error)| caller.gets(Err(error)));
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

/// What became of a transaction that was committed.
struct Written<W: GroupWrite> {
    answers: Vec<W::Answer>,
    /// How long processes may still serve what it made stale, if a lock was lost.
    heard_within: Option<Duration>,
}
