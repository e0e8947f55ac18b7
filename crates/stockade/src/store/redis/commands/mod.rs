//! What goes into a script and comes out of it.
//!
//! - [`keys`]: names of keys and channels. [`calls`]: arguments. [`replies`]: replies as types.

pub(crate) mod calls;
pub(crate) mod keys;
pub(crate) mod replies;
