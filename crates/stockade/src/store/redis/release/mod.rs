//! Giving back, and undoing what an attempt may have left.
//!
//! - [`sendings`]: what an attempt has sent, and may have to undo.
//! - [`compensation`]: a release is repeated until the server has surely run it behind what it undoes.
//! - [`unread`]: the replies to releases that nobody waits for.

mod compensation;
mod sendings;
mod unread;

pub(crate) use sendings::{Posted, Sendings, Sent};
pub(crate) use unread::{Release, Releases};
