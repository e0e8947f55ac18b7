//! Releases locks, and undoes what an attempt may have left at the server.
//!
//! - [`sendings`]: what an attempt has sent, and may have to undo.
//! - [`compensation`]: repeats a release until the server has certainly run it after the command that it undoes.
//! - [`queue`]: the releases that nobody waits for. [`unread`]: the task that reads their replies.

mod compensation;
mod queue;
mod sendings;
mod unread;

pub(crate) use queue::{Release, Releases};
pub(crate) use sendings::{Sendings, Sent};
