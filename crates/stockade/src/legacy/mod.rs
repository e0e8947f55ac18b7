//! The classic lock on `SETNX` and `GETSET`, to share locks with old systems that use it.
//!
//! Use [`Locks`](crate::Locks) unless an old system leaves no choice; "What it can't do" below says why.
//!
//! The lock is one string key. Its value is the Unix time after which the lock counts as expired.
//!
//! - `SETNX key <now + lease + 1>` takes the lock if the key does not exist.
//! - If the key exists, `GET` says whether its time is over. While it is not, the client tries again after a pause.
//! - If the time is over, a script sets `<now + lease + 1>` if the key still holds the expired time: the client holds the
//!   lock. Otherwise it was too late and tries again. (With `DEL` and `SETNX` instead, two clients could succeed: the
//!   second `DEL` removes the lock that the first `SETNX` took. Old systems use `GETSET` here, where the loser of the
//!   race moves the winner's time.)
//! - The holder deletes the key, unless its own time is over: then the key may be another client's.
//! - An attempt runs until its answer on a task of the locks. Only a command without an answer leaves its key behind,
//!   until the time in it is over. Such a key can't be deleted safely by its value: another client may have written the
//!   same time in whole seconds. For the same reason a release whose answer was lost is not repeated.
//!
//! ```no_run
//! use std::time::Duration;
//! use stockade::{Redis, legacy::SetnxLocks};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let redis = Redis::connect("redis://127.0.0.1:6379").await?;
//! let locks = SetnxLocks::new(&redis)?;
//! let guard = locks.lock("lock.report").lease(Duration::from_secs(30)).wait(Duration::from_secs(5)).acquire().await?;
//! // Nothing renews the lock: check before each step that must not be done twice.
//! if guard.is_held() {
//!     // …
//! }
//! guard.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # What it can't do
//!
//! - **It relies on the clocks of all clients.** A client whose clock is ahead by more than a lease takes the lock from
//!   its holder. The guard ends by the earlier of its wall clock and its monotonic clock. This protects only against
//!   steps of its own clock.
//! - **No fencing token.** If a holder was stopped past its lease and writes then, nothing refuses the write. Make such
//!   writes safe in another way.
//! - **No renewal.** The work must end within the lease. [`SetnxGuard::remaining`] says how much is left.
//! - **No order.** A waiter asks again every 25 to 100 ms. The first waiter that asks after the release is next.
//! - **An old client that loses the race for an expired lock moves its time.** Its `GETSET` has written a time of its
//!   own. With one lease for all clients of a key, that time is later by about as much as the loser was late; if the
//!   winner dies, the next waiter waits that much longer. With a shorter lease it ends the winner's lock early. So give
//!   a lock that old clients share the lease that they use.
//! - **A command without an answer is not undone.** If the command took the lock, the lock stays until its time is
//!   over, as if its holder had crashed. An attempt that was answered is released, even if its future was dropped.
//! - **The key of a dead holder stays** in Redis, without an expiry, until somebody takes the lock over.
//! - **No cluster.** It works on one server, or on a group under sentinels. There a failover can lose the key, and the
//!   lock with it.
//!
//! # Together with an old system
//!
//! Both sides must use the same key and the same [`Unit`], and their clocks must agree to well within a lease. A value
//! that is not a time in this unit is refused and left alone. Times with a fraction are read, as Python's and Ruby's
//! clients write them. This module writes times without a fraction. It releases with a script that deletes only the
//! holder's own time, or a time that an old client has moved. An old system may release with a plain `DEL`, and
//! nothing here can protect a lock against that.
//!
//! # Migrating to `Locks`
//!
//! 1. Move all clients of the lock to this module, where possible.
//! 2. In every such client, also take the lock of [`Locks`](crate::Locks), after the classic one.
//! 3. Once every client takes both locks, remove the classic one.

mod attempt;
mod core;
mod error;
mod guard;
mod lock;
mod locks;
mod stamp;
#[cfg(test)]
mod tests;

pub use error::SetnxError;
pub use guard::SetnxGuard;
pub use lock::SetnxLock;
pub use locks::SetnxLocks;
pub use stamp::Unit;
