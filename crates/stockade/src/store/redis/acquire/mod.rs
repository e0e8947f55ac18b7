//! Attempts on one resource, which may wait, and on several at once.
//!
//! An attempt ([`waiter`]) is a state machine. [`state`] has its states and all transitions between them, and talks to
//! nobody. [`run`] does what each state asks for, with [`asking`], [`entering`] and [`waiting`]. An attempt may be
//! dropped in any state: what it sent is undone then.
//!
//! # Registering
//!
//! An attempt that waits becomes known to the inbox, so that a grant meets it.
//!
//! - When the store has too many attempts, or shuts down, the attempt ends.
//! - Otherwise it asks.
//!
//! # Asking
//!
//! The attempt sends an acquire command.
//!
//! - When the lock is free or granted, the attempt enters.
//! - When the attempt is queued, it waits. It asks again if the connection for messages changed in between.
//! - When the lock is busy, an attempt that waits asks again, now to be queued: it had only knocked. An attempt that
//!   does not wait ends. If the server told all holders to give way, that attempt registers instead, and waits for a
//!   moment.
//! - When the queue is full, the capacity of the semaphore is another one, or a key holds something foreign, the
//!   attempt ends.
//! - When the command was too old for the server, or the server had lost the scripts, the attempt asks again, once.
//! - When another server has the bucket, or the connection to a node was lost, the attempt asks again, within limits.
//! - When no reply came, the first question of an attempt ends it. A later one leaves it waiting, in doubt.
//!
//! # Entering
//!
//! The attempt has a grant ([`entry`]). A renewal confirms the grant if half of it may be over.
//!
//! - When the grant stands, the attempt ends with the ownership.
//! - When the grant is over, the attempt waits for its old place or, if the grant came by a message, asks for it at
//!   once. An attempt that does not wait ends.
//! - When the grant can't be confirmed, the same holds as for a question without a reply. If the grant came by a
//!   message, the attempt asks at once.
//!
//! # Waiting
//!
//! The attempt has a place in the queue ([`place`]) and rests.
//!
//! - A message that it was granted the lock makes it enter.
//! - A message that it lost its place, a new connection, and the end of its wait make it due.
//! - Another command of its process that found the queue gone makes it claim the next question.
//! - Its alarm makes it claim the next question. In doubt about its place, or after 20 s of a wait without limit, the
//!   alarm makes it due.
//! - The shutdown of the store ends it.
//!
//! # Claiming
//!
//! One waiter of each process asks in each period ([`throttle`]).
//!
//! - The waiter that may ask is due. Any other waits on.
//!
//! # Due
//!
//! - When the wait is over, the attempt ends. Readers who came later and wait longer can put that off ([`limit`]).
//! - Otherwise it asks.
//!
//! # Ended
//!
//! The attempt is held or refused.

mod asking;
mod entering;
mod entry;
mod limit;
mod mailbox;
mod multi;
mod place;
mod run;
mod state;
#[cfg(test)]
mod tests;
mod throttle;
mod waiter;
mod waiting;

pub(crate) use mailbox::{Grant, Mailbox};
pub(crate) use multi::MultiAttempt;
pub(crate) use throttle::ReaskThrottle;
pub(crate) use waiter::Waiter;
