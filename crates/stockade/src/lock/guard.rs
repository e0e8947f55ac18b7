use std::{fmt, sync::Arc, time::Duration};

use super::held_lock::HeldLock;
use crate::{
    lock::{Fence, Handover, LockError, LossReason, Mode, Released, Token},
    resource::Key,
};

/// Ownership of a resource. The owner is this value, never the thread or the task that has it.
///
/// While the guard lives, the lease is renewed at a third of its length. Dropping the guard releases the lock in the
/// background, also outside of a runtime; [`Guard::release`] reports what happened. If one of its futures that take the
/// guard is dropped, at any point, the lock is still released.
///
/// A guard that is dropped while the program ends keeps its lock until the lease is over, because the release in the
/// background is no longer sent. End with [`Guard::release`], or with [`Locks::shutdown`](crate::Locks::shutdown).
///
/// Renewals are tasks of the runtime. Code that blocks all workers for longer than the lease loses the lock; run such
/// code with `tokio::task::spawn_blocking`.
#[must_use = "dropping the guard releases the lock"]
pub struct Guard {
    held: Arc<HeldLock>,
}

impl Guard {
    pub(super) fn new(held: HeldLock) -> Self {
        Self { held: Arc::new(held) }
    }

    /// The fencing side of this ownership. It does not keep the lock.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.held.fence().clone()
    }

    /// The locked resource.
    #[must_use]
    pub fn key(&self) -> &Key {
        self.held.fence().key()
    }

    /// Whether the resource is held for reading, for writing or as a permit.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.held.fence().mode()
    }

    /// The fencing token: the same for every guard of this ownership.
    #[must_use]
    pub fn token(&self) -> Token {
        self.held.fence().token()
    }

    /// Whether the holder may still believe in its lease, by the local clock and without asking the store.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.loss().is_none()
    }

    /// Why the ownership ended, if it did; judged as by [`Guard::is_held`].
    #[must_use]
    pub fn loss(&self) -> Option<LossReason> {
        self.held.fence().loss()
    }

    /// Resolves when the ownership is lost: told by the store, or at the local end of the lease. Cancel safe.
    pub async fn lost(&self) -> LossReason {
        self.held.fence().lost().await
    }

    /// The time for which the holder may still believe in its lease; zero when lost. Renewal moves it forward.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.held.fence().remaining()
    }

    /// Another guard of the same ownership, with the same token. Nothing is sent. The lock is released with the last of
    /// these guards.
    pub fn reenter(&self) -> Self {
        Self { held: Arc::clone(&self.held) }
    }

    /// Turns the exclusive lock into a shared one with the same token. The readers at the head of the queue enter at
    /// once; a writer does not.
    ///
    /// Use it to read a change again, undisturbed, after it was made. The lease starts again in full and is renewed as
    /// before. A guard that already reads only has its lease renewed.
    ///
    /// The fence cannot claim any more, and neither can clones that were made before. Commit first: a transaction that
    /// was begun under the lock and has not committed is refused its commit.
    ///
    /// The downgrade is refused while a commit of `postgres::Tx` under the lock is unanswered, and for good if such a
    /// commit was never answered. Otherwise readers would enter and could see the state from before that commit.
    ///
    /// A release does not wait for that commit, and lets the readers in. If that matters, begin another transaction
    /// under this guard before the release: its claim waits until the first transaction is over, or says that it is
    /// busy. Only commits of `Tx` are known here, not commits by other means.
    ///
    /// Dropping the future releases the lock, whether or not it was already downgraded.
    ///
    /// ```
    /// # use stockade::{Locks, Resource, lock::Mode};
    /// # struct Sku(&'static str);
    /// # impl Resource for Sku {
    /// #     const KIND: &'static str = "stock";
    /// #     fn id(&self) -> std::borrow::Cow<'_, str> { self.0.into() }
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let locks = Locks::memory();
    /// let writer = locks.write(&Sku("85123A")).acquire().await?;
    /// let token = writer.token();
    /// let reader = writer.downgrade().await?;
    /// assert_eq!((reader.mode(), reader.token()), (Mode::Read, token));
    /// assert!(locks.read(&Sku("85123A")).try_acquire().await?.is_some());
    /// assert!(locks.write(&Sku("85123A")).try_acquire().await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`GuardError`], which gives the guard back:
    ///
    /// - [`LockError::Lost`] when the lock is lost, [`LockError::Foreign`] when another program overwrote a key of it.
    /// - [`LockError::Unavailable`] when the store did not answer. The guard may be downgraded again. It counts as a
    ///   reader, because others may read by then. Only if the command was surely not executed is the guard still a
    ///   writer; [`Guard::mode`] tells.
    /// - [`LockError::Committing`] while a transaction of another task commits under the lock, or after a commit that
    ///   was never answered. The guard is unchanged.
    /// - [`LockError::Unsupported`] while another guard of this ownership lives, for a permit, and where the store has
    ///   no shared mode. The guard is unchanged.
    pub async fn downgrade(self) -> Result<Self, GuardError> {
        let mut held = match Arc::try_unwrap(self.held) {
            Ok(held) => held,
            Err(held) => return Err(Self { held }.reentered("downgrade")),
        };
        match held.downgrade().await {
            Ok(()) => Ok(Self::new(held)),
            Err(error) => Err(GuardError { guard: Self::new(held), error }),
        }
    }

    /// Always refuses to turn a reader into a writer. A guard that is already exclusive is reentered.
    ///
    /// Two readers that both waited to write would wait for each other until their waits end: a writer enters when all
    /// readers are gone, and neither reader leaves. So release, acquire for writing, and read again what may have
    /// changed in between. Or acquire for writing at once, and [downgrade](Guard::downgrade) when the writing is done.
    ///
    /// # Errors
    ///
    /// [`LockError::Unsupported`], without asking the store.
    pub fn upgrade(&self) -> Result<Self, LockError> {
        let store = match self.mode() {
            Mode::Write => return Ok(self.reenter()),
            Mode::Read => "shared",
            Mode::Permit => "semaphore",
        };
        let instead = "release this one, acquire the lock for writing, and read again";
        Err(LockError::Unsupported { store, operation: "upgrade", instead })
    }

    /// Gives the ownership to another process. This process stops renewing the lease and cannot claim the fence any
    /// more.
    ///
    /// The lock stays held. It ends with its lease unless [`Locks::adopt`](super::Locks::adopt) takes it over, with a
    /// higher token. The rest of [`max_hold`](super::LockRequest::max_hold) goes along.
    ///
    /// Commit first: a transaction that was begun here and has not committed is refused its commit, as after a
    /// downgrade. While that transaction runs it keeps the fence row locked, and the other process waits for its end.
    ///
    /// ```
    /// # use stockade::{Locks, Resource, lock::Handover};
    /// # struct Import(&'static str);
    /// # impl Resource for Import {
    /// #     const KIND: &'static str = "import";
    /// #     fn id(&self) -> std::borrow::Cow<'_, str> { self.0.into() }
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::memory();
    /// let guard = locks.write(&Import("2010-12")).acquire().await?;
    /// let token = guard.token();
    /// // A bearer secret: who has the text has the lock.
    /// let text = guard.hand_over()?.to_text();
    ///
    /// // In the other process:
    /// let guard = locks.adopt(Handover::from_text(&text)?).await?;
    /// assert!(guard.token() > token);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`GuardError`], which gives the guard back unchanged:
    ///
    /// - [`LockError::Lost`] when the lock is lost.
    /// - [`LockError::Unsupported`] while another guard of this ownership lives, for a reader of a
    ///   [delegation](super::LockRequest::delegate), and where the store cannot hand over.
    /// - [`LockError::Unavailable`] for a moment after a connection was lost, while a stray command may still arrive.
    ///   Also after a downgrade without an answer, until a downgrade has succeeded.
    /// - [`LockError::Committing`] for an exclusive lock while a commit of `postgres::Tx` under it is unanswered, or
    ///   after a commit that was never answered: the process that adopts the lock could [downgrade](Guard::downgrade)
    ///   it meanwhile.
    pub fn hand_over(self) -> Result<Handover, GuardError> {
        let mut held = match Arc::try_unwrap(self.held) {
            Ok(held) => held,
            Err(held) => return Err(Self { held }.reentered("handing over")),
        };
        held.hand_over().map_err(|error| GuardError { guard: Self::new(held), error })
    }

    fn reentered(self, operation: &'static str) -> GuardError {
        let instead = "release the other guards of this ownership first";
        GuardError { guard: self, error: LockError::Unsupported { store: "reentered", operation, instead } }
    }

    /// Releases and reports what the store found.
    ///
    /// Returns [`Released::StillHeld`] when another guard of the same ownership lives. If the returned future is
    /// dropped, or ends with an error, the release is repeated in the background for a while.
    ///
    /// # Errors
    ///
    /// [`LockError::Unavailable`] when the store did not answer, and [`LockError::Foreign`] when another program
    /// overwrote the queue of the lock or its tokens. The lock then ends with its lease at the latest. If the state
    /// itself was overwritten, the lock is [`Released::Lost`].
    #[doc(alias = "unlock")]
    pub async fn release(self) -> Result<Released, LockError> {
        match Arc::into_inner(self.held) {
            Some(held) => held.release().await,
            None => Ok(Released::StillHeld),
        }
    }
}

/// Shows its fence, which has all that can be said of it.
impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Guard").field(self.held.fence()).finish()
    }
}

/// An operation on a guard failed. The error gives the guard back; dropping the error releases the lock.
#[derive(Debug, thiserror::Error)]
#[error("the guard could not be downgraded or handed over")]
#[non_exhaustive]
pub struct GuardError {
    /// The guard.
    pub guard: Guard,
    /// Why it could not be done.
    #[source]
    pub error: LockError,
}
