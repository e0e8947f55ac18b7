//! Locks on one Redis.
//!
//! All state of a resource lives in five keys of one Cluster slot (`keys`), is changed only by scripts
//! (`scripts/*.lua`) and handed from holder to waiter by the script that frees it, which pushes a message to the inbox
//! of the waiter's process. What the client must add is that nothing it started is left behind:
//!
//! - An attempt is known to the inbox before its command is sent, so that a grant always meets it or is an orphan. An
//!   orphan is cancelled at once.
//! - Whoever gives an attempt up after its command was sent sends a cancel behind it on the same connection. The server
//!   runs the two in this order, however late: frozen, thawed, or with the client gone.
//! - When the connection has changed in between, that order is gone. The command may then arrive after its cancel, but
//!   not for long: it carries the server time at which it was sent and is refused as stale after twice the command
//!   time-out. The cancel is repeated after that.
//! - A reply and the messages of the same connection are handled by different tasks, in any order. Each carries the
//!   server time at which it was made, and what is older than the last reply for the same attempt counts for nothing.
//! - Several resources of one server are taken by one script, which takes all or none. Each has an owner of its own, so
//!   renewal, release and compensation know nothing of the others.
//! - A handed-over lease was started by another process, so no send time of ours bounds it. It is mapped to the local
//!   clock through a recent exchange with the same server, and confirmed by a renewal when half of it may be gone.
//! - On a cluster each bucket has its keys, and the inboxes of those who wait in it, in one slot, and each primary is a
//!   server by itself (`shard`): its connection, its clock, its runs. A bucket that goes to another server is asked
//!   about there: by waiters with their places, by holders with a renewal. Commands follow it, see `RoutedLink`.
//! - After a reconnect every waiter asks again with its place, and a new run of the server is asked about every
//!   ownership.
//!
//! # The queue
//!
//! - A free lock does not stand idle while its queue waits. A command that finds a lock or a place gone makes one
//!   waiter of its process ask. A waiter that finds its place gone makes all others of its resource ask, once per loss.
//! - A waiter that comes back with its place is queued before anybody is granted, and is never refused for a full
//!   queue. Otherwise the waiter behind it would be served first.
//! - A grant that nobody confirmed marks its process as deaf. The script that finds such a grant takes all waiters of
//!   that process out of the queue and tells them; the living ones come back to their places. Otherwise each waiter of
//!   a dead machine would cost a lease.
//! - A script serves at most 256 readers or permit takers and tells the next one to ask, which continues. The server
//!   answers other commands in between.
//! - A clock that shows less than the time in a state was set back: then all leases of that state are looked at.
//!
//! # Ownerships
//!
//! - A downgrade makes its fences shared before its command is sent. They stay shared if the reply is lost, since
//!   others may read by then. While a COMMIT of `Tx` is unanswered, a downgrade and a handover are refused.
//! - A handed-over ownership gets another owner and keeps the owner that the fence knows. The process that gave it away
//!   counts it as lost, since both could claim otherwise.
//! - The capacity of a semaphore is stored while anybody uses the semaphore, and nowhere else: a key for it would be a
//!   permanent key per resource.
//! - The first write of a renewal needs no memory, because a server at its memory limit refuses a script at its first
//!   write that does. Holders keep their locks there; new attempts are refused.
//! - A grant that was handed over is renewed before replicas are asked about it: `WAIT` speaks only for the writes of
//!   its own connection, and another process wrote the grant.
//! - A new run of the server is told the floors in one round trip before it grants anything, and says since when it has
//!   served, so that a fleet sits out one quarantine and not one per process.
//!
//! # On a cluster
//!
//! - A server that took over a moment ago counts no receivers for three seconds: nobody is subscribed there yet, and a
//!   waiter that was passed over would find another one in its place.
//! - The first attempt of a process in a bucket does not queue, because no grant would reach it. It takes a free lock
//!   at once. If the lock is held, it subscribes first and asks again.

mod acquire;
mod admin;
mod commands;
mod foreign;
mod handshake;
mod holding;
mod inner;
mod messages;
mod open;
mod options;
mod redis_store;
mod release;
mod scripts;
mod shard;
#[cfg(test)]
pub(in crate::store) mod tests;

pub(crate) use options::Options;
pub(crate) use redis_store::RedisStore;

/// What locks on several servers take from those on one.
#[cfg(feature = "redlock")]
pub(in crate::store) mod parts {
    pub(in crate::store) use super::{
        commands::calls::millis,
        commands::{
            keys::Keys,
            replies::{joined, number, text},
        },
        scripts::{JOIN, SEED},
    };
}
