use std::{
    collections::{HashSet, VecDeque},
    fmt, io, iter, mem, slice,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use sqlx::PgPool;
use tokio::{runtime::Handle, sync::oneshot};

use super::{CommitError, FenceError, Tx, WriteError, registry::PoolState};
use crate::{
    Fence,
    cache::some_at_a_time,
    lock::{Mode, handled},
};

/// How many groups are written at the same time: while one waits for a row or for the disk, the other goes on.
const AT_ONCE: usize = 2;
/// How many changes a group has at most.
const MOST: usize = 64;
/// How many changes wait at most. Further ones have a transaction of their own.
const WAITING: usize = 1_024;
/// How long a group waits for a row that another transaction holds.
const PATIENCE: Duration = Duration::from_millis(50);

/// How changes are written that share a transaction: see [`GroupCommit`].
pub trait GroupWrite: Send + Sync + 'static {
    /// What a caller asks for.
    type Change: Send + Sync + 'static;
    /// What a caller gets if the transaction commits.
    type Answer: Send + 'static;

    /// Makes these changes in `tx`, which holds the claims of all their fences, and returns an answer for each, in
    /// their order. No two are of one resource. A change that is refused on business grounds is left out, and its
    /// answer says so.
    ///
    /// After an error nothing is applied. If it was of several changes, each is then made once more in a transaction of
    /// its own, so an error of one change is the error of that one only. The call must therefore do nothing beyond the
    /// transaction.
    fn write(
        &self,
        tx: &mut Tx,
        changes: &[(Fence, Self::Change)],
    ) -> impl Future<Output = Result<Vec<Self::Answer>, sqlx::Error>> + Send;
}

/// Group commit: writes under different locks that are asked for at the same time share a transaction.
///
/// A transaction has a price that does not depend on what it changes: its messages, its plans, its commit. Callers of
/// [`GroupCommit::write`] that arrive while two groups are under way form the next group, of 64 changes at most, and pay
/// this price once. A caller that nobody is ahead of waits for nobody.
///
/// What holds for a transaction of its own holds for each change of a group:
///
/// - All fences are claimed before anything is read, and a claim that is refused refuses its own change only.
/// - A change that fails, or that waits for a row for longer than 50 ms, is taken apart from the others: each is then
///   written in a transaction of its own.
/// - A change whose lock was lost, or whose request was answered as not applied, is not committed.
/// - If the database does not answer COMMIT, nobody knows whether the group was applied, and all of its callers get
///   [`CommitError::Unknown`].
///
/// The caller keeps the lock until it has its answer. The changes share the connections of the pool, two at a time.
/// Cheap to clone.
pub struct GroupCommit<W: GroupWrite>(Arc<Shared<W>>);

struct Shared<W: GroupWrite> {
    database: PgPool,
    pool: Arc<PoolState>,
    write: W,
    queue: Mutex<Queue<W>>,
}

/// The changes that wait, the oldest first, and the number of groups under way.
struct Queue<W: GroupWrite> {
    waiting: VecDeque<Waiting<W>>,
    under_way: usize,
}

/// A change, and the caller that waits for its answer.
struct Waiting<W: GroupWrite> {
    fence: Fence,
    change: W::Change,
    caller: Caller<W>,
}

struct Caller<W: GroupWrite> {
    /// The route lock of its request.
    route: Option<Fence>,
    answer: oneshot::Sender<Result<W::Answer, WriteError>>,
}

impl<W: GroupWrite> GroupCommit<W> {
    /// Writes to this database.
    pub fn new(database: &PgPool, write: W) -> Self {
        let queue = Mutex::new(Queue { waiting: VecDeque::new(), under_way: 0 });
        Self(Arc::new(Shared { database: database.clone(), pool: PoolState::of(database), write, queue }))
    }

    /// Makes a change under an exclusive ownership, and returns once it is committed and the cached values are dropped.
    ///
    /// If the future is dropped before its group begins, nothing is applied. If it is dropped later, the change may be
    /// applied.
    ///
    /// # Errors
    ///
    /// [`WriteError`], whose [`WriteError::applied`] says whether the change was applied. A panic of
    /// [`GroupWrite::write`] is [`CommitError::Unknown`] for the callers of its group.
    #[tracing::instrument(name = "group_commit", level = "debug", skip_all)]
    pub async fn write(&self, fence: &Fence, change: W::Change) -> Result<W::Answer, WriteError> {
        if let Some(reason) = fence.loss() {
            return Err(FenceError::Lost(reason).into());
        }
        if let mode @ (Mode::Read | Mode::Permit) = fence.mode() {
            return Err(FenceError::Shared(mode).into());
        }
        let (answer, answered) = oneshot::channel();
        let waiting = Waiting { fence: fence.clone(), change, caller: Caller { route: handled(), answer } };
        if let Some(no_room) = self.0.wait(waiting) {
            self.0.settle(vec![no_room]).await;
        }
        // The task of the group has ended without an answer: it panicked, or its runtime ended.
        answered.await.unwrap_or(Err(CommitError::Unknown(sqlx::Error::WorkerCrashed).into()))
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
        let mut place = Place { shared: Arc::clone(self), group };
        // Without a runtime the place is dropped, and with it all that wait.
        if let Ok(runtime) = Handle::try_current() {
            let settle = async move {
                let group = mem::take(&mut place.group);
                place.shared.settle(group).await;
            };
            self.pool.tasks.spawn_on(settle, &runtime);
        }
    }

