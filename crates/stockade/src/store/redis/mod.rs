//! Locks on one Redis.
//!
//! All state of a resource lives in five keys of one Cluster slot (`keys`). Only scripts (`scripts/*.lua`) change that
//! state. The script that frees a resource hands it to the next waiter, and pushes a message to the inbox of the
//! waiter's process. The client must ensure that nothing it started is left behind:
//!
//! - An attempt is known to the inbox before its command is sent, so a grant always meets its attempt or is an orphan.
//!   An orphan is cancelled at once.
//! - An attempt that is given up after its command was sent sends a cancel behind that command on the same connection.
//!   The server runs the two in this order, however late: frozen, thawed, or with the client gone.
//! - If the connection has changed in between, that order is gone. The command may then arrive after its cancel, but
//!   only for a limited time: the command carries the server time at which it was sent, and is refused as stale after
//!   twice the command timeout. The cancel is repeated after that.
//! - A reply and the messages of the same connection are handled by different tasks, in any order. Each carries the
//!   server time at which it was made. A message that is older than the last reply for the same attempt is not
//!   believed.
//! - One script acquires several resources of one server, all or none. Each resource has an owner of its own, so
//!   renewal, release and compensation handle each one by itself.
//! - A handed-over lease was started by another process, so no send time of ours bounds it. It is mapped to the local
//!   clock through a recent exchange with the same server, and confirmed by a renewal when half of it may be gone.
//! - On a cluster the keys of a bucket, and the inboxes of its waiters, are in one slot. Each primary is a server by
//!   itself (`shard`), with its own connection, clock and runs. If a bucket moves to another server, waiters ask there
//!   with their places, and holders with a renewal. Commands follow the bucket, see `RoutedLink`.
//! - After a reconnect every waiter asks again with its place. A new run of the server is asked about every ownership.
//!
//! # The queue
//!
//! - A free lock does not stand idle while its queue waits. A command that finds a lock or a place gone makes one
//!   waiter of its process ask. A waiter that finds its place gone makes all others of its resource ask, once per loss.
//! - A waiter that comes back with its place is queued before anybody is granted, and is never refused for a full
//!   queue. Otherwise the waiter behind it would be served first.
//! - A grant that expired without a confirmation marks its process as deaf. The script that finds the grant removes all
//!   waiters of that process from the queue and tells them. Living ones come back to their places. Otherwise each
//!   waiter of a dead machine would delay the queue by a lease.
//! - A script serves at most 256 readers or permit takers and tells the next one to ask. That question serves the next
//!   ones. The server answers other commands in between.
//! - If the server's clock shows less than the time in a state, the clock was set back. Then the script checks all
//!   leases of that state.
//!
//! # Ownerships
//!
//! - A downgrade makes its fences shared before its command is sent. They stay shared if the reply is lost, since
//!   others may read by then. While a COMMIT of `Tx` is unanswered, a downgrade and a handover are refused.
//! - A handed-over ownership gets another owner and a higher token. The process that gave the ownership away counts it
//!   as lost. Otherwise it could claim the fence until the other process has.
//! - The capacity of a semaphore is stored while anybody uses the semaphore, and nowhere else: a key for it would be a
//!   permanent key per resource.
//! - The first write of a renewal needs no memory, because a server at its memory limit refuses a script at its first
//!   write that does. Holders keep their locks there; new attempts are refused.
//! - Before a new run of the server grants anything, one round trip tells it the floors.
//!
//! # On a cluster
//!
//! - For three seconds after a server took over, it does not skip waiters without a subscriber, because processes may
//!   not have subscribed yet. A waiter that was skipped would find another waiter in its place.
//! - The first attempt of a process in a bucket does not queue, because no grant would reach it. It takes a free lock
//!   at once. If the lock is held, it subscribes first and asks again.

mod acquire;
mod admin;
mod commands;
mod floors;
mod foreign;
mod handshake;
mod holding;
mod inner;
mod messages;
mod open;
mod redis_store;
mod release;
mod scripts;
mod shard;
#[cfg(test)]
pub(in crate::store) mod tests;

pub(crate) use redis_store::RedisStore;

/// The parts of this store that locks on several servers use, too.
#[cfg(feature = "redlock")]
pub(in crate::store) mod parts {
    pub(in crate::store) use super::{
        admin::scan,
        commands::{
            calls::millis,
            keys::Keys,
            replies::{number, time},
        },
        release::Sent,
        scripts::SEED,
    };
}
