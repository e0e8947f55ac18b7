//! Attempts: on one resource, which may wait ([`waiter`]), and on several at once ([`multi`]).
//!
//! - [`waiter`]: an attempt from its first command to the ownership. [`call`]: one acquire command and its reply.
//!   [`confirm`]: the entry with a grant.
//! - [`mailbox`]: where messages for a waiter lie until it looks.
//! - [`throttle`]: how often the waiters of one process ask again.

mod call;
mod confirm;
mod mailbox;
mod multi;
mod throttle;
mod waiter;

pub(crate) use mailbox::{Grant, Mailbox};
pub(crate) use multi::Together;
pub(crate) use throttle::Pokes;
pub(crate) use waiter::Waiter;