    /// Writes the changes of a group, and answers its callers.
    async fn settle(&self, group: Vec<Waiting<W>>) {
        let (changes, mut callers): (Vec<_>, Vec<_>) = still_wanted(group).into_iter().unzip();
        if changes.is_empty() {
            return;
        }
        let error = match self.attempt(&changes, &callers).await {
            Ok(written) => return self.answer(changes, callers, written),
            Err(error) => error,
        };
        if of_all(&error).is_some() {
            if let WriteError::Fence(_) = error {
                // Those behind would wait as long for a connection, one group after the other.
                callers.extend(self.queue.lock().waiting.drain(..).map(|waiting| waiting.caller));
            }
            for (caller, error) in callers.into_iter().zip(iter::from_fn(|| of_all(&error))) {
                caller.fails(error);
            }
        } else if changes.len() == 1 {
            callers.into_iter().zip([error]).for_each(|(caller, error)| caller.fails(error));
        } else {
            some_at_a_time(changes.into_iter().zip(callers).map(|(change, caller)| self.alone(change, caller))).await;
        }
    }

    /// Makes a change in a transaction of its own.
    async fn alone(&self, change: (Fence, W::Change), caller: Caller<W>) {
        if caller.answer.is_closed() {
            return;
        }
        match self.attempt(slice::from_ref(&change), slice::from_ref(&caller)).await {
            Ok(written) => self.answer(vec![change], vec![caller], written),
            Err(error) => caller.fails(error),
        }
    }

    async fn attempt(
        &self,
        changes: &[(Fence, W::Change)],
        callers: &[Caller<W>],
    ) -> Result<Written<W::Answer>, WriteError> {
        let mut tx = match changes {
            [(fence, _)] => fence.begin(&self.database).await?,
            _ => {
                Tx::under_all(&self.database, changes.iter().map(|(fence, _)| fence.clone()).collect(), Some(PATIENCE))
                    .await?
            }
        };
        tx.routes = callers.iter().filter_map(|caller| caller.route.clone()).collect();
        let answers = match self.write.write(&mut tx, changes).await {
            Ok(answers) if answers.len() == changes.len() => answers,
            outcome => {
                let error = outcome.map_or_else(
                    |error| error,
                    |answers| {
                        sqlx::Error::Protocol(format!(
                            "{} answers to {} changes of a group",
                            answers.len(),
                            changes.len()
                        ))
                    },
                );
                // Gives the rows back before the changes are made one by one. If it fails, the connection ends.
                let _ = tx.rollback().await;
                return Err(error.into());
            }
        };
        Ok(Written { answers, heard_within: tx.commit_and_tell().await? })
    }

    /// Gives the callers their answers. A caller whose lock was lost before the cached values were dropped gets its
    /// answer when every process has heard of the write.
    fn answer(&self, changes: Vec<(Fence, W::Change)>, callers: Vec<Caller<W>>, written: Written<W::Answer>) {
        let mut late = Vec::new();
        for (((fence, _), caller), answer) in changes.into_iter().zip(callers).zip(written.answers) {
            if written.heard_within.is_none() || fence.ownership.is_exclusive() {
                caller.gets(answer);
            } else {
                late.push((caller, answer));
            }
        }
        if let Some(limit) = written.heard_within.filter(|_| !late.is_empty()) {
            self.pool.tasks.spawn(async move {
                tokio::time::sleep(limit).await;
                late.into_iter().for_each(|(caller, answer)| caller.gets(answer));
            });
        }
    }
}

impl<W: GroupWrite> Queue<W> {
    /// Takes the changes of the next group: the oldest, but one of each resource. Two owners of one resource, of whom
    /// one has lost it, are told apart by their claims, which takes two transactions.
    fn next(&mut self) -> Vec<Waiting<W>> {
        let (mut group, mut left) = (Vec::new(), VecDeque::new());
        let mut resources = HashSet::new();
        while group.len() < MOST
            && let Some(waiting) = self.waiting.pop_front()
        {
            if resources.insert(waiting.fence.key().clone()) {
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

/// The changes whose callers are still there and hold their lock, in the order in which all processes claim: two
/// transactions never wait for each other's fences.
fn still_wanted<W: GroupWrite>(mut group: Vec<Waiting<W>>) -> Vec<((Fence, W::Change), Caller<W>)> {
    group.sort_by(|one, other| one.fence.key().as_str().cmp(other.fence.key().as_str()));
    let mut wanted = Vec::with_capacity(group.len());
    for Waiting { fence, change, caller } in group {
        match fence.loss() {
            _ if caller.answer.is_closed() => {}
            Some(reason) => caller.fails(FenceError::Lost(reason).into()),
            None => wanted.push(((fence, change), caller)),
        }
    }
    wanted
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
struct Written<A> {
    answers: Vec<A>,
    /// How long processes may still serve what it made stale, if a lock was lost.
    heard_within: Option<Duration>,
}

impl<W: GroupWrite> Caller<W> {
    fn gets(self, answer: W::Answer) {
        // Nobody waits for it any more if this fails.
        let _ = self.answer.send(Ok(answer));
    }

    fn fails(self, error: WriteError) {
        let _ = self.answer.send(Err(error));
    }
}

/// A place among the groups under way. However its group ends, the next one gets it.
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
