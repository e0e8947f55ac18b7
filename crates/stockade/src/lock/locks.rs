use std::{sync::Arc, time::Duration};

use super::{held_lock::HeldLock, shared::Shared};
use crate::{
    lock::{Force, Forced, Guard, Handover, Inspection, LockError, LockName, LockRequest, Mode, MultiRequest},
    resource::{Key, KeyError, Resource},
};

/// A handle to one lock store: every lock is asked for here. Cheap to clone.
///
/// Call [`Locks::shutdown`] at the end of the program. Without it, a guard that is dropped while the program ends keeps
/// its lock until the lease is over. Keep at least one worker of the runtime free of blocking code: the renewal of
/// leases runs there.
#[derive(Clone, Debug)]
pub struct Locks {
    pub(super) shared: Arc<Shared>,
}

impl Locks {
    /// An exclusive lock. It is not reentrant: a second acquire of the resource, also in the same task, waits for the
    /// first. Use [`Guard::reenter`](super::Guard::reenter), or on a route the handler's [`Fence`](crate::Fence).
    #[doc(alias = "lock")]
    #[doc(alias = "mutex")]
    pub fn write<R: Resource + ?Sized>(&self, resource: &R) -> LockRequest {
        self.request(Key::of(resource), Mode::Write)
    }

    /// A lock that is shared with other readers.
    ///
    /// A reader never overtakes a waiting writer. So do not ask for a second, independent read lock while you hold one:
    /// the second waits behind the writer, and the writer waits for the first. Use
    /// [`Guard::reenter`](super::Guard::reenter) instead.
    pub fn read<R: Resource + ?Sized>(&self, resource: &R) -> LockRequest {
        self.request(Key::of(resource), Mode::Read)
    }

    /// An exclusive lock on all of these resources, or on none: from 1 to [`MultiRequest::MAX`] resources of one type.
    /// A resource that is named twice is locked once.
    ///
    /// The locks are acquired in one global order, whatever the order here. Two callers that name the same resources in
    /// opposite orders therefore never wait for each other in a circle: one is served after the other.
    ///
    /// The order protects only the resources of one call. A caller that already holds a lock and asks for another lock,
    /// or for a set, can still be part of a circle of waits until its wait ends.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use stockade::{Locks, Resource};
    /// # struct Account(u32);
    /// # impl Resource for Account {
    /// #     const KIND: &'static str = "account";
    /// #     fn id(&self) -> std::borrow::Cow<'_, str> { self.0.to_string().into() }
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::memory();
    /// let (from, to) = (Account(7), Account(3));
    /// let held = locks.write_all([&from, &to]).wait(Duration::from_secs(1)).tag("transfer").acquire().await?;
    /// assert!(locks.write(&to).try_acquire().await?.is_none());
    /// assert_eq!(held.fence_of(&from).map(|fence| fence.token()), held.tokens().next());
    /// held.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn write_all<'a, R>(&self, resources: impl IntoIterator<Item = &'a R>) -> MultiRequest
    where
        R: Resource + ?Sized + 'a,
    {
        MultiRequest::new(Arc::clone(&self.shared), resources.into_iter().map(Key::of))
    }

