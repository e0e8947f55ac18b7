use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::future::BoxFuture;

use super::{alarm::Shared, attempts::Entered, lock::Asker, waiting::Waiting};
use crate::{
    clock::Instant,
    process_id::process_id,
    resource::Key,
    store::{Attempt, Force, Forced, Handed, Inspection, LockError, LockStore, Owner, Ownership, Released, Token},
};

/// The lock store of one process. It answers at once, so only [`LockStore::acquire`] ever waits.
#[derive(Debug)]
pub(crate) struct MemoryStore {
    shared: Arc<Shared>,
    /// The part of every owner id that differs between stores. Fences compare owner ids, so it must be unique.
    process: String,
    attempts: AtomicU64,
}

impl MemoryStore {
    pub(crate) fn new() -> Self {
        let process = process_id();
        Self { shared: Arc::new(Shared::new()), process, attempts: AtomicU64::new(0) }
    }

    fn asker(&self) -> Asker {
        let number = self.attempts.fetch_add(1, Ordering::Relaxed);
        Asker { owner: Owner::of(&self.process, number), number }
    }
}

impl LockStore for MemoryStore {
    fn acquire(&self, attempt: Attempt) -> BoxFuture<'_, Result<Arc<Ownership>, LockError>> {
        Box::pin(async move {
            let since = Instant::now();
            let asker = self.asker();
            match self.shared.change(|table, now| table.enter(now, &asker, &attempt))? {
                Entered::Held(ownership) => Ok(ownership),
                Entered::Queued(place) => {
                    let (shared, attempt) = (&self.shared, &attempt);
                    Waiting { shared, asker, attempt, place, since, settled: false }.granted().await
                }
            }
        })
    }

    fn try_all<'a>(&'a self, attempts: &'a [Attempt]) -> BoxFuture<'a, Result<Option<Vec<Arc<Ownership>>>, LockError>> {
        Box::pin(async move {
            let askers: Vec<Asker> = attempts.iter().map(|_| self.asker()).collect();
            self.shared.change(|table, now| table.enter_all(now, &askers, attempts))
        })
    }

    fn release<'a>(&'a self, ownership: &'a Arc<Ownership>) -> BoxFuture<'a, Result<Released, LockError>> {
        Box::pin(async move {
            let held = self.shared.change(|table, now| table.release(now, &ownership.key, &ownership.owner, None));
            Ok(if held { Released::Released } else { Released::Lost })
        })
    }

    fn release_detached(&self, ownership: Arc<Ownership>) {
        self.shared.change(|table, now| table.release(now, &ownership.key, &ownership.owner, None));
    }

    fn renew<'a>(&'a self, ownerships: &'a [Arc<Ownership>]) -> BoxFuture<'a, Result<(), LockError>> {
        Box::pin(async move {
            self.shared.change(|table, now| ownerships.iter().for_each(|ownership| table.renew(now, ownership)));
            Ok(())
        })
    }

    fn downgrade<'a>(&'a self, ownership: &'a Arc<Ownership>) -> BoxFuture<'a, Result<(), LockError>> {
        Box::pin(async move {
            let downgraded = self.shared.change(|table, now| table.downgrade(now, ownership));
            downgraded.map_err(|reason| LockError::Lost { key: ownership.key.clone(), reason })
        })
    }

    fn hand_over(&self, ownership: &Ownership) -> Result<Handed, LockError> {
        Ok(Handed::of(ownership))
    }

    fn adopt<'a>(&'a self, handed: &'a Handed) -> BoxFuture<'a, Result<Arc<Ownership>, LockError>> {
        let asker = self.asker();
        Box::pin(async move { self.shared.change(|table, now| table.adopt(now, &asker, handed)) })
    }

    fn seed<'a>(&'a self, key: &'a Key, token: Token) -> BoxFuture<'a, Result<(), LockError>> {
        Box::pin(async move {
            self.shared.change(|table, _| table.floors.note(key, token.get()));
            Ok(())
        })
    }

    fn force<'a>(&'a self, key: &'a Key, force: Force) -> BoxFuture<'a, Result<Forced, LockError>> {
        Box::pin(async move { self.shared.change(|table, now| table.force(now, key, force)) })
    }

    fn inspect<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Inspection, LockError>> {
        Box::pin(async move { Ok(self.shared.change(|table, now| table.inspect(now, key))) })
    }

    fn list(&self, limit: usize) -> BoxFuture<'_, Result<Vec<String>, LockError>> {
        Box::pin(async move { Ok(self.shared.change(|table, _| table.list(limit))) })
    }

    fn shutdown(&self, limit: Duration) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.shared.change(|table, _| table.close());
            self.shared.tasks.close();
            self.shared.rearm.notify_one();
            // Past the limit only a holder that never released is left; its lease ends the timer task.
            let _ = tokio::time::timeout(limit, self.shared.tasks.wait()).await;
        })
    }
}

impl Drop for MemoryStore {
    fn drop(&mut self) {
        self.shared.rearm.notify_one();
    }
}
