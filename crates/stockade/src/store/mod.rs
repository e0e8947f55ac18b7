//! Where lock state lives.
//!
//! A [`LockStore`] decides who holds a resource, in which order waiters get it and which token an ownership carries.
//! The store also owns the client side of waiting. When [`LockStore::acquire`] returns, the ownership is confirmed and
//! has a local deadline. When its future is dropped, the store itself undoes what the attempt left behind. The schedule
//! of renewals, the guards and the public API belong to [`lock`](crate::lock).

mod commits;
#[cfg(test)]
pub(crate) mod conformance;
mod error;
mod event;
mod floors;
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
pub(crate) use event::Observer;
pub use event::{LockEvent, LockEventKind};
pub(crate) use handed::Handed;
pub use loss_reason::LossReason;
pub(crate) use memory::MemoryStore;
pub use mode::Mode;
pub(crate) use owner::Owner;
pub(crate) use ownership::Ownership;
pub(crate) use readers::{Readers, Recall};
pub(crate) use redis::RedisStore;
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
    /// How many may hold the resource together in [`Mode::Permit`]. Ignored in the other modes.
    pub(crate) permits: u32,
    pub(crate) lease: Duration,
    /// How long to queue. Zero means to try once, [`Duration::MAX`] means to wait without limit.
    pub(crate) wait: Duration,
    /// How many attempts may wait for this key before another one is refused.
    pub(crate) max_waiters: u32,
    /// Names the holder to administrators: at most 64 bytes, no control characters (checked by the request builder).
    pub(crate) tag: Arc<str>,
    /// The readers of this process that are to share the ownership. The store recalls the ownership when others want
    /// the resource.
    pub(crate) yields: Option<Arc<Readers>>,
}

/// What a release found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Released {
    /// The resource was ours. It is now free, or handed to the next waiter.
    Released,
    /// The resource was no longer ours.
    Lost,
    /// The first release got no answer, and the second one found no lock of ours. The first one released the lock, or
    /// the lock was lost before.
    Unknown,
    /// Another guard of the same ownership lives. The lock is released with the last guard.
    StillHeld,
}

/// Whether a forced release waits for shared holders: readers, or holders of permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Force {
    /// Every holder is cut off at once.
    Now,
    /// The exclusive holder is cut off at once. Shared holders keep the rest of their leases, which are no longer
    /// renewed.
    AfterLeases,
}

/// What a forced release did.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Forced {
    /// How many holders the release cut off, or keeps from renewing their leases.
    pub holders: u64,
    /// A token above all tokens that the resource has seen. Claim the fence with it.
    pub token: Token,
}

/// A holder or waiter, as administrators see it. The owner id is a bearer secret and is not shown.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Party {
    /// How the party holds or wants the resource.
    pub mode: Mode,
    /// The tag given by the request. Empty on a quorum, which keeps none.
    pub tag: String,
    /// The fencing token, for holders.
    pub token: Option<Token>,
    /// For holders the time since the grant, for waiters the time since they took their place, by the clock of the
    /// store. If that clock was set back, a holder from before is shown younger than it is. `None` where the store
    /// keeps no time.
    pub age: Option<Duration>,
    /// The time left on the lease for holders, the time left to wait for waiters. For a wait without limit, Redis has
    /// at most a minute, which is renewed.
    pub remaining: Duration,
    /// The place in the queue, from 1, for waiters.
    pub position: Option<u64>,
}

/// A lock as administrators see it.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Inspection {
    /// The holders.
    pub holders: Vec<Party>,
    /// The first 100 waiters, in grant order.
    pub waiters: Vec<Party>,
    /// How many waiters there are.
    pub waiting: u64,
}

