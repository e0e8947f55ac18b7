use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::runtime::Handle;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    acquire::{Mailbox, ReaskThrottle},
    commands::keys::Keys,
    holding::HeldTable,
    messages::Waiters,
    release::Releases,
    scripts,
    shard::{Shard, ShardState},
};
use crate::{
    clock::Instant,
    redis::{LinkError, RoutedLink},
    resource::{Bucket, Key},
    store::{LockError, Owner, Unavailable, floors::Floors},
};

/// What the parts of a store share.
pub(super) struct Inner {
    pub(super) shards: Arc<RoutedLink<ShardState>>,
    pub(super) keys: Keys,
    pub(super) timeout: Duration,
    pub(super) waiters: Waiters,
    pub(super) held: HeldTable,
    pub(super) throttle: Arc<ReaskThrottle>,
    pub(super) floors: Floors,
    pub(super) releases: Releases,
    /// Tasks that no caller waits for: compensations and detached releases.
    pub(super) tasks: TaskTracker,
    pub(super) runtime: Handle,
    pub(super) closing: AtomicBool,
    /// Cancelled when the shutdown's time is over: stops all tasks, finished or not.
    pub(super) ended: CancellationToken,
    pub(super) process: String,
    pub(super) attempts: AtomicU64,
}

impl Inner {
    pub(super) fn new_owner(&self) -> Owner {
        let number = self.attempts.fetch_add(1, Ordering::Relaxed);
        Owner::of(&self.process, number)
    }

    pub(super) fn shard(&self, key: &Key) -> Result<Arc<Shard>, LinkError> {
        self.shards.of(key.bucket()).ok_or(LinkError::Down)
    }

    /// Tells a node of a cluster the largest token seen in the bucket before the node makes another. A node that was
    /// promoted, or lost its data, may not know it.
    pub(super) async fn raise_floor(&self, shard: &Shard, bucket: Bucket) -> Result<(), LinkError> {
        let floor = self.floors.of(bucket).load(Ordering::Relaxed);
        if !shard.is_partial() || floor == 0 || shard.state.has_floor(bucket) {
            return Ok(());
        }
        let args = vec![floor.to_string().into_bytes()];
        shard.link.call(&scripts::SEED, vec![self.keys.floor(bucket)], args).await?;
        shard.state.knows_floor(bucket);
        Ok(())
    }

    /// Records the server time `now` of an exchange that was sent at `sent`.
    ///
    /// If the server's clock was set back, all new messages look older than the last answer of a waiter. So every
    /// waiter asks again, and goes on from the answer.
    pub(super) fn heard(&self, shard: &Shard, sent: Instant, now: u64) {
        if shard.state.clock.note(sent, now) {
            tracing::warn!("the clock of Redis was set back; all who wait for locks there ask again");
            self.waiters.post_all(|key| self.shards.has(shard, key.bucket()), Mailbox::reconnected);
        }
    }

    /// [`unavailable`], with the reason why the server of the resource can't be used, if there is one.
    pub(super) fn unavailable(&self, key: &Key, error: &LinkError) -> LockError {
        unavailable_as(error, self.shards.unfit(key.bucket()))
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
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
        f.debug_struct("RedisStore").field("shards", &self.shards).finish_non_exhaustive()
    }
}

pub(super) fn unavailable(error: &LinkError) -> LockError {
    unavailable_as(error, None)
}

/// The [`LockError`] for an error of the link, as [`Unavailable::of`].
pub(super) fn unavailable_as(error: &LinkError, unfit: Option<Arc<str>>) -> LockError {
    let (reason, retry_after) = Unavailable::of(error, unfit);
    LockError::Unavailable { reason, retry_after }
}
