//! Messages that the lock scripts push to this process.
//!
//! - [`inbox`]: reads the messages and passes them on.
//! - [`waiters`]: the attempts that a message may be about.

mod inbox;
mod waiters;

pub(crate) use inbox::Inbox;
pub(crate) use waiters::Waiters;
