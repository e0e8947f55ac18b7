use std::{
    collections::{HashSet, VecDeque},
    mem,
    pin::pin,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use sqlx::PgPool;
use tokio::{runtime::Handle, sync::oneshot, time::timeout};
use tracing::Span;

use super::GroupWrite;
use crate::{Fence, postgres::registry::PoolState};

/// How many groups are written at the same time: while one waits for the disk, the other goes on.
const AT_ONCE: usize = 2;
/// How many changes a group has at most.
const MOST: usize = 64;
/// How many changes wait at most. Further ones have a transaction of their own.
const WAITING: usize = 1_024;
/// How long a group waits for a row that another transaction holds. A group that takes longer than this no longer keeps
/// the next one from its place.
pub(super) const PATIENCE: Duration = Duration::from_millis(50);

/// What all callers of a [`GroupCommit`](super::GroupCommit) share.
pub(super) struct Shared<W: GroupWrite> {
    pub(super) database: PgPool,
    pub(super) pool: Arc<PoolState>,
    pub(super) write: W,
    pub(super) queue: Mutex<Queue<W>>,
    /// How long a group keeps the next one from its place.
    pub(super) keeps_place: Duration,
}

pub(super) type Change<W> = (Fence, <W as GroupWrite>::Change);

/// A change, and the caller that waits for its answer.
pub(super) type Waiting<W> = (Change<W>, Caller<W>);

pub(super) struct Caller<W: GroupWrite> {
    /// The route lock of its request.
    pub(super) route: Option<Fence>,
    /// The work of a group is part of the span of its first caller.
    pub(super) span: Span,
    /// Callers of one runtime form a group, which runs there: another runtime may stand still or end before.
    pub(super) runtime: Handle,
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

/// What a new caller does.
pub(super) enum Turn<W: GroupWrite> {
    Waits,
    /// Nobody is ahead: it makes its change itself, which saves the way to another task and back.
    Now(Place<W>),
    NoRoom(Waiting<W>),
}

impl<W: GroupWrite> Shared<W> {
    pub(super) fn join(self: &Arc<Self>, change: Waiting<W>) -> Turn<W> {
        let mut queue = self.queue.lock();
        if queue.under_way < AT_ONCE {
            queue.under_way += 1;
            return Turn::Now(Place { shared: Arc::clone(self), group: vec![change] });
        }
        if queue.waiting.len() >= WAITING {
            return Turn::NoRoom(change);
        }
        queue.waiting.push_back(change);
        Turn::Waits
    }
}

impl<W: GroupWrite> Queue<W> {
    /// How many changes wait, and how many groups are under way.
    pub(super) fn stand(&self) -> (usize, usize) {
        (self.waiting.len(), self.under_way)
    }

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

/// A place among the groups under way. However its group ends, or if it takes long, the next one gets the place.
pub(super) struct Place<W: GroupWrite> {
    shared: Arc<Shared<W>>,
    group: Vec<Waiting<W>>,
}

impl<W: GroupWrite> Place<W> {
    pub(super) async fn settle(mut self) {
        let (shared, group) = (Arc::clone(&self.shared), mem::take(&mut self.group));
        let mut settling = pin!(shared.settle(group));
        if timeout(shared.keeps_place, &mut settling).await.is_err() {
            drop(self);
            settling.await;
        }
    }
}

impl<W: GroupWrite> Drop for Place<W> {
    fn drop(&mut self) {
        let mut queue = self.shared.queue.lock();
        let group = queue.next();
        let Some(runtime) = group.first().map(|(_, caller)| caller.runtime.clone()) else {
            queue.under_way -= 1;
            return;
        };
        drop(queue);
        let place = Self { shared: Arc::clone(&self.shared), group };
        // If the runtime has ended, the place is dropped at once, and with it callers of that runtime only.
        self.shared.pool.tasks.spawn_on(place.settle(), &runtime);
    }
}
