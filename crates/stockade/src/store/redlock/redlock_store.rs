use std::{sync::Arc, time::Duration};

use futures_util::future::{BoxFuture, join_all};
use tokio::time::{sleep, timeout};

use super::{inner::Inner, settings::Settings};
use crate::{
    clock::Instant,
    redis::Redis,
    resource::Key,
    store::{Attempt, Force, Forced, Inspection, LockError, LockStore, Ownership, Released, Token},
};

#[derive(Debug)]
pub(crate) struct RedlockStore {
    pub(super) inner: Arc<Inner>,
}

impl RedlockStore {
    /// Starts connecting. Must be called within a tokio runtime.
    pub(crate) fn open(servers: &[Redis], settings: Settings) -> Self {
        Self { inner: Inner::open(servers, settings) }
    }

    async fn give_back(&self, ownership: &Ownership) -> Result<Released, LockError> {
        let quorum = self.inner.quorum();
        let Some((mut left, mut told)) = self.inner.start_giving_back(ownership) else { return Ok(Released::Lost) };
        let limit = Instant::now() + self.inner.timeout();
        let (mut held, mut unknown) = (0, false);
        while held < quorum {
            if held + left < quorum {
                return Ok(if unknown { Released::Unknown } else { Released::Lost });
            }
            let found = tokio::select! {
                biased;
                found = told.recv() => found,
                () = sleep(limit.remaining()) => None,
            };
            let Some(found) = found else { return Err(self.inner.no_quorum()) };
            left -= 1;
            held += usize::from(found.held);
            unknown |= found.unknown && !found.held;
        }
        Ok(Released::Released)
    }
}

impl LockStore for RedlockStore {
    fn acquire(&self, attempt: Attempt) -> BoxFuture<'_, Result<Arc<Ownership>, LockError>> {
        Box::pin(async move { self.inner.acquire(&attempt).await })
    }

    fn release<'a>(&'a self, ownership: &'a Arc<Ownership>) -> BoxFuture<'a, Result<Released, LockError>> {
        Box::pin(self.give_back(ownership))
    }

    fn release_detached(&self, ownership: Arc<Ownership>) {
        self.inner.give_back_detached(&ownership);
    }

    fn renew<'a>(&'a self, ownerships: &'a [Arc<Ownership>]) -> BoxFuture<'a, Result<(), LockError>> {
        Box::pin(self.inner.renew(ownerships))
    }

    fn seed<'a>(&'a self, key: &'a Key, token: Token) -> BoxFuture<'a, Result<(), LockError>> {
        Box::pin(self.inner.seed(key, token))
    }

    /// Ignores `_force`: it tells how to treat shared holders, and Redlock has none.
    fn force<'a>(&'a self, key: &'a Key, _force: Force) -> BoxFuture<'a, Result<Forced, LockError>> {
        Box::pin(self.inner.force(key))
    }

    fn inspect<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Inspection, LockError>> {
        Box::pin(self.inner.inspect(key))
    }

    fn list(&self, limit: usize) -> BoxFuture<'_, Result<Vec<String>, LockError>> {
        Box::pin(self.inner.list(limit))
    }

    fn refusing(&self, _key: &Key) -> Option<Duration> {
        self.inner.refusing()
    }

    fn is_up(&self) -> bool {
        self.inner.is_up()
    }

    fn shutdown(&self, limit: Duration) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            // Servers that answer have undone everything after a few round trips. On the others the leases expire.
            let end = Instant::now() + limit.min(self.inner.timeout() * 4 + Duration::from_secs(1));
            self.inner.closing.cancel();
            self.inner.tasks.close();
            let _ = timeout(end.remaining(), self.inner.tasks.wait()).await;
            self.inner.ended.cancel();
            join_all(self.inner.nodes.iter().map(|node| node.link.shutdown(end.remaining()))).await;
        })
    }
}