    /// [`Locks::write_all`] for resources of different types, by their keys.
    ///
    /// ```
    /// # use stockade::{Locks, Resource, resource::Key};
    /// # struct Sku(&'static str);
    /// # impl Resource for Sku {
    /// #     const KIND: &'static str = "stock";
    /// #     fn id(&self) -> std::borrow::Cow<'_, str> { self.0.into() }
    /// # }
    /// # struct Order(&'static str);
    /// # impl Resource for Order {
    /// #     const KIND: &'static str = "order";
    /// #     fn id(&self) -> std::borrow::Cow<'_, str> { self.0.into() }
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::memory();
    /// let (sku, order) = (Sku("85123A"), Order("536365"));
    /// let held = locks.write_keys([Key::of(&sku)?, Key::of(&order)?]).acquire().await?;
    /// assert!(held.fence_of(&order).is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn write_keys(&self, keys: impl IntoIterator<Item = Key>) -> MultiRequest {
        MultiRequest::new(Arc::clone(&self.shared), keys.into_iter().map(Ok))
    }

    /// One of `permits` permits, 1 to 65,535: over the whole fleet, at most `permits` holders have one at the same
    /// time.
    ///
    /// Each permit has its own lease, which is renewed like the lease of a lock. When a holder dies, its permit is free
    /// again at the end of that lease; the other permits are not affected. Permits are granted first come, first
    /// served. Permits, readers and writers of one resource share one queue and exclude each other.
    ///
    /// All users of a semaphore must give the same number. While anybody holds a permit or waits for one, a request
    /// with another number is refused as [`LockError::Capacity`]. To change the number while both versions of a program
    /// run, change the resource with it, for instance its kind. A permit cannot claim the fence, because other
    /// holders have permits at the same time.
    ///
    /// ```
    /// # use stockade::{Locks, Resource};
    /// # struct Supplier(&'static str);
    /// # impl Resource for Supplier {
    /// #     const KIND: &'static str = "supplier";
    /// #     fn id(&self) -> std::borrow::Cow<'_, str> { self.0.into() }
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), stockade::LockError> {
    /// let locks = Locks::memory();
    /// let first = locks.semaphore(&Supplier("acme"), 2).acquire().await?;
    /// let second = locks.semaphore(&Supplier("acme"), 2).acquire().await?;
    /// assert!(locks.semaphore(&Supplier("acme"), 2).try_acquire().await?.is_none());
    /// first.release().await?;
    /// assert!(locks.semaphore(&Supplier("acme"), 2).try_acquire().await?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "permits")]
    pub fn semaphore<R: Resource + ?Sized>(&self, resource: &R, permits: u32) -> LockRequest {
        self.request(Key::of(resource), Mode::Permit).permits(permits)
    }

    /// Takes over the ownership that [`Guard::hand_over`](super::Guard::hand_over) gave away, in this process or
    /// another. The guard has a token of its own, higher than the old one, and its lease starts in full.
    ///
    /// A handover can be adopted once. If a failover forgets the adoption, and somebody adopts it again, the fence
    /// refuses the first one. Dropping the future leaves nothing behind: if the ownership was already adopted
    /// it is released, otherwise it ends with its lease.
    ///
    /// # Errors
    ///
    /// - [`LockError::HandoverVoid`] when the handover was adopted before, or the ownership is lost.
    /// - [`LockError::Foreign`] when another program overwrote a key of the lock.
    /// - [`LockError::Unavailable`] when the store did not answer. If the ownership was adopted, it is released.
    /// - [`LockError::Unsupported`].
    /// - [`LockError::ShuttingDown`].
    pub async fn adopt(&self, handover: Handover) -> Result<Guard, LockError> {
        // Taken before the look at `closing`, so that a shutdown waits for every guard that it did not refuse.
        let counted = self.shared.guards.token();
        let ownership = tokio::select! {
            biased;
            () = self.shared.closing.cancelled() => return Err(LockError::ShuttingDown),
            adopted = self.shared.store.adopt(&handover.handed) => adopted?,
        };
        if let Some(observer) = &self.shared.series.of(ownership.key.label(), ownership.mode()).observer {
            ownership.granted(observer, Duration::ZERO);
        }
        Ok(Guard::new(HeldLock::new(Arc::clone(&self.shared), ownership, handover.hold_left, counted)))
    }

    /// A request for an encoded key: for layers that made the key themselves.
    pub(crate) fn request(&self, key: Result<Key, KeyError>, mode: Mode) -> LockRequest {
        LockRequest::new(Arc::clone(&self.shared), key, mode)
    }

    /// How long the store's breaker still refuses this key; `None` if it lets an attempt through. The breaker is not
    /// asked for a reader that can enter a live delegation, because that reader sends nothing.
    #[cfg(feature = "axum")]
    pub(crate) fn refusing(&self, key: &Key, mode: Mode) -> Option<Duration> {
        let delegations = self.shared.delegations.as_ref().filter(|_| mode == Mode::Read);
        let is_live = || delegations.is_some_and(|delegations| delegations.is_live(key));
        self.shared.store.refusing(key).filter(|_| !is_live())
    }

    /// Whether locks are unavailable now, judged without asking the store: the store, or one of its servers, is not
    /// connected, or failed so often that its circuit breaker is open. A quorum is unavailable if too few of its
    /// servers are connected.
    #[must_use]
    pub fn is_degraded(&self) -> bool {
        !self.shared.store.is_up()
    }

    /// What [`LocksBuilder::extension`](super::LocksBuilder::extension) was given.
    #[cfg(feature = "axum")]
    pub(crate) fn extension<T: Clone + Send + Sync + 'static>(&self) -> Option<&T> {
        self.shared.extensions.get()
    }

    /// Shows the counters of locks with this label as zero before the first attempt.
    #[cfg(feature = "axum")]
    pub(crate) fn announce(label: &crate::resource::Label) {
        super::outcome::announce(label);
    }

    /// Runs work under a guard that may outlive its caller. A shutdown waits for this work.
    #[cfg(feature = "axum")]
    pub(crate) fn tasks(&self) -> &tokio_util::task::TaskTracker {
        &self.shared.tasks
    }

    /// A shutdown waits for the work that keeps this, as for a guard. `None` once a shutdown has begun.
    #[cfg(feature = "axum")]
    pub(crate) fn working(&self) -> Option<tokio_util::task::task_tracker::TaskTrackerToken> {
        // Taken before the look: a shutdown that begins in between sees it.
        let working = self.shared.guards.token();
        (!self.shared.closing.is_cancelled()).then_some(working)
    }

    /// Resolves when a shutdown has reached its limit and takes away the locks that are left.
    #[cfg(feature = "axum")]
    pub(crate) async fn taken_away(&self) {
        self.shared.taken_away.cancelled().await;
    }

    /// The encoded keys of all locks that are held or waited for over the whole fleet, at most `limit` of them. Looks
    /// at ten million keys of each server at most. Changes nothing.
    ///
    /// # Errors
    ///
    /// [`LockError::Unavailable`], and [`LockError::Unsupported`] on a quorum whose keys have names of the
    /// application's own: there is no prefix to look for.
    pub async fn list(&self, limit: usize) -> Result<Vec<String>, LockError> {
        self.shared.store.list(limit).await
    }

    /// The holders and the queue of one lock over the whole fleet, with tags, ages and places. The lock is named by its
    /// resource, or by its encoded key as text. Changes nothing.
    ///
    /// # Errors
    ///
    /// [`LockError::Key`], [`LockError::Unavailable`], [`LockError::Foreign`].
    pub async fn inspect(&self, lock: impl Into<LockName>) -> Result<Inspection, LockError> {
        let key = lock.into().0?;
        self.shared.store.inspect(&key).await
    }

    /// Takes one lock from its holders and serves the queue. With [`Force::Now`] the holders are told of the loss as
    /// [`LossReason::Forced`](super::LossReason::Forced). With [`Force::AfterLeases`] shared holders on Redis lose
    /// their leases as [`LossReason::Expired`](super::LossReason::Expired). The lock is named by its resource, or by
    /// its encoded key as text. Data that another program stored under the keys of the lock is overwritten.
    ///
    /// A holder may go on writing although it was told. To stop it, claim the fence with the returned token, which is
    /// higher than all tokens before it: use `postgres::claim_forced`, or `Fence::CLAIM_SQL` on another driver. The
    /// database then refuses every transaction that the old holder begins after the claim. The token of the next holder
    /// is higher. If that holder has claimed before, the claim is above it, too, and refuses its later transactions.
    ///
    /// After an error, or if the future is dropped, the lock may have been taken: look with [`Locks::inspect`]. A
    /// second call would take it from the next holder.
    ///
    /// # Errors
    ///
    /// [`LockError::Key`], [`LockError::Unavailable`].
    pub async fn force_release(&self, lock: impl Into<LockName>, force: Force) -> Result<Forced, LockError> {
        let key = lock.into().0?;
        self.shared.store.force(&key, force).await
    }

    /// Shuts the locks down in three steps:
    ///
    /// - It grants nothing more, and ends all waits with [`LockError::ShuttingDown`].
    /// - It waits up to `limit` until all guards are gone. Their leases are renewed meanwhile.
    /// - It releases the locks that are left, tells their guards ([`LossReason::Forced`](super::LossReason::Forced)),
    ///   and ends all tasks.
    ///
    /// If the future is dropped, nothing more is granted, and the rest is not done: call it again.
    pub async fn shutdown(&self, limit: Duration) {
        self.shared.shutdown(limit).await;
    }
}
