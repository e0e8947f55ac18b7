use std::{
    collections::{HashSet, VecDeque},
    fmt, io, iter, mem,
    pin::pin,
    slice,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use sqlx::{Connection, PgPool};
use tokio::{runtime::Handle, sync::oneshot, time::timeout};
use tracing::{Instrument, Span};

use super::{CommitError, FenceError, Tx, WriteError, registry::PoolState};
use crate::{
    Fence,
    cache::some_at_a_time,
    lock::{Mode, handled, order},
};

/// How many groups are written at the same time: while one waits for the disk, the other goes on.
const AT_ONCE: usize = 2;
/// How many changes a group has at most.
const MOST: usize = 64;
/// How many changes wait at most. Further ones have a transaction of their own.
const WAITING: usize = 1_024;
/// How long a group waits for a row that another transaction holds. A group that takes longer than this no longer keeps
/// the next one from its place.
const PATIENCE: Duration = Duration::from_millis(50);

/// How changes are written that share a transaction: see [`GroupCommit`].
pub trait GroupWrite: Send + Sync + 'static {
    /// What a caller asks for.
    type Change: Send + Sync + 'static;
    /// What a caller gets if the transaction commits.
    type Answer: Send + 'static;
    /// What a caller gets otherwise. [`WriteError`] will do.
    type Error: From<WriteError> + Send + 'static;

    /// Makes these changes in `tx`, which holds the claims of all their fences, and returns an answer for each, in
    /// their order. No two are of one resource. A change that is refused on business grounds is left out, and its
    /// answer says so.
    ///
    /// After an error nothing is applied. If it was of several changes, each is then made once more in a transaction of
    /// its own, so an error of one change is the error of that one only. The call must therefore do nothing beyond the
    /// transaction. If none of the changes is to be applied, say so by [`Tx::apply_nothing`].
    fn write(
        &self,
        tx: &mut Tx,
        changes: &[(Fence, Self::Change)],
    ) -> impl Future<Output = Result<Vec<Self::Answer>, Self::Error>> + Send;
}

/// Group commit: writes under different locks that are asked for at the same time share a transaction.
///
/// A transaction has a price that does not depend on what it changes: its messages, its plans, its commit. Callers of
/// [`GroupCommit::write`] that arrive while two groups are under way form the next group, of 64 changes at most, and pay
/// this price once. A group that takes longer than 50 ms no longer keeps others waiting.
///
/// What holds for a transaction of its own holds for each change of a group:
///
/// - All fences are claimed before anything is read, and a claim that is refused refuses its own change only.
/// - If a change fails, or waits for a row for longer than 50 ms, its group is rolled back, and each of its changes is
///   made in a transaction of its own.
/// - A change whose lock was lost while it waited, or whose request was answered as not applied, is not made.
/// - If the database does not answer COMMIT, nobody knows whether the group was applied, and all of its callers get
///   [`CommitError::Unknown`].
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

struct Shared<W: GroupWrite> {
    database: PgPool,
    pool: Arc<PoolState>,
    write: W,
    queue: Mutex<Queue<W>>,
    /// How long a group keeps the next one from its place.
    keeps_place: Duration,
}

type Change<W> = (Fence, <W as GroupWrite>::Change);

/// The changes that wait, the oldest first, and the number of groups under way.
struct Queue<W: GroupWrite> {
    waiting: VecDeque<Waiting<W>>,
    under_way: usize,
}

/// A change, and the caller that waits for its answer.
type Waiting<W> = (Change<W>, Caller<W>);

struct Caller<W: GroupWrite> {
    /// The route lock of its request.
    route: Option<Fence>,
    /// The work of a group is part of the span of its first caller.
    span: Span,
    /// Callers of one runtime form a group, which runs there: another runtime may stand still or end before.
    runtime: Handle,
    answer: oneshot::Sender<Result<W::Answer, W::Error>>,
}

impl<W: GroupWrite> GroupCommit<W> {
    /// Writes to this database.
    pub fn new(database: &PgPool, write: W) -> Self {
        Self::keeping_places(database, write, PATIENCE)
    }

    pub(super) fn keeping_places(database: &PgPool, write: W, keeps_place: Duration) -> Self {
        let (database, pool) = (database.clone(), PoolState::of(database));
        let queue = Mutex::new(Queue { waiting: VecDeque::new(), under_way: 0 });
        Self(Arc::new(Shared { database, pool, write, queue, keeps_place }))
    }

