//! Messages that the server sends to this process without being asked.
//!
//! - [`inbox`]: messages, and what the store does with them.
//! - [`waiters`]: the attempts that a message may concern.

mod inbox;
mod waiters;

pub(crate) use inbox::Inbox;
pub(crate) use waiters::Waiters;
