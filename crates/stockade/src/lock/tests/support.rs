use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::{BoxFuture, FutureExt, pending};

use crate::{
    lock::{Force, Forced, Inspection, LockError, Locks, Released, Token, Unavailable},
    resource::Key,
    store::{Attempt, Handed, LockStore, MemoryStore, Mode, Ownership},
};
pub(super) use crate::{
    redis::{LIMIT, eventually as until},
    resource::Sku,
};

pub(super) const SHORT: Duration = Duration::from_millis(150);
/// A lease that is renewed in time, or soon over. A busy machine may stop a test for more than a tenth of a second.
pub(super) const LEASE: Duration = Duration::from_millis(400);

/// Waits until nothing is held or waited for.
pub(super) async fn idle(locks: &Locks) {
    until("no lock is left", async || locks.list(10).await.unwrap().is_empty()).await;
}

/// A memory store whose renewals and releases can be made to hang or fail.
#[derive(Debug)]
pub(super) struct Faulty {
    store: MemoryStore,
    acquires: AtomicUsize,
    /// The keys of each call.
    renewals: Mutex<Vec<Vec<String>>>,
    failures: AtomicUsize,
    hanging_renewal: Mutex<Option<String>>,
    hanging_releases: AtomicBool,
    elsewhere: Mutex<Option<(String, u32)>>,
    downgrades: Mutex<Downgrades>,
}

/// The way in which downgrades end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Downgrades {
    #[default]
    Answered,
    /// Done, but the call never returns.
    Hang,
    /// Done, but the reply is lost.
    Unanswered,
}

impl Faulty {
    pub(super) fn locks() -> (Locks, Arc<Self>) {
        let faulty = Arc::new(Self {
            store: MemoryStore::new(),
            acquires: AtomicUsize::new(0),
            renewals: Mutex::default(),
            failures: AtomicUsize::new(0),
            hanging_renewal: Mutex::default(),
            hanging_releases: AtomicBool::new(false),
            elsewhere: Mutex::default(),
            downgrades: Mutex::default(),
        });
        let store: Arc<dyn LockStore> = Arc::<Self>::clone(&faulty);
        // What is not given back stays held for longer than a test waits for it.
        (Locks::builder().lease(Duration::from_secs(300)).on(store), faulty)
    }

    pub(super) fn acquires(&self) -> usize {
        self.acquires.load(Ordering::SeqCst)
    }

    /// How many renewals of a key were requested.
    pub(super) fn renewals(&self, key: &str) -> usize {
        self.renewals.lock().unwrap().iter().flatten().filter(|renewed| *renewed == key).count()
    }

    /// How many calls requested renewals, and how many renewals they requested.
    pub(super) fn renewal_calls(&self) -> (usize, usize) {
        let renewals = self.renewals.lock().unwrap();
        (renewals.len(), renewals.iter().map(Vec::len).sum())
    }

    pub(super) fn fail_renewals(&self, times: usize) {
        self.failures.store(times, Ordering::SeqCst);
    }

    /// Renewals of this key never get an answer, nor does anything in their batch.
    pub(super) fn hang_renewals_of(&self, key: &str) {
        *self.hanging_renewal.lock().unwrap() = Some(key.to_owned());
    }

    /// This key lies on a shard of its own; all others are on the one of number 0.
    pub(super) fn put_on_shard(&self, key: &str, shard: u32) {
        *self.elsewhere.lock().unwrap() = Some((key.to_owned(), shard));
    }

    pub(super) fn set_downgrades(&self, downgrades: Downgrades) {
        *self.downgrades.lock().unwrap() = downgrades;
    }

    pub(super) fn hang_releases(&self, hang: bool) {
        self.hanging_releases.store(hang, Ordering::SeqCst);
    }
}

impl LockStore for Faulty {
    fn acquire(&self, attempt: Attempt) -> BoxFuture<'_, Result<Arc<Ownership>, LockError>> {
        self.acquires.fetch_add(1, Ordering::SeqCst);
        self.store.acquire(attempt)
    }

    fn release<'a>(&'a self, ownership: &'a Arc<Ownership>) -> BoxFuture<'a, Result<Released, LockError>> {
        if self.hanging_releases.load(Ordering::SeqCst) { pending().boxed() } else { self.store.release(ownership) }
    }

    fn release_detached(&self, ownership: Arc<Ownership>) {
        self.store.release_detached(ownership);
    }

    fn renew<'a>(&'a self, ownerships: &'a [Arc<Ownership>]) -> BoxFuture<'a, Result<(), LockError>> {
        self.renewals.lock().unwrap().push(ownerships.iter().map(|ownership| ownership.key.to_string()).collect());
        let hanging = self.hanging_renewal.lock().unwrap().clone();
        if ownerships.iter().any(|ownership| Some(ownership.key.as_str()) == hanging.as_deref()) {
            return pending().boxed();
        }
        let failing =
            self.failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
        if failing {
            let error = LockError::Unavailable { reason: Unavailable::Timeout, retry_after: Duration::from_secs(1) };
            return async { Err(error) }.boxed();
        }
        self.store.renew(ownerships)
    }

    fn shard(&self, key: &Key) -> u32 {
        let elsewhere = self.elsewhere.lock().unwrap();
        elsewhere.as_ref().filter(|(name, _)| name == key.as_str()).map_or(0, |(_, shard)| *shard)
    }

    fn downgrade<'a>(&'a self, ownership: &'a Arc<Ownership>) -> BoxFuture<'a, Result<(), LockError>> {
        let downgrades = *self.downgrades.lock().unwrap();
        async move {
            ownership.set_mode(Mode::Read);
            self.store.downgrade(ownership).await?;
            match downgrades {
                Downgrades::Answered => Ok(()),
                Downgrades::Hang => pending().await,
                Downgrades::Unanswered => {
                    let retry_after = Duration::from_secs(1);
                    Err(LockError::Unavailable { reason: Unavailable::Timeout, retry_after })
                }
            }
        }
        .boxed()
    }

    fn hand_over(&self, ownership: &Ownership) -> Result<Handed, LockError> {
        self.store.hand_over(ownership)
    }

    fn adopt<'a>(&'a self, handed: &'a Handed) -> BoxFuture<'a, Result<Arc<Ownership>, LockError>> {
        self.store.adopt(handed)
    }

    fn seed<'a>(&'a self, key: &'a Key, token: Token) -> BoxFuture<'a, Result<(), LockError>> {
        self.store.seed(key, token)
    }

    fn force<'a>(&'a self, key: &'a Key, force: Force) -> BoxFuture<'a, Result<Forced, LockError>> {
        self.store.force(key, force)
    }

    fn inspect<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Inspection, LockError>> {
        self.store.inspect(key)
    }

    fn list(&self, limit: usize) -> BoxFuture<'_, Result<Vec<String>, LockError>> {
        self.store.list(limit)
    }

    fn shutdown(&self, limit: Duration) -> BoxFuture<'_, ()> {
        self.store.shutdown(limit)
    }
}