    /// Makes a change under an exclusive ownership, and returns once it is committed and the cached values are dropped.
    ///
    /// If the future is dropped before its group begins, nothing is applied. If it is dropped later, the change may be
    /// applied.
    ///
    /// # Errors
    ///
    /// What [`GroupWrite::write`] returned, if it failed: nothing was applied. Otherwise what is made of a
    /// [`WriteError`], whose [`WriteError::applied`] says whether the change was applied. If [`GroupWrite::write`]
    /// panicked, or the runtime ended, that is [`CommitError::Unknown`].
    ///
    /// # Panics
    ///
    /// Outside of a Tokio runtime, as sqlx does.
    #[tracing::instrument(name = "group_commit", level = "debug", skip_all)]
    pub async fn write(&self, fence: &Fence, change: W::Change) -> Result<W::Answer, W::Error> {
        let (answer, answered) = oneshot::channel();
        let caller = Caller { route: handled(), span: Span::current(), runtime: Handle::current(), answer };
        if let Some(no_room) = self.0.wait(((fence.clone(), change), caller)) {
            self.0.settle(vec![no_room]).await;
        }
        // The task of the group has ended without an answer: it panicked, or its runtime ended.
        answered.await.unwrap_or_else(|_| {
            let unknown = CommitError::Unknown(sqlx::Error::WorkerCrashed);
            Err(WriteError::from(unknown).into())
        })
    }
}

impl<W: GroupWrite> Shared<W> {
    /// Puts a change behind those that wait, and begins a group if few are under way. Returns the change if there is no
    /// room.
    fn wait(self: &Arc<Self>, change: Waiting<W>) -> Option<Waiting<W>> {
        let mut queue = self.queue.lock();
        if queue.waiting.len() >= WAITING {
            return Some(change);
        }
        queue.waiting.push_back(change);
        if queue.under_way < AT_ONCE {
            queue.under_way += 1;
            let group = queue.next();
            drop(queue);
            self.spawn(group);
        }
        None
    }

    fn spawn(self: &Arc<Self>, group: Vec<Waiting<W>>) {
        let Some(runtime) = group.first().map(|(_, caller)| caller.runtime.clone()) else { return };
        // If the runtime has ended, this is dropped at once, and with it the callers of that runtime only.
        let mut place = Place { shared: Arc::clone(self), group };
        let settle = async move {
            let (shared, group) = (Arc::clone(&place.shared), mem::take(&mut place.group));
            let mut settling = pin!(shared.settle(group));
            if timeout(shared.keeps_place, &mut settling).await.is_err() {
                drop(place);
                settling.await;
            }
        };
        self.pool.tasks.spawn_on(settle, &runtime);
    }

    /// Writes the changes of a group, and answers its callers.
    async fn settle(&self, mut group: Vec<Waiting<W>>) {
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
        let span = callers.first().map_or_else(Span::none, |caller| caller.span.clone());
        self.attempt_within_span(changes, callers).instrument(span).await
    }

    async fn attempt_within_span(
        &self,
        changes: &[Change<W>],
        callers: &[Caller<W>],
    ) -> Result<Written<W>, Failure<W>> {
        let tx = match changes {
            [] => return Ok(Written { answers: Vec::new(), heard_within: None }),
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

impl<W: GroupWrite> Queue<W> {
    /// Takes the changes of the next group: the oldest of one runtime, but one of each resource. Two owners of one
    /// resource, of whom one has lost it, are told apart by their claims, which takes two transactions.
    fn next(&mut self) -> Vec<Waiting<W>> {
        let Some(runtime) = self.waiting.front().map(|(_, caller)| caller.runtime.id()) else { return Vec::new() };
        let (mut group, mut left) = (Vec::new(), VecDeque::new());
        let mut resources = HashSet::new();
        while group.len() < MOST
            && let Some(waiting) = self.waiting.pop_front()
        {
            let ((fence, _), caller) = &waiting;
            if caller.runtime.id() == runtime && resources.insert(fence.key().clone()) {
                group.push(waiting);
            } else {
                left.push_back(waiting);
            }
        }
        left.append(&mut self.waiting);
        self.waiting = left;
        group
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
    fn into(self) -> W::Error {
        match self {
            Self::Write(error) => error,
            Self::Transaction(error) => error.into(),
        }
    }
}

impl<W: GroupWrite> Caller<W> {
    fn gets(self, outcome: Result<W::Answer, W::Error>) {
        // If this fails, nobody waits for it any more.
        let _ = self.answer.send(outcome);
    }
}

/// A place among the groups under way. However its group ends, or if it takes long, the next one gets the place.
struct Place<W: GroupWrite> {
    shared: Arc<Shared<W>>,
    group: Vec<Waiting<W>>,
}

impl<W: GroupWrite> Drop for Place<W> {
    fn drop(&mut self) {
        let mut queue = self.shared.queue.lock();
        let group = queue.next();
        if group.is_empty() {
            queue.under_way -= 1;
        } else {
            drop(queue);
            self.shared.spawn(group);
        }
    }
}

impl<W: GroupWrite> Clone for GroupCommit<W> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<W: GroupWrite> fmt::Debug for GroupCommit<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Queue { waiting, under_way } = &*self.0.queue.lock();
        f.debug_struct("GroupCommit").field("waiting", &waiting.len()).field("under_way", under_way).finish()
    }
}