/// A store of lock state. There is one in memory, one on Redis and one on a quorum of Redis servers. The first two pass
/// the whole conformance suite, the third one the part that needs no queue.
pub(crate) trait LockStore: fmt::Debug + Send + Sync + 'static {
    /// Queues for the resource and returns once the resource is owned, with an ownership that is confirmed and still
    /// valid.
    ///
    /// Dropping the future at any point leaves no queue entry and no grant behind: the store undoes the attempt on a
    /// task of its own.
    fn acquire(&self, attempt: Attempt) -> BoxFuture<'_, Result<Arc<Ownership>, LockError>>;

    /// Acquires all of these resources exclusively in one step. The step changes nothing unless all of them are free:
    /// not held, and nobody waits. Returns `None` when they are not all free, or when the store has no such step for
    /// them. The caller then asks for them one by one.
    ///
    /// The resources must differ from each other. The waits of the attempts are ignored. Dropping the future leaves
    /// nothing behind, as with [`LockStore::acquire`].
    fn try_all<'a>(
        &'a self,
        _attempts: &'a [Attempt],
    ) -> BoxFuture<'a, Result<Option<Vec<Arc<Ownership>>>, LockError>> {
        Box::pin(async { Ok(None) })
    }

    /// Releases the resource. If the reply is lost, the store repeats the release within the command timeout. After an
    /// error the store goes on repeating the release in the background. Dropping the future may leave the resource
    /// held.
    fn release<'a>(&'a self, ownership: &'a Arc<Ownership>) -> BoxFuture<'a, Result<Released, LockError>>;

    /// Does the same as [`LockStore::release`] on a task of the store, for `Drop` and for answers that must not wait.
    fn release_detached(&self, ownership: Arc<Ownership>);

    /// Extends each lease to its full length from now. The deadline of each ownership moves as soon as its renewal is
    /// confirmed. Ownerships that the store no longer has are marked lost.
    ///
    /// If the future is dropped, the renewals that were confirmed by then count.
    fn renew<'a>(&'a self, ownerships: &'a [Arc<Ownership>]) -> BoxFuture<'a, Result<(), LockError>>;

    /// Makes an exclusive ownership shared, and serves the readers at the head of the queue. The token stays the same
    /// and the lease starts again. An ownership that is already shared is renewed.
    ///
    /// If an error leaves open whether the downgrade was done, the ownership counts as shared, because others may read.
    /// A lost ownership is marked as lost. Dropping the future gives nothing back. A release that follows reaches the
    /// store after the downgrade.
    fn downgrade<'a>(&'a self, _ownership: &'a Arc<Ownership>) -> BoxFuture<'a, Result<(), LockError>> {
        let instead = "keep the lock or release it: there are no shared ones";
        Box::pin(async move { Err(LockError::Unsupported { store: "these", operation: "downgrade", instead }) })
    }

    /// Returns what another process needs to take over this ownership. The Redis store then drops its own record of the
    /// ownership. The memory store only copies.
    fn hand_over(&self, _ownership: &Ownership) -> Result<Handed, LockError> {
        let instead = "release the lock and acquire it in the other process";
        Err(LockError::Unsupported { store: "these", operation: "handing over", instead })
    }

    /// Takes over an ownership of another process, with a higher token and a new lease.
    ///
    /// Dropping the future leaves nothing behind, even if the store has already adopted the ownership.
    fn adopt<'a>(&'a self, _handed: &'a Handed) -> BoxFuture<'a, Result<Arc<Ownership>, LockError>> {
        let instead = "acquire the lock";
        Box::pin(async move { Err(LockError::Unsupported { store: "these", operation: "handing over", instead }) })
    }

    /// Raises the token floor of the resource's bucket to `token`.
    fn seed<'a>(&'a self, key: &'a Key, token: Token) -> BoxFuture<'a, Result<(), LockError>>;

    /// Takes the resource from its holders.
    fn force<'a>(&'a self, key: &'a Key, force: Force) -> BoxFuture<'a, Result<Forced, LockError>>;

    /// Returns the holders and the queue of one resource. Changes nothing.
    fn inspect<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Inspection, LockError>>;

    /// The encoded keys that any process of the fleet holds or waits for, at most `limit` of them.
    fn list(&self, limit: usize) -> BoxFuture<'_, Result<Vec<String>, LockError>>;

    /// A number that differs for keys of different servers, whose renewals must not wait for one another. It is only a
    /// hint, since a key may move to another server.
    fn shard(&self, _key: &Key) -> u32 {
        0
    }

    /// The time until the store lets an attempt for this key through again. `None` unless the store currently refuses
    /// all of them immediately.
    fn refusing(&self, _key: &Key) -> Option<Duration> {
        None
    }

    /// Whether the store recalls a shared ownership whose attempt [yields](Attempt::yields).
    fn delegates(&self) -> bool {
        false
    }

    /// Whether locks can be acquired, as far as the store knows without asking: every server is connected and answers.
    fn is_up(&self) -> bool {
        true
    }

    /// Refuses new attempts, then waits up to `limit` for compensations and detached releases.
    fn shutdown(&self, limit: Duration) -> BoxFuture<'_, ()>;
}
