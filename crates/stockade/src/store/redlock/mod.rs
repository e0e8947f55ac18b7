//! Locks on several independent Redis servers: Redlock.
//!
//! On the wire this is the plain Redlock that many programs share: `SET lock value NX PX lease` on every server, and a
//! compare-and-delete to release. The process whose value a quorum of the servers stores has the lock. In our own
//! namespace each server also keeps the token floor of every bucket: the highest token that the server has accepted
//! there.
//!
//! # What it survives, and what not
//!
//! Any minority of the servers may be down, frozen or cut off. Locks are still granted, extended and released.
//!
//! Two owners at a time are possible in three cases:
//!
//! - The clock of a server steps, or runs so fast that its leases end early. A client takes 1 % off each lease; a
//!   clock that is off by more is not covered.
//! - Servers come back empty, and the holders have not refilled them yet. One empty server at a time does no harm. A
//!   second owner is possible if the empty servers and those that never stored the lock are a majority together.
//! - A process is stopped after it has checked the time left and before it acts.
//!
//! A lock on one server has the same gaps, and more servers don't close them. The fence protects what must not be
//! lost, not more Redis. See "Distributed Locks with Redis" in the documentation of Redis, Martin Kleppmann's "How to
//! do distributed locking" (2016), and Salvatore Sanfilippo's answer "Is Redlock safe?".
//!
//! # How it works
//!
//! - **Round** (`round`): asks all servers at once, under a value that is never used again. The first quorum wins, and
//!   the round does not wait for the remaining servers. A server that grants later keeps the lock: the next extension
//!   counts that server, and the release frees it.
//! - **Undo** (`undo`): whatever a failed or dropped round sent is undone by a release behind it on the same
//!   connection. A new connection does not keep the order of the old one. The servers therefore refuse commands that
//!   are too old, and the release is repeated after that age. As no value is used twice, undoing one round can't harm
//!   the next.
//! - **Validity**: an ownership ends one lease after the round was sent, less the drift (1 % and 2 ms). Until then a
//!   quorum of the servers stores its value. Two quorums share a server, and a server stores one value.
//! - **Tokens**: the client proposes a token, and the script that takes the lock writes the token to the floor if the
//!   token is higher. A token is valid once a quorum wrote it while that quorum stored the lock. If a floor was ahead,
//!   the client proposes a higher token under the same conditions. Two owners share a server that wrote both tokens,
//!   each while its owner had the lock there, so the later token is higher. An owner that slept past its lease finds
//!   another value on that server, and the server refuses its token. Reading the highest floor is not enough: without
//!   the write, or with a write that does not check the value, two owners can get the same token.
//! - **Extension** (`extension`): counts the servers that still store the value, and refills the others afterwards.
//! - **Forced release** (`admin`): deletes by value, so a deletion that arrives late takes nothing from a later holder.
//! - **Waiting** (`attempt`): there is no queue. A waiter asks again after a random, growing pause, and the next owner
//!   is the process that asks first. There is no shared mode either, since two readers would have to share a value.

mod admin;
mod attempt;
mod extension;
mod held_table;
mod inner;
mod keys;
mod mark;
mod node;
mod open;
mod redlock_store;
mod replies;
mod round;
mod scripts;
mod servers;
mod settings;
#[cfg(test)]
mod tests;
mod undo;
mod watch;

pub(crate) use keys::KeyFormat;
pub(crate) use redlock_store::RedlockStore;
pub(crate) use settings::Settings;
