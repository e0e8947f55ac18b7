//! Locks on several independent Redis servers: Redlock.
//!
//! The wire is the plain one that many programs share: `SET lock value NX PX lease` on every server, and a
//! compare-and-delete to give it back. Whoever has a quorum of the servers has the lock. Beside it, in our own
//! namespace, each server keeps the token floor of every bucket.
//!
//! # What it survives, and what not
//!
//! Any minority of the servers may be down, frozen or cut off: locks are granted, extended and given back as before.
//! Two owners at a time are possible when
//!
//! - the clock of a server steps or runs so that its leases end early (more than the 1 % that is taken off),
//! - servers come back empty, until those who hold locks have given them theirs again: one at a time is survived, as
//!   many as make a majority with those that did not have the lock are not,
//! - a process is stopped after it has looked at the time that is left and before it acts.
//!
//! None of this is particular to several servers, and more of them do not help: what must not be lost is protected by
//! the fence, not by more Redis. See "Distributed Locks with Redis" in the documentation of Redis, Martin Kleppmann's
//! "How to do distributed locking" (2016), and Salvatore Sanfilippo's answer "Is Redlock safe?".
//!
//! # How it works
//!
//! - A round asks all servers at once, under a value of its own (`round`). The first quorum wins and nobody waits for
//!   the rest; an answer that comes later leaves the lock there, which the next extension counts and the release
//!   undoes.
//! - What a failed or dropped round sent is undone behind it on the same connection (`undo`). Where that connection is
//!   gone the order is gone, too: the servers refuse questions that come too late, and what undoes them is repeated
//!   after that time. As no value is used twice, undoing one round can't harm the next.
//! - An ownership ends one lease after the first sending, less the drift (1 % and 2 ms). It is proved by the quorum of
//!   servers that have the value at that time: two quorums share a server, and a server has one value.
//! - A quorum takes the token with the lock. Each server writes the token to its floor in the script that takes the
//!   lock, or later, while the lock is still ours. A maximum that is read and not written back is read again by the
//!   next quorum.
//! - A forced release deletes by value, so a deletion that was on its way takes nothing from a later holder.
//! - Tokens are proposed by the client and taken together with the lock: the script writes the token to the floor if it
//!   is above it. A token counts that a quorum took while it had the lock; where a floor was ahead, a higher one is
//!   written under the same conditions. Two owners have a server in common which took both tokens, each while the lock
//!   was its owner's, the later one above the earlier. An owner that slept past its lease finds another's value there,
//!   and its token is not taken. Reading a maximum without writing it back repeats tokens, and so does writing it back
//!   without the condition.
//! - An extension counts servers that still have the value, and refills the others afterwards (`extension`).
//! - There is no queue: those who wait ask again after a random, growing pause, and the next owner is the one that asks
//!   first. There is no shared mode either, since two readers would have to share a value.

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
mod sent;
mod servers;
mod settings;
#[cfg(test)]
mod tests;
mod tokens;
mod undo;
mod watch;

pub(crate) use keys::KeyFormat;
pub(crate) use redlock_store::RedlockStore;
pub(crate) use settings::Settings;
