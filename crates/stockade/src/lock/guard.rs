use std::{sync::Arc, time::Duration};

use super::held_lock::HeldLock;
use crate::{
    lock::{Fence, Handover, LockError, LossReason, Mode, Released, Token},
    resource::Key,
};

/// Ownership of a resource: the value is the owner, never the thread or task that has it.
///
/// While it lives the lease is renewed at a third of its length. Dropping it releases in the background, also outside
/// of a runtime; [`Guard::release`] reports what happened. Dropping any of its futures at any point still releases.
///
/// A guard that is dropped while the program ends keeps its lock until the lease is over: the release in the background
/// is not sent any more. End with [`Guard::release`], or with [`Locks::shutdown`](crate::Locks::shutdown).
///
/// Renewals are tasks of the runtime. Code that blocks all of its workers for longer than the lease loses the lock; run
/// it with `tokio::task::spawn_blocking`.
#[derive(Debug)]
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

    /// How it is held.
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

    /// Another guard of the same ownership with the same token; nothing is sent. The lock goes with the last of them.
    pub fn reenter(&self) -> Self {
        Self { held: Arc::clone(&self.held) }
    }

    /// Goes on as a reader, with the same token: the readers at the head of the queue enter at once, a writer does not.
    ///
    /// For a change that is to be read again undisturbed after it was made. The lease begins anew, and is renewed as
    /// before. The fence can't claim any more, also where it was cloned before; a transaction that was begun under it
    /// and has not committed is refused its commit, so commit first. A guard that reads already is renewed, no more.
    ///
    /// While a commit of `postgres::Tx` under it is unanswered, and for good after one that never was, it is refused:
    /// readers would enter who may see what is from before that commit. A release does not wait for it, and lets them
    /// in all the same. Where that matters, begin another transaction under this guard before the release: its claim
    /// waits until the other one is over, or says that it is busy. Commits on other ways than `Tx` are not known here.
    ///
    /// Dropping the future releases the lock, whether or not it was downgraded by then.
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
    /// [`GuardError`], which has the guard: with [`LockError::Lost`] when the lock is lost; [`LockError::Unavailable`]
    /// when the store did not answer, after which the guard may be downgraded again, and counts as a reader, since
    /// others may read by then, unless the command was surely not executed: then it is the writer that it was
    /// ([`Guard::mode`] tells); [`LockError::Committing`] while a transaction of another task commits under it, or
    /// after one whose commit was never answered; [`LockError::Unsupported`] while another guard of this ownership
    /// lives, for a permit, and where the store has no shared mode. After the last two the guard is as it was.
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

    /// Refuses: nobody becomes a writer while he reads. A guard that is exclusive already is reentered.
    ///
    /// Two readers that both wait to write would wait for each other, each until its wait ends: the writer's turn comes
    /// when all readers are gone, and neither goes. So release, acquire for writing, and read again what may have
    /// changed in between; or acquire for writing at once and [downgrade](Guard::downgrade) when the writing is done.
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

    /// Gives the ownership to another process: this one stops renewing it and can't claim the fence any more.
    ///
    /// The lock is held all the while, and ends with its lease unless [`Locks::adopt`](super::Locks::adopt) goes on
    /// with it. The token and the identity at the fence go along, so what was claimed here can be claimed there again;
    /// a transaction that was begun here and still runs keeps the fence row locked, and the other process waits for its
    /// end. That transaction is refused its commit, as after a downgrade: commit first. What is left of
    /// [`max_hold`](super::LockRequest::max_hold) goes along, too.
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
    /// assert_eq!(guard.token(), token);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`GuardError`], which has the guard as it was: with [`LockError::Lost`] when the lock is lost;
    /// [`LockError::Unsupported`] while another guard of this ownership lives, and where the store can't hand over;
    /// [`LockError::Unavailable`] for a moment after a connection was lost, while a stray command may still arrive, and
    /// after a downgrade without an answer, until one has succeeded; [`LockError::Committing`] for an exclusive lock
    /// while a commit of `postgres::Tx` under it is unanswered, or after one that never was: who adopts it
    /// could [downgrade](Guard::downgrade) it meanwhile.
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
    /// [`Released::StillHeld`] when another guard of the same ownership lives. Dropping the returned future, or an
    /// error, leaves the release to the background, where it is repeated for a while.
    ///
    /// # Errors
    ///
    /// [`LockError::Unavailable`] when the store did not answer; at the latest the lock ends with its lease.
    pub async fn release(self) -> Result<Released, LockError> {
        match Arc::into_inner(self.held) {
            Some(held) => held.release().await,
            None => Ok(Released::StillHeld),
        }
    }

    /// Sends the release without waiting for its outcome: dropping, under a name. At the end of a program use
    /// [`Guard::release`] instead, since a runtime that stops may not send it any more.
    pub fn release_detached(self) {
        drop(self);
    }
}

/// Something could not be done with a guard, which is given back: dropping this releases the lock.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
#[non_exhaustive]
pub struct GuardError {
    /// The guard.
    pub guard: Guard,
    /// Why it could not be done.
    #[source]
    pub error: LockError,
}
