use std::{
    collections::{HashMap, hash_map::Entry as Slot},
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use tokio::runtime::Handle;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    Inside,
    delegation::Delegation,
    joined::{Joined, Waiter, Waiting},
    policy::Policy,
};
use crate::{
    lock::renewal::Renewals,
    metrics::{self, Gauge, Times},
    resource::Key,
    store::{Attempt, LockError, LockStore, Ownership, Recall},
};

/// Each shard has a lock of its own, so that readers of different resources seldom contend.
const SHARDS: usize = 64;
/// The tag of every delegation, shown by `Locks::inspect`.
const TAG: &str = "delegation";

/// The delegations of one [`Locks`](crate::Locks) by resource: those that are live and those that are being acquired. A
/// recalled delegation is not in this table any more, and ends by itself.
pub(in crate::lock) struct Delegations {
    pub(super) store: Arc<dyn LockStore>,
    pub(super) closing: CancellationToken,
    renewals: Arc<Renewals>,
    pub(super) tasks: TaskTracker,
    /// The runtime of the store.
    pub(super) home: Handle,
    settings: Settings,
    policy: Policy,
    shards: [Mutex<HashMap<Key, Entry>>; SHARDS],
    entries: AtomicUsize,
    closed: AtomicBool,
}

#[derive(Clone, Copy, Debug)]
pub(in crate::lock) struct Settings {
    /// The longest lease of a delegation.
    pub(in crate::lock) lease: Duration,
    /// The most delegations at a time.
    pub(in crate::lock) most: usize,
}

#[derive(Debug)]
enum Entry {
    /// An attempt under way, with the lease it asks for.
    Asked(Arc<Joined>, Duration),
    Granted(Arc<Delegation>),
}

/// How a reader gets the resource.
#[derive(Debug)]
pub(super) enum Way {
    Inside(Inside),
    /// With other readers, by an attempt under way.
    Together(Waiting),
    /// By an attempt that the reader begins, and that others may join.
    First(Waiting, Arc<Joined>, Attempt),
    /// By an attempt of the reader's own.
    Alone,
}

impl Delegations {
    pub(in crate::lock) fn new(
        store: &Arc<dyn LockStore>,
        renewals: &Arc<Renewals>,
        closing: &CancellationToken,
        tasks: &TaskTracker,
        home: &Handle,
        settings: Settings,
    ) -> Self {
        Self {
            store: Arc::clone(store),
            closing: closing.clone(),
            renewals: Arc::clone(renewals),
            tasks: tasks.clone(),
            home: home.clone(),
            settings,
            policy: Policy::default(),
            shards: std::array::from_fn(|_| Mutex::default()),
            entries: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
        }
    }

