use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures_util::future::BoxFuture;
use tokio::time::sleep;

use super::{
    acquire::{Mailbox, MultiAttempt, Waiter},
    inner::Inner,
    release::{Release, Sent},
};
use crate::{
    clock::Instant,
    redis::{LinkError, Redis},
    resource::Key,
    store::{Attempt, Force, Forced, Handed, Inspection, LockError, LockStore, Ownership, Released, Token},
};

#[derive(Debug)]
pub(crate) struct RedisStore {
    pub(super) inner: Arc<Inner>,
}

impl RedisStore {
    /// Starts connecting. Must be called within a tokio runtime.
    pub(crate) fn open(redis: &Redis) -> Self {
        Self { inner: Inner::open(redis) }
    }

    async fn give_back(&self, ownership: &Arc<Ownership>) -> Result<Released, LockError> {
        let Ownership { key, owner, .. } = ownership.as_ref();
        // The entry stays until the answer is there. If this future is dropped before, a release in the background
        // still finds the entry.
        let stray = self.inner.held.stray(owner);
        let limit = Instant::now() + self.inner.timeout;
        let (mut unknown, mut scripts_lost) = (false, false);
        loop {
            let left = self.inner.send_release(key, owner).1.await;
            self.inner.doubt_unless_found(key, &left);
            let error = match left {
                Ok(left) => {
                    self.inner.held.remove(owner);
                    if left.more || stray.is_some() {
                        self.release_again(ownership, stray);
                    }
                    return Ok(match left.found {
                        true => Released::Released,
                        false if unknown => Released::Unknown,
                        false => Released::Lost,
                    });
                }
                Err(error) => error,
            };
            self.inner.shards.suspect(&error);
            unknown |= !error.is_never_executed() && !matches!(error, LinkError::NoScript);
            if matches!(error, LinkError::NoScript) && !scripts_lost {
                scripts_lost = true;
            } else if limit.remaining().is_zero() {
                self.inner.held.remove(owner);
                self.release_again(ownership, stray);
                return Err(self.inner.explain(key, &error).await);
            } else {
                sleep(Duration::from_millis(10)).await;
            }
        }
    }

    /// Releases on a task of the store, which repeats the release if necessary. The command has its place in the write
    /// order when this returns.
    fn release_again(&self, ownership: &Arc<Ownership>, stray: Option<Instant>) {
        let counted = self.inner.tasks.token();
        let at = Instant::now();
        // A renewal that is under way may still start a new lease.
        let forgotten = at + ownership.lease + self.inner.timeout;
        let (carrier, reply) = self.inner.send_release(&ownership.key, &ownership.owner);
        let sent = Sent { at, carrier, stray, forgotten };
        self.inner.see_to(Release { ownership: Arc::clone(ownership), sent, reply: Box::pin(reply), counted });
    }
}

impl LockStore for RedisStore {
    fn acquire(&self, attempt: Attempt) -> BoxFuture<'_, Result<Arc<Ownership>, LockError>> {
        Box::pin(Waiter::new(&self.inner, attempt).acquire())
    }

    fn try_all<'a>(&'a self, attempts: &'a [Attempt]) -> BoxFuture<'a, Result<Option<Vec<Arc<Ownership>>>, LockError>> {
        Box::pin(MultiAttempt::new(&self.inner, attempts).acquire())
    }

    fn release<'a>(&'a self, ownership: &'a Arc<Ownership>) -> BoxFuture<'a, Result<Released, LockError>> {
        Box::pin(self.give_back(ownership))
    }

    fn release_detached(&self, ownership: Arc<Ownership>) {
        let stray = self.inner.held.remove(&ownership.owner);
        self.release_again(&ownership, stray);
    }

    fn renew<'a>(&'a self, ownerships: &'a [Arc<Ownership>]) -> BoxFuture<'a, Result<(), LockError>> {
        Box::pin(self.inner.renew(ownerships))
    }

    fn downgrade<'a>(&'a self, ownership: &'a Arc<Ownership>) -> BoxFuture<'a, Result<(), LockError>> {
        Box::pin(self.inner.downgrade(ownership))
    }

    fn hand_over(&self, ownership: &Ownership) -> Result<Handed, LockError> {
        self.inner.hand_over(ownership)
    }

    fn adopt<'a>(&'a self, handed: &'a Handed) -> BoxFuture<'a, Result<Arc<Ownership>, LockError>> {
        Box::pin(self.inner.adopt(handed))
    }

    fn seed<'a>(&'a self, key: &'a Key, token: Token) -> BoxFuture<'a, Result<(), LockError>> {
        Box::pin(self.inner.seed(key, token))
    }

    fn force<'a>(&'a self, key: &'a Key, force: Force) -> BoxFuture<'a, Result<Forced, LockError>> {
        Box::pin(self.inner.force(key, force))
    }

    fn inspect<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Inspection, LockError>> {
        Box::pin(self.inner.inspect(key))
    }

    fn list(&self, limit: usize) -> BoxFuture<'_, Result<Vec<String>, LockError>> {
        Box::pin(self.inner.list(limit))
    }

    fn shard(&self, key: &Key) -> u32 {
        self.inner.shard(key).map_or(0, |shard| shard.id)
    }

    fn delegates(&self) -> bool {
        true
    }

    fn refusing(&self, key: &Key) -> Option<Duration> {
        self.inner.shard(key).ok()?.link.breaker().refusing()
    }

    fn is_up(&self) -> bool {
        self.inner.shards.are_well()
    }

    fn shutdown(&self, limit: Duration) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            // A server that answers has undone everything after a few round trips. On another one leases and waits
            // expire.
            let end = Instant::now() + limit.min(self.inner.timeout * 4 + Duration::from_secs(1));
            self.inner.closing.store(true, Ordering::Release);
            self.inner.shards.retire();
            self.inner.waiters.post_all(|_| true, Mailbox::closing);
            self.inner.tasks.close();
            // Each waiter undoes its attempt when it is polled next. The shutdown waits for those tasks here.
            while !self.inner.waiters.is_settled() && !end.remaining().is_zero() {
                sleep(Duration::from_millis(1)).await;
            }
            let _ = tokio::time::timeout(end.remaining(), self.inner.tasks.wait()).await;
            self.inner.ended.cancel();
            self.inner.shards.shutdown(end.remaining()).await;
        })
    }
}
