//! Where lock state lives.
//!
//! A [`LockStore`] decides who holds a resource, in which order waiters get it and what token an ownership carries. It
//! also owns the client side of waiting: when [`LockStore::acquire`] returns, the ownership is confirmed and has a
//! local deadline; when its future is dropped, the store itself sees to the compensation. When leases are renewed,
//! guards and the public API belong to [`lock`](crate::lock).

#[cfg(test)]
pub(crate) mod conformance;
mod error;
mod handed;
mod loss_reason;
mod memory;
mod mode;
mod owner;
mod ownership;
mod readers;
mod redis;
#[cfg(feature = "redlock")]
mod redlock;
mod token;

pub use error::{LockError, Misplaced, Unavailable};
pub(crate) use handed::Handed;
pub use loss_reason::LossReason;
pub(crate) use memory::MemoryStore;
pub use mode::Mode;
pub(crate) use owner::Owner;
pub(crate) use ownership::Ownership;
pub(crate) use readers::{Readers, Recall};
pub(crate) use redis::{Options as RedisOptions, RedisStore};
#[cfg(feature = "redlock")]
pub(crate) use redlock::{KeyFormat, RedlockStore, Settings as RedlockSettings};
pub use token::Token;

use std::{fmt, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;

use crate::resource::Key;

/// One attempt to own a resource.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) key: Key,
    pub(crate) mode: Mode,
    /// How many may hold it together in [`Mode::Permit`]; without meaning in the other modes.
    pub(crate) permits: u32,
    pub(crate) lease: Duration,
    /// How long to queue; zero means try once, [`Duration::MAX`] without limit.
    pub(crate) wait: Duration,
    /// How many may wait for this key before an attempt is refused.
    pub(crate) max_waiters: u32,
    /// Who holds it, for people who look: at most 64 bytes, no control characters (checked by the request builder).
    pub(crate) tag: Arc<str>,
    /// The readers of this process that are to share it: the store recalls it when others want the resource.
    pub(crate) yields: Option<Arc<Readers>>,
}

/// What a release found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Released {
    /// The resource was ours and is free, or handed to the next waiter.
    Released,
    /// It was no longer ours.
    Lost,
    /// The store did not answer the first time and no longer knows us: it was released then, or lost.
    Unknown,
    /// Another guard of the same ownership lives: the lock goes with the last one.
    StillHeld,
}

/// Whether a forced release waits for shared holders: readers, or holders of permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Force {
    /// Every holder is cut off at once.
    Now,
    /// The exclusive holder is cut off; shared holders run out their leases, which are no longer renewed.
    AfterLeases,
}

/// What a forced release did.
#[derive(Clone, Debug)]
pub struct Forced {
    /// How many holders it cut off, or keeps from renewing their leases.
    pub holders: u64,
    /// A token above all that the resource has seen; claim the fence with it.
    pub token: Token,
}

/// A holder or waiter, as administrators see it. The owner id is a bearer secret and is not shown.
#[derive(Clone, Debug)]
pub struct Party {
    /// How it holds or wants the resource.
    pub mode: Mode,
    /// The tag given by the request.
    pub tag: String,
    /// Its fencing token, for holders.
    pub token: Option<Token>,
    /// For holders the time since the grant, for waiters since they took their place. By the clock of the store; a
    /// holder that got its lock before that clock was set back is shown younger than it is. `None` where the store
    /// keeps no time.
    pub age: Option<Duration>,
    /// For holders the time left on the lease, for waiters the time left to wait.
    pub remaining: Duration,
    /// The place in the queue, from 1, for waiters.
    pub position: Option<u64>,
}

/// A lock as administrators see it.
#[derive(Clone, Debug, Default)]
pub struct Inspection {
    /// Who holds it.
    pub holders: Vec<Party>,
    /// Who waits, in grant order; the first 100.
    pub waiters: Vec<Party>,
    /// How many wait.
    pub waiting: u64,
}