    fn shard(&self, key: &Key) -> MutexGuard<'_, HashMap<Key, Entry>> {
        let shard = &self.shards[usize::from(key.bucket().index()) % SHARDS];
        shard.lock()
    }

    /// Enters a live delegation, if the reader's lease is not shorter than that of the delegation. So a writer waits
    /// for a dead reader no longer than the reader's own lease would make it wait.
    pub(in crate::lock) fn enter(&self, key: &Key, lease: Duration, max_hold: Option<Duration>) -> Option<Inside> {
        match self.shard(key).get(key) {
            Some(Entry::Granted(delegation)) if delegation.ownership.lease <= lease => delegation.enter(max_hold),
            _ => None,
        }
    }

    /// Whether readers can enter without asking the store.
    pub(in crate::lock) fn is_live(&self, key: &Key) -> bool {
        let shard = self.shard(key);
        let Some(Entry::Granted(delegation)) = shard.get(key) else { return false };
        delegation.readers.recalled().is_none() && delegation.ownership.loss().is_none()
    }

    /// How a reader that found no live delegation gets the resource. A reader with a wait of zero never joins others.
    pub(super) fn way(&self, attempt: &Attempt, max_hold: Option<Duration>) -> Result<Way, LockError> {
        let key = &attempt.key;
        let mut shard = self.shard(key);
        match shard.get(key) {
            Some(Entry::Granted(delegation)) if delegation.ownership.lease > attempt.lease => return Ok(Way::Alone),
            Some(Entry::Asked(_, lease)) if *lease > attempt.lease => return Ok(Way::Alone),
            Some(Entry::Granted(delegation)) => {
                if let Some(inside) = delegation.enter(max_hold) {
                    return Ok(Way::Inside(inside));
                }
                self.remove(&mut shard, key);
            }
            Some(Entry::Asked(..)) if attempt.wait.is_zero() => return Ok(Way::Alone),
            Some(Entry::Asked(joined, _)) => return joined.join(attempt, max_hold).map(Way::Together),
            None => {}
        }
        let delegated = self.policy.read(key) && !attempt.wait.is_zero();
        if !delegated
            || self.entries.load(Ordering::Acquire) >= self.settings.most
            || self.closed.load(Ordering::Acquire)
        {
            return Ok(Way::Alone);
        }
        let lease = attempt.lease.min(self.settings.lease);
        let joined = Arc::<Joined>::default();
        let waiting = joined.join(attempt, max_hold)?;
        shard.insert(key.clone(), Entry::Asked(Arc::clone(&joined), lease));
        self.entries.fetch_add(1, Ordering::AcqRel);
        drop(shard);
        let attempt = Attempt { lease, tag: TAG.into(), yields: Some(Arc::clone(&joined.readers)), ..attempt.clone() };
        Ok(Way::First(waiting, joined, attempt))
    }

    /// Recalls the delegation of a resource, because this process is about to ask for the resource exclusively.
    pub(in crate::lock) fn recall(&self, key: &Key) {
        let delegation = match self.shard(key).get(key) {
            Some(Entry::Granted(delegation)) => Arc::clone(delegation),
            _ => return,
        };
        delegation.recall(Recall::Local);
        self.forget(&delegation);
    }

    /// Recalls all delegations, and begins no more.
    pub(in crate::lock) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        for shard in &self.shards {
            let shard = shard.lock();
            let granted = shard.values().filter_map(|entry| match entry {
                Entry::Granted(delegation) => Some(Arc::clone(delegation)),
                Entry::Asked(..) => None,
            });
            let granted: Vec<_> = granted.collect();
            drop(shard);
            for delegation in granted {
                delegation.recall(Recall::Shutdown);
                self.forget(&delegation);
            }
        }
    }

    /// Withdraws an attempt and returns its readers, if it is `over`: no reader joins between the question and the end.
    pub(super) fn give_up(
        &self,
        key: &Key,
        joined: &Arc<Joined>,
        over: impl FnOnce(&Joined) -> bool,
    ) -> Option<Vec<Waiter>> {
        let mut shard = self.shard(key);
        over(joined).then(|| {
            self.withdraw(&mut shard, key, joined);
            joined.take()
        })
    }

    fn withdraw(&self, shard: &mut HashMap<Key, Entry>, key: &Key, joined: &Arc<Joined>) {
        if matches!(shard.get(key), Some(Entry::Asked(asked, _)) if Arc::ptr_eq(asked, joined)) {
            shard.remove(key);
            self.entries.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Takes over a grant: the readers that waited are inside, and others may enter, unless it was recalled meanwhile.
    pub(super) fn granted(&self, joined: &Arc<Joined>, ownership: Arc<Ownership>) -> Arc<Delegation> {
        let (key, readers) = (ownership.key.clone(), Arc::clone(&joined.readers));
        if let Some(handed_off) = ownership.handed_off {
            Times::of(metrics::LOCK_HANDOFF, &[("lock", key.label().clone())]).observe(handed_off);
        }
        let delegation = Arc::new(Delegation::new(&self.store, &self.renewals, ownership, readers));
        let mut shard = self.shard(&key);
        let waiters = joined.take();
        let inside = delegation.admit(waiters.iter().map(|waiter| waiter.max_hold));
        // A shutdown recalls only what it finds granted.
        if waiters.is_empty() || self.closed.load(Ordering::Acquire) {
            delegation.readers.recall(Recall::Once);
        }
        if delegation.readers.recalled() == Some(Recall::Once) {
            self.withdraw(&mut shard, &key, joined);
        } else if let Slot::Occupied(mut entry) = shard.entry(key)
            && matches!(entry.get(), Entry::Asked(asked, _) if Arc::ptr_eq(asked, joined))
        {
            Gauge::of(metrics::LOCK_DELEGATIONS, &[("lock", entry.key().label().clone())]).add(1.0);
            entry.insert(Entry::Granted(Arc::clone(&delegation)));
        }
        drop(shard);
        waiters.into_iter().zip(inside).for_each(|(waiter, inside)| waiter.answer(Ok(inside)));
        delegation
    }

    /// Removes a recalled delegation, so that another one may begin.
    pub(super) fn forget(&self, delegation: &Arc<Delegation>) {
        let key = &delegation.ownership.key;
        let mut shard = self.shard(key);
        if matches!(shard.get(key), Some(Entry::Granted(granted)) if Arc::ptr_eq(granted, delegation)) {
            self.remove(&mut shard, key);
        }
    }

    /// Removes a delegation that was recalled, or whose lease has ended.
    fn remove(&self, shard: &mut HashMap<Key, Entry>, key: &Key) {
        let Some(Entry::Granted(delegation)) = shard.remove(key) else { return };
        self.entries.fetch_sub(1, Ordering::AcqRel);
        if let Some(reason) = delegation.ownership.loss() {
            // Lost by the local clock. The renewal task may not have noticed yet.
            delegation.ownership.lose(reason);
        }
        let reason = delegation.readers.recalled().unwrap_or(Recall::Lost);
        // A delegation that nobody used any more kept nobody waiting.
        if reason != Recall::Unused {
            self.policy.recalled(key, delegation.readers.entered());
        }
        let lock = || ("lock", key.label().clone());
        Gauge::of(metrics::LOCK_DELEGATIONS, &[lock()]).add(-1.0);
        if let Some(reason) = reason.label() {
            metrics::count(metrics::LOCK_DELEGATION_RECALLS, &[lock(), metrics::tag("reason", reason)]);
        }
    }
}

impl fmt::Debug for Delegations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delegations").field("entries", &self.entries).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Locks, lock::Mode};

    #[tokio::test]
    async fn a_grant_that_comes_while_the_table_closes_lets_nobody_else_in() {
        let locks = Locks::memory();
        let (store, renewals) = (&locks.shared.store, &locks.shared.renewals);
        let settings = Settings { lease: Duration::from_secs(2), most: 1 };
        let delegations = Delegations::new(
            store,
            renewals,
            &CancellationToken::new(),
            &TaskTracker::new(),
            &Handle::current(),
            settings,
        );
        let key = Key::new("stock", "1").unwrap();
        let lease = Duration::from_secs(10);
        let attempt = Attempt {
            key: key.clone(),
            mode: Mode::Read,
            permits: 0,
            lease,
            wait: lease,
            max_waiters: 9,
            tag: TAG.into(),
            yields: None,
        };
        // Reads of one resource are worth a delegation after the first.
        let first = (0..9).find_map(|_| match delegations.way(&attempt, None).unwrap() {
            Way::First(waiting, joined, attempt) => Some((waiting, joined, attempt)),
            _ => None,
        });
        let (_waiting, joined, attempt) = first.unwrap();
        let ownership = delegations.store.acquire(attempt).await.unwrap();
        delegations.close();
        let delegation = delegations.granted(&joined, ownership);
        assert!(delegations.enter(&key, lease, None).is_none());
        assert_eq!(delegation.readers.recalled(), Some(Recall::Once));
        delegation.end();
    }
}
