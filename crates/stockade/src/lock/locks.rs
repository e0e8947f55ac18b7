use std::{sync::Arc, time::Duration};

use super::{held_lock::HeldLock, shared::Shared};
use crate::{
    lock::{Force, Forced, Guard, Handover, Inspection, LockError, LockName, LockRequest, Mode, MultiRequest},
    resource::{Key, KeyError, Resource},
};

/// The entrance: a handle to one lock store. Cheap to clone.
///
/// Call [`Locks::shutdown`] at the end of the program: a guard that is merely dropped then keeps its lock until the
/// lease is over. Keep at least one worker of the runtime free of blocking code, since the renewal of leases runs
/// there.
#[derive(Clone, Debug)]
pub struct Locks {
    shared: Arc<Shared>,
}

impl Locks {
    /// Exclusive.
    pub fn write<R: Resource + ?Sized>(&self, resource: &R) -> LockRequest {
        self.request(Key::of(resource), Mode::Write)
    }

    /// Shared with other readers. A writer that waits is not overtaken: a second, independent read by one who already
    /// reads waits behind that writer, which waits for the first. Use [`Guard::reenter`](super::Guard::reenter) there.
    pub fn read<R: Resource + ?Sized>(&self, resource: &R) -> LockRequest {
        self.request(Key::of(resource), Mode::Read)
    }

    /// Exclusive on all of these, or on none: from 1 to [`MultiRequest::MOST`] resources of one type. One that is named
    /// twice is held once.
    ///
    /// They are asked for in one order everywhere, whatever the order here, so two callers that name the same resources
    /// in opposite orders do not wait for each other. That holds among resources of one call: who already holds one
    /// lock and asks for another, or for a set that contains it, can still wait in a circle until the wait ends.
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

    /// One of `permits` permits, 1 to 65,535: at most so many hold one at a time, over the whole fleet.
    ///
    /// Each permit has a lease of its own, renewed as that of a lock: a holder that dies gives its permit back with the
    /// end of its lease, and to nobody's cost but that. Permits are handed on first come, first served, and a resource
    /// that is also locked for reading or writing is one queue: permits, readers and writers exclude each other.
    ///
    /// All who use a semaphore name the same number; another is refused as [`LockError::Capacity`] while anybody holds
    /// a permit or waits for one. A permit can't claim the fence, since others hold theirs beside it.
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
    pub fn semaphore<R: Resource + ?Sized>(&self, resource: &R, permits: u32) -> LockRequest {
        self.request(Key::of(resource), Mode::Permit).permits(permits)
    }

    /// Goes on with the ownership that [`Guard::hand_over`](super::Guard::hand_over) gave away, in this process or
    /// another: the same token, the same identity at the fence, and a lease that begins anew.
    ///
    /// A handover is adopted once. Dropping the future leaves nothing behind: what was adopted by then is released,
    /// what was not ends with its lease.
    ///
    /// # Errors
    ///
    /// [`LockError::HandoverVoid`] when it was adopted before, or is lost; [`LockError::Unavailable`], after which it
    /// is released if it was adopted; [`LockError::Unsupported`]; [`LockError::ShuttingDown`].
    pub async fn adopt(&self, handover: Handover) -> Result<Guard, LockError> {
        // Taken before the look at `closing`, so that a shutdown waits for every guard that it did not refuse.
        let counted = self.shared.guards.token();
        let ownership = tokio::select! {
            biased;
            () = self.shared.closing.cancelled() => return Err(LockError::ShuttingDown),
            adopted = self.shared.store.adopt(&handover.handed) => adopted?,
        };
        Ok(Guard::new(HeldLock::new(Arc::clone(&self.shared), ownership, handover.hold_left, counted)))
    }

    /// A request for an encoded key: for layers that made the key themselves.
    pub(super) fn sharing(shared: Shared) -> Self {
        Self { shared: Arc::new(shared) }
    }

    pub(crate) fn request(&self, key: Result<Key, KeyError>, mode: Mode) -> LockRequest {
        LockRequest::new(Arc::clone(&self.shared), key, mode)
    }

    /// Whether the store's breaker refuses this key at once; the time after which it lets an attempt through. It is not
    /// asked by a reader that need not ask the store.
    #[cfg(feature = "axum")]
    pub(crate) fn refusing(&self, key: &Key, mode: Mode) -> Option<Duration> {
        let delegations = self.shared.delegations.as_ref().filter(|_| mode == Mode::Read);
        let is_live = || delegations.is_some_and(|delegations| delegations.is_live(key));
        self.shared.store.refusing(key).filter(|_| !is_live())
    }

    /// Whether locks can't be had now, as far as is known without asking: the store, or one of its servers, is not
    /// connected, or failed so often that it is spared for a while.
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

    /// Where work under a guard runs that outlives whoever asked for it; a shutdown waits for it.
    #[cfg(feature = "axum")]
    pub(crate) fn tasks(&self) -> &tokio_util::task::TaskTracker {
        &self.shared.tasks
    }

    /// Resolves when a shutdown begins.
    #[cfg(feature = "axum")]
    pub(crate) async fn closing(&self) {
        self.shared.closing.cancelled().await;
    }

    /// The encoded keys that are held or waited for over the whole fleet, at most `limit`.
    ///
    /// # Errors
    ///
    /// [`LockError::Unavailable`].
    pub async fn list(&self, limit: usize) -> Result<Vec<String>, LockError> {
        self.shared.store.list(limit).await
    }

    /// Holders and queue of one lock, with tags, ages and places, over the whole fleet: of a resource, or of an encoded
    /// key as text. Changes nothing.
    ///
    /// # Errors
    ///
    /// [`LockError::Key`], [`LockError::Unavailable`], [`LockError::Foreign`].
    pub async fn inspect(&self, lock: impl Into<LockName>) -> Result<Inspection, LockError> {
        let key = lock.into().key()?;
        self.shared.store.inspect(&key).await
    }

    /// Takes one lock from its holders, who are told so as [`LossReason::Forced`](super::LossReason::Forced), and
    /// serves the queue. Of a resource, or of an encoded key as text. What another program put under the keys of the
    /// lock is overwritten.
    ///
    /// A holder that is not stopped by being told may still write. Claim the fence with the returned token, which is
    /// above all before it (`postgres::claim_forced`, or `Fence::CLAIM_SQL` on another driver): whatever transaction
    /// the old holder begins afterwards is then refused, and the next holder is above the claim.
    ///
    /// # Errors
    ///
    /// [`LockError::Key`], [`LockError::Unavailable`].
    pub async fn force_release(&self, lock: impl Into<LockName>, force: Force) -> Result<Forced, LockError> {
        let key = lock.into().key()?;
        self.shared.store.force(&key, force).await
    }

    /// No new grants, and an end of all waits, with [`LockError::ShuttingDown`]; then waits up to `limit` for guards to
    /// go, whose leases are renewed meanwhile; then releases what is left, whose guards are told so, and ends all
    /// tasks.
    pub async fn shutdown(&self, limit: Duration) {
        self.shared.shutdown(limit).await;
    }
}