/// The home of lock state. Implemented in memory, on Redis and on a quorum of Redis servers, under one conformance
/// suite.
pub(crate) trait LockStore: fmt::Debug + Send + Sync + 'static {
    /// Queues for the resource and returns once it is owned, confirmed and still valid.
    ///
    /// Dropping the future at any point leaves no queue entry and no grant behind: the store compensates on a task of
    /// its own.
    fn acquire(&self, attempt: Attempt) -> BoxFuture<'_, Result<Arc<Ownership>, LockError>>;

    /// Owns all of these resources exclusively, in one step that changes nothing unless all of them are free: not held,
    /// and nobody waits. `None` when they are not, or when the store has no such step for them; they are then asked for
    /// one by one.
    ///
    /// The resources differ from each other; the waits are not looked at. Dropping the future leaves nothing behind, as
    /// with [`LockStore::acquire`].
    fn try_all<'a>(
        &'a self,
        _attempts: &'a [Attempt],
    ) -> BoxFuture<'a, Result<Option<Vec<Arc<Ownership>>>, LockError>> {
        Box::pin(async { Ok(None) })
    }

    /// Gives the resource back; repeats while the reply is lost, within the command time-out, and from an error on in
    /// the background. A future that is dropped may leave the resource held.
    fn release<'a>(&'a self, ownership: &'a Arc<Ownership>) -> BoxFuture<'a, Result<Released, LockError>>;

    /// [`LockStore::release`] on a task of the store: for `Drop` and for answers that must not wait.
    fn release_detached(&self, ownership: Arc<Ownership>);

    /// Extends each lease by its length from now: moves the deadline of each as it is confirmed, marks the others lost.
    ///
    /// What was confirmed by then counts when the future is dropped.
    fn renew<'a>(&'a self, ownerships: &'a [Arc<Ownership>]) -> BoxFuture<'a, Result<(), LockError>>;

    /// Makes an exclusive ownership shared, with the same token and a lease that begins anew, and serves the readers at
    /// the head of the queue. One that is shared already is renewed.
    ///
    /// After an error that leaves open whether it was done, the ownership counts as shared: others may read. One that
    /// is lost is marked so. Nothing is given back when the future is dropped; a release that follows comes after it.
    fn downgrade<'a>(&'a self, _ownership: &'a Arc<Ownership>) -> BoxFuture<'a, Result<(), LockError>> {
        let instead = "release the lock and acquire it for reading";
        Box::pin(async move { Err(LockError::Unsupported { store: "these", operation: "downgrade", instead }) })
    }

    /// What another process needs to go on with this ownership. The store knows it no more as one of this process.
    fn hand_over(&self, _ownership: &Ownership) -> Result<Handed, LockError> {
        let instead = "release the lock and acquire it in the other process";
        Err(LockError::Unsupported { store: "these", operation: "handing over", instead })
    }

    /// Goes on with an ownership of another process, which has its token and a lease that begins anew.
    ///
    /// Dropping the future leaves nothing behind, be it adopted by then.
    fn adopt<'a>(&'a self, _handed: &'a Handed) -> BoxFuture<'a, Result<Arc<Ownership>, LockError>> {
        let instead = "acquire the lock";
        Box::pin(async move { Err(LockError::Unsupported { store: "these", operation: "handing over", instead }) })
    }

    /// Raises the token floor of the resource's bucket to `token`.
    fn seed<'a>(&'a self, key: &'a Key, token: Token) -> BoxFuture<'a, Result<(), LockError>>;

    /// Takes the resource from its holders.
    fn force<'a>(&'a self, key: &'a Key, force: Force) -> BoxFuture<'a, Result<Forced, LockError>>;

    /// Holders and queue of one resource; changes nothing.
    fn inspect<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Inspection, LockError>>;

    /// The encoded keys that are held or waited for, at most `limit`, over the whole fleet.
    fn list(&self, limit: usize) -> BoxFuture<'_, Result<Vec<String>, LockError>>;

    /// Tells keys apart whose renewals must not wait for one another: those of different servers. A hint, since a key
    /// may move.
    fn shard(&self, _key: &Key) -> u32 {
        0
    }

    /// The time until the store lets an attempt for this key through again, while it refuses all of them at once.
    fn refusing(&self, _key: &Key) -> Option<Duration> {
        None
    }

    /// Whether it recalls a shared ownership of one who [yields](Attempt::yields).
    fn delegates(&self) -> bool {
        false
    }

    /// Whether locks can be had, as far as is known without asking: every server is connected and answers.
    fn is_up(&self) -> bool {
        true
    }

    /// Refuses new attempts, then waits up to `limit` for compensations and detached releases.
    fn shutdown(&self, limit: Duration) -> BoxFuture<'_, ()>;
}
