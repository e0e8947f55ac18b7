//! The classic lock on `SETNX` and `GETSET`, to live beside systems that use it, and to see what it lacks.
//!
//! The lock is one string key: the Unix time after which it counts as expired.
//!
//! - `SETNX key <now + lease + 1>` takes it, if there is none.
//! - Where there is one, `GET` tells whether its time is over. While it is not, one tries again after a pause.
//! - Of those who find it expired, `GETSET key <now + lease + 1>` lets one through: who gets the expired time back
//!   holds the lock, who gets a later one was too late and tries again. (`DEL` and `SETNX` in its place let two
//!   through: the second `DEL` removes what the first `SETNX` took.)
//! - The holder deletes the key, unless its own time is over: it may be another's by then.
//! - Nothing is undone by value: a time in whole seconds may be another client's. An attempt runs to its answer on a
//!   task of the locks, so only a command without an answer leaves its key, until the time in it is over. A release is
//!   sent once and never repeated.
//!
//! ```no_run
//! use std::time::Duration;
//! use stockade::{Redis, legacy::SetnxLocks};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let redis = Redis::connect("redis://127.0.0.1:6379").await?;
//! let locks = SetnxLocks::new(&redis)?;
//! let guard = locks.lock("lock.report").lease(Duration::from_secs(30)).wait(Duration::from_secs(5)).acquire().await?;
//! // Nothing renews it: look before each step that must not be done twice.
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
//! Use [`Locks`](crate::Locks) unless an old system leaves no choice.
//!
//! - **It relies on the clocks of all clients.** A client whose clock is ahead by more than a lease takes the lock from
//!   its holder. The guard ends by the earlier of its wall clock and its monotonic clock, which helps against steps of
//!   its own clock only.
//! - **No fencing token.** A holder that was stopped past its lease and writes then is not refused by anybody. Make
//!   such writes safe in another way.
//! - **No renewal.** Work has to end within the lease; [`SetnxGuard::remaining`] tells what is left.
//! - **No order.** Who waits asks again and again, after 25 to 100 ms; the luckiest is next.
//! - **Who loses a race for an expired lock moves its time:** its `GETSET` has written a time of its own, later by
//!   about as much as it came late. Somebody who waits waits that much longer if the holder dies.
//! - **A command that got no answer is not undone.** A time in whole seconds says nothing about who wrote it: another
//!   client's may be the same, and deleting by it could free a lock that somebody holds. What such a command took stays
//!   until its time is over, as that of a crashed holder does. What was answered is given back, wherever its future was
//!   dropped.
//! - **A dead holder's key stays** in Redis, without an expiry, until somebody takes it over.
//! - One server, or a group under sentinels, where a failover can lose the key, and the lock with it. Not a cluster.
//!
//! # Beside an old system, and away from it
//!
//! Both must use the same key, the same [`Unit`] and clocks that agree to well within a lease. A value that is no time
//! in this unit is refused and left alone. Values with a fraction are read, as Python's and Ruby's clients write them;
//! what is written here has none. The release is a script that deletes only the holder's own time, or a moved one; that
//! of an old system may be a plain `DEL`, against which nothing here can help.
//!
//! To migrate: move all that take the lock to this module, or keep the old ones, and take the lock of
//! [`Locks`](crate::Locks) as well, this one first, in every process that can; once none is left that can't, drop this
//! one.

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
