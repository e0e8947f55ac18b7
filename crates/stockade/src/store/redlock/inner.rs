use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use tokio::runtime::Handle;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{held_table::HeldTable, keys::Keys, node::Node, servers::Servers, settings::Settings};
use crate::{
    resource::Key,
    store::{LockError, Owner, Token, Unavailable, floors::Floors},
};

/// The `retry_after` of an error when no breaker says a better time.
const RETRY: Duration = Duration::from_secs(1);
/// With a shorter node time-out, a busy client would take its own delay for a slow server.
const LEAST_NODE_TIMEOUT: Duration = Duration::from_millis(20);

/// What the parts of a store share.
pub(super) struct Inner {
    pub(super) nodes: Vec<Node>,
    pub(super) servers: Servers,
    pub(super) keys: Keys,
    pub(super) settings: Settings,
    pub(super) held: HeldTable,
    pub(super) floors: Floors,
    /// Tasks that no caller waits for: releases, the undoing of rounds, late answers.
    pub(super) tasks: TaskTracker,
    pub(super) runtime: Handle,
    /// Cancelled when the shutdown begins: no lock is granted any more.
    pub(super) closing: CancellationToken,
    /// Cancelled when the shutdown's time is over: stops all tasks, finished or not.
    pub(super) ended: CancellationToken,
    pub(super) process: String,
    pub(super) attempts: AtomicU64,
}

/// How many of so many servers have to agree.
pub(super) fn quorum_of(servers: usize) -> usize {
    servers / 2 + 1
}

impl Inner {
    pub(super) fn quorum(&self) -> usize {
        quorum_of(self.nodes.len())
    }

    pub(super) fn new_owner(&self) -> Owner {
        let number = self.attempts.fetch_add(1, Ordering::Relaxed);
        Owner::of(&self.process, number)
    }

    /// The median of the servers' clocks, in µs; 0 if none is known. With the median, a minority of wrong clocks can't
    /// push the tokens far ahead.
    fn time(&self) -> u64 {
        let mut stamps: Vec<_> = self.nodes.iter().map(|node| node.clock.stamp()).filter(|stamp| *stamp > 0).collect();
        stamps.sort_unstable();
        stamps.len().checked_sub(1).and_then(|last| stamps.get(last / 2)).copied().unwrap_or_default()
    }

    pub(super) fn next_token(&self, key: &Key) -> Result<Token, LockError> {
        let exhausted = LockError::Unavailable { reason: Unavailable::Refused, retry_after: RETRY };
        self.floors.next(key, self.time()).ok_or(exhausted)
    }

    /// The longest command timeout of all servers.
    pub(super) fn timeout(&self) -> Duration {
        self.nodes.iter().map(|node| node.link.timeout()).max().unwrap_or_default()
    }

    /// How long to wait for a quorum of answers: once for the lock, and again for each token that must be raised.
    pub(super) fn node_timeout(&self, lease: Duration) -> Duration {
        (lease / 10).max(LEAST_NODE_TIMEOUT).min(self.timeout())
    }

    /// How long until enough breakers close to leave a quorum of servers. `None` if there is a quorum now.
    pub(super) fn refusing(&self) -> Option<Duration> {
        let mut refused: Vec<_> = self.nodes.iter().filter_map(|node| node.link.breaker().refusing()).collect();
        refused.sort_unstable();
        let left = self.nodes.len() - refused.len();
        self.quorum().checked_sub(left + 1).and_then(|missing| refused.get(missing)).copied()
    }

    pub(super) fn is_up(&self) -> bool {
        self.nodes.iter().filter(|node| node.link.is_up()).count() >= self.quorum()
    }

    pub(super) fn no_quorum(&self) -> LockError {
        let mut unfit: Vec<_> = self.nodes.iter().filter_map(|node| node.link.unfit()).collect();
        let reason = match unfit.len() > self.nodes.len() - self.quorum() {
            true => Unavailable::Unfit { said: unfit.swap_remove(0) },
            false => Unavailable::NoQuorum,
        };
        LockError::Unavailable { reason, retry_after: self.refusing().unwrap_or(RETRY) }
    }

    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let ended = self.ended.clone();
        let task = async move {
            let _ = ended.run_until_cancelled(task).await;
        };
        self.tasks.spawn_on(task, &self.runtime);
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedlockStore").field("nodes", &self.nodes).finish_non_exhaustive()
    }
}
