//! The keys and arguments of the scripts, and their replies.
//!
//! - [`keys`]: names of keys and channels. [`calls`]: arguments. [`replies`]: replies as types.

pub(crate) mod calls;
pub(crate) mod keys;
pub(crate) mod replies;
