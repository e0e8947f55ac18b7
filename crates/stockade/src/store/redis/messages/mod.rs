//! What the server tells this process without being asked.
//!
//! - [`inbox`]: messages, and the attempts that they may concern.

mod inbox;

pub(crate) use inbox::{Inbox, Waiters};
