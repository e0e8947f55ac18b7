//! The link to Redis: where it is, the connections of one role, typed script calls with time-outs, pushes.

mod error;
mod link;
mod script;
mod source;

pub use error::ConnectError;
pub(crate) use error::LinkError;
pub(crate) use link::{Handshake, Link, LinkEvents, Up};
pub(crate) use script::Script;
pub use source::{Redis, RedisBuilder, Source};
