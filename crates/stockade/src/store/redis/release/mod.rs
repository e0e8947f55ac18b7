//! Giving back, and undoing what an attempt may have left.
//!
//! - [`compensation`]: a release is repeated until the server has surely run it behind what it undoes.
//! - [`unread`]: the replies to releases that nobody waits for.

mod compensation;
mod unread;

pub(crate) use compensation::{Posted, Sent};
pub(crate) use unread::{Release, Releases};
