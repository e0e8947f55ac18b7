use std::{
    collections::{HashMap, HashSet, VecDeque, hash_map::Entry},
    mem,
    pin::pin,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use sqlx::PgPool;
use tokio::{
    runtime::{Handle, Id},
    sync::oneshot,
    time::timeout,
};
use tracing::Span;

use super::{GroupWrite, tally::Tally};
use crate::{Fence, postgres::registry::PoolState};

/// How many groups are written at the same time: while one waits for the disk, the other goes on.
const AT_ONCE: usize = 2;
/// How many changes a group has at most.
const MOST: usize = 64;
/// How many changes wait at most. Further ones have a transaction of their own.
const WAITING: usize = 1_024;
/// How long a group, or a change the first time, waits for a row that another transaction holds. A group that takes
/// longer than this no longer keeps the next one from its place.
pub(super) const PATIENCE: Duration = Duration::from_millis(50);

/// How long things may take.
#[derive(Clone, Copy, Debug)]
pub(in crate::postgres) struct Limits {
    /// How long a group keeps the next one from its place.
    pub(in crate::postgres) keeps_place: Duration,
    /// How long BEGIN, the statements, and COMMIT may take each. The limits of statements are kept by the server, which
    /// may have vanished.
    pub(in crate::postgres) step: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { keeps_place: PATIENCE, step: Duration::from_secs(120) }
    }
}

/// What all callers of a [`GroupCommit`](super::GroupCommit) share.
pub(super) struct Shared<W: GroupWrite> {
    pub(super) database: PgPool,
    pub(super) pool: Arc<PoolState>,
    pub(super) write: W,
    /// A queue for the callers of each runtime, whose groups run there: another runtime may stand still, or end before.
    pub(super) queues: Mutex<HashMap<Id, Queue<W>>>,
    pub(super) limits: Limits,
    pub(super) tally: Tally,
}

pub(super) type Change<W> = (Fence, <W as GroupWrite>::Change);

/// A change, and the caller that waits for its answer.
pub(super) type Waiting<W> = (Change<W>, Caller<W>);

pub(super) struct Caller<W: GroupWrite> {
    /// The route lock of its request.
    pub(super) route: Option<Fence>,
    /// The work of a group is part of the span of its first caller.
    pub(super) span: Span,
    pub(super) answer: oneshot::Sender<Result<W::Answer, W::Error>>,
}

impl<W: GroupWrite> Caller<W> {
    pub(super) fn gets(self, outcome: Result<W::Answer, W::Error>) {
        // If this fails, nobody waits for it any more.
        let _ = self.answer.send(outcome);
    }
}

/// The changes that wait, the oldest first, and the number of groups under way. Changes wait only while [`AT_ONCE`]
/// groups are under way.
pub(super) struct Queue<W: GroupWrite> {
    waiting: VecDeque<Waiting<W>>,
    under_way: usize,
}

impl<W: GroupWrite> Default for Queue<W> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), under_way: 0 }
    }
}

impl<W: GroupWrite> Shared<W> {
    /// Begins a group if few are under way, or puts the change behind those that wait.
    pub(super) fn join(self: &Arc<Self>, runtime: Handle, change: Waiting<W>) {
        let mut queues = self.queues.lock();
        let queue = queues.entry(runtime.id()).or_default();
        if queue.under_way < AT_ONCE {
            queue.under_way += 1;
            drop(queues);
            Place { shared: Arc::clone(self), runtime, group: vec![change] }.spawn();
        } else if queue.waiting.len() < WAITING {
            queue.waiting.push_back(change);
        } else {
            drop(queues);
            let shared = Arc::clone(self);
            self.pool.tasks.spawn_on(async move { shared.settle(vec![change]).await }, &runtime);
        }
    }

    /// How many changes wait, and how many groups are under way.
    pub(super) fn stand(&self) -> (usize, usize) {
        let queues = self.queues.lock();
        queues
            .values()
            .fold((0, 0), |(waiting, under_way), queue| (waiting + queue.waiting.len(), under_way + queue.under_way))
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
            let ((fence, _), _) = &waiting;
            if resources.insert(fence.key().clone()) {
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

/// A place among the groups under way. However its group ends, or if it takes long, the next one gets the place.
struct Place<W: GroupWrite> {
    shared: Arc<Shared<W>>,
    runtime: Handle,
    group: Vec<Waiting<W>>,
}

impl<W: GroupWrite> Place<W> {
    /// Settles the group in a task: that of a caller may stop polling, and the next group would wait for it. If the
    /// runtime has ended, the place is dropped at once.
    fn spawn(self) {
        let (tasks, runtime) = (self.shared.pool.tasks.clone(), self.runtime.clone());
        tasks.spawn_on(self.settle(), &runtime);
    }

    async fn settle(mut self) {
        let (shared, group) = (Arc::clone(&self.shared), mem::take(&mut self.group));
        let mut settling = pin!(shared.settle(group));
        if timeout(shared.limits.keeps_place, &mut settling).await.is_err() {
            drop(self);
            settling.await;
        }
    }
}

impl<W: GroupWrite> Drop for Place<W> {
    fn drop(&mut self) {
        let mut queues = self.shared.queues.lock();
        let Entry::Occupied(mut queue) = queues.entry(self.runtime.id()) else { return };
        // If this group was not even begun, its runtime has ended, and with it all who wait there.
        let ended = if self.group.is_empty() { VecDeque::new() } else { mem::take(&mut queue.get_mut().waiting) };
        let group = queue.get_mut().next();
        if group.is_empty() {
            queue.get_mut().under_way -= 1;
            if queue.get().under_way == 0 {
                queue.remove();
            }
            drop(queues);
            drop(ended);
            return;
        }
        drop(queues);
        Self { shared: Arc::clone(&self.shared), runtime: self.runtime.clone(), group }.spawn();
    }
}
