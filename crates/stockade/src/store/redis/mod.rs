//! Locks on one Redis.
//!
//! All state of a resource lives in five keys of one Cluster slot (`keys`), is changed only by scripts (`scripts/*.lua`)
//! and handed from holder to waiter by the script that frees it, which pushes a message to the inbox of the waiter's
//! process. What the client must add is that nothing it started is left behind:
//!
//! - An attempt is known to the inbox before its command is sent, so that a grant always meets it or is an orphan. An
//!   orphan is cancelled at once.
//! - Whoever gives an attempt up after its command was sent sends a cancel behind it on the same connection. The server
//!   runs the two in this order, however late: frozen, thawed, or with the client gone.
//! - When the connection has changed in between, that order is gone. The command may then arrive after its cancel, but not
//!   for long: it carries the server time at which it was sent and is refused as stale after twice the command time-out.
//!   The cancel is repeated after that.
//! - A reply and the messages of the same connection are handled by different tasks, in any order. Each carries the server
//!   time at which it was made, and what is older than the last reply for the same attempt counts for nothing.
//! - Several resources of one server are taken by one script, which takes all or none. Each has an owner of its own, so
//!   renewal, release and compensation know nothing of the others.
//! - A handed-over lease was started by another process, so no send time of ours bounds it. It is mapped to the local
//!   clock through a recent exchange with the same server, and confirmed by a renewal when half of it may be gone.
//! - On a cluster each bucket has its keys, and the inboxes of those who wait in it, in one slot, and each primary is a
//!   server by itself (`shard`): its connection, its clock, its runs. A bucket that goes to another server is asked about
//!   there: by waiters with their places, by holders with a renewal (`nodes`). Commands follow it (`redirects`).
//! - After a reconnect every waiter asks again with its place, and a new run of the server is asked about every
//!   ownership.

mod admin;
mod calls;
mod cell;
mod change;
mod compensation;
mod entry;
mod foreign;
mod held;
mod inbox;
mod inner;
mod keys;
mod nodes;
mod options;
mod pokes;
mod question;
mod redirects;
mod redis_store;
mod renewal;
mod replies;
mod sample;
mod scripts;
mod shard;
mod shards;
mod standing;
#[cfg(test)]
pub(in crate::store) mod tests;
mod together;
mod waiter;

pub(crate) use options::Options;
pub(crate) use redis_store::RedisStore;

/// What locks on several servers take from those on one.
#[cfg(feature = "redlock")]
pub(in crate::store) mod parts {
    pub(in crate::store) use super::{
        calls::millis,
        inner::new_process,
        keys::Keys,
        replies::{joined, number, text},
        sample::{ServerClock, believed},
        scripts::{JOIN, SEED},
    };
}
