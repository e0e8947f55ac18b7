//! Giving back, and undoing what an attempt may have left.
//!
//! - [`sendings`]: what an attempt has sent, and may have to undo.
//! - [`compensation`]: a release is repeated until the server has surely run it behind what it undoes.
//! - [`queue`]: the releases that nobody waits for; [`unread`]: the task that reads their replies.

mod compensation;
mod queue;
mod sendings;
mod unread;

pub(crate) use queue::{Release, Releases};
pub(crate) use sendings::{Posted, Sendings, Sent};
