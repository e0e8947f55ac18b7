//! Locks as users hold them: requests, guards, fences, renewal and the signal of loss.
//!
//! ```
//! # use std::{borrow::Cow, time::Duration};
//! # use stockade::{Locks, Resource};
//! # struct Sku(&'static str);
//! # impl Resource for Sku {
//! #     const KIND: &'static str = "stock";
//! #     fn id(&self) -> Cow<'_, str> { self.0.into() }
//! # }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), stockade::LockError> {
//! # let locks = Locks::memory();
//! let guard = locks.write(&Sku("85123A")).wait(Duration::from_secs(2)).acquire().await?;
//! assert!(guard.is_held()); // the lease is renewed while the guard lives; `guard.lost()` tells of its end
//! guard.release().await?; // dropping the guard releases in the background
//! # Ok(())
//! # }
//! ```
//!
//! | you want | take |
//! |---|---|
//! | one holder at a time, or many readers | [`Locks::write`], [`Locks::read`] |
//! | n holders at a time | [`Locks::semaphore`] |
//! | several resources, all or none | [`Locks::write_all`] |
//! | work that is cancelled when its lock is lost | [`LockRequest::run`] |
//! | not to wait | [`LockRequest::try_acquire`] |
//! | to go on as a reader | [`Guard::downgrade`] |
//! | to go on in another process | [`Guard::hand_over`], [`Locks::adopt`] |
//! | writes that no stale holder can make | [`Guard::fence`], and `Fence::begin` (feature `postgres`) |
//! | to see locks, and to take one away | [`Locks::list`], [`Locks::inspect`], [`Locks::force_release`] |
//!
//! # Renewal
//!
//! Leases are renewed at a third of their length, on a grid. The buckets form groups of eight: the renewals of one
//! group come together, and those of different groups are spread over the whole period. Outside a cluster up to 100
//! locks of all buckets share a script. In a cluster the locks of one bucket do. A batch goes to one shard only, and
//! each confirmation counts as it comes: a shard or a script that does not answer costs no other lock.
//!
//! One gate decides about the commits of all locks that a request runs under, and about all commits that its handler
//! makes in its own task. Closing the gate and starting a commit exclude each other, so an answer "not applied" is
//! never followed by a commit of the same request.
//!
//! # Redlock
//!
//! With the feature `redlock`, `LocksBuilder::redlock` makes locks on several independent servers. They survive the
//! loss of a minority of the servers without a failover. They have no shared mode, no queue and no hand-off, and cost
//! every server two commands per lock. After a forced release, the former holder learns of it only at its next renewal.
//!
//! Several servers do not make a lock safe: a process that is stopped, a server whose clock steps, and a majority that
//! restarts empty still lead to two owners. As with all other locks, use the [fence](Fence) for data that must not be
//! lost. Use one Redis unless you must go on without a failover when a server is lost.

mod builder;
mod delegations;
mod fence;
mod guard;
mod handover;
mod held_lock;
mod locks;
mod multi;
mod name;
mod outcome;
#[cfg(feature = "redlock")]
mod redlock;
mod renewal;
mod request;
mod run_error;
mod series;
mod shared;
mod terms;
#[cfg(test)]
mod tests;

pub use builder::LocksBuilder;
pub use fence::Fence;
#[cfg(feature = "axum")]
pub(crate) use fence::handling;
#[cfg(feature = "postgres")]
pub(crate) use fence::{handled, handler_commits};
pub use guard::{Guard, GuardError};
pub use handover::{Handover, HandoverTextError};
pub use locks::Locks;
#[cfg(feature = "postgres")]
pub(crate) use multi::order;
pub use multi::{MultiFence, MultiGuard, MultiRequest};
pub use name::LockName;
#[cfg(feature = "redlock")]
pub use redlock::{RedlockBuilder, RedlockError};
pub use request::LockRequest;
pub use run_error::RunError;
pub(crate) use terms::lease_at_start;
#[cfg(feature = "axum")]
pub(crate) use terms::permits_at_start;

pub use crate::store::{
    Force, Forced, Inspection, LockError, LockEvent, LockEventKind, LossReason, Misplaced, Mode, Party, Released,
    Token, Unavailable,
};
