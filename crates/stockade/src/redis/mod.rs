//! The link to Redis: where the servers are, the connections of one role, typed script calls with time-outs, pushes.
//!
//! The commands of one connection are sent in the order of the calls, and only a window of them is without a reply. The
//! rest of a burst waits in the process, where commands can still be taken back, and not at the server. A command's
//! time-out counts from its sending. If a caller gives up, its command keeps its place; only an attempt that was not
//! sent yet is taken back. So the command that undoes a sent command always comes after it. Commands that undo others
//! go ahead of those that begin something, and renewals ahead of all.
//!
//! A connection that delivers replies is alive, however long one command takes. A connection counts as failed if it
//! owes a reply and has delivered none for a command time-out.
//!
#![doc = include_str!("failover.md")]
#![doc = include_str!("access.md")]

mod address;
mod claims;
mod cluster;
mod dial;
mod error;
mod handle;
mod link;
mod routed;
mod script;
mod server_clock;
#[cfg(test)]
mod tests;

pub(crate) use address::Node;
#[cfg(feature = "tls")]
pub use address::TlsOptions;
pub use address::{Pool, Source};
pub(crate) use claims::Claim;
pub(crate) use dial::Succession;
#[cfg(feature = "redlock")]
pub(crate) use dial::process_of;
pub use error::ConnectError;
pub(crate) use error::LinkError;
pub use handle::{Redis, RedisBuilder};
pub(crate) use link::{Attempt, Handshake, Joins, Link, LinkEvents, Receipt, Up, evalsha, evalsha_of};
pub(crate) use routed::{Carrier, Redirects, RoutedEvents, RoutedLink, Run, Server, ServerState};
pub(crate) use script::{Script, script, text};
pub(crate) use server_clock::{ServerClock, believed, believed_until};
#[cfg(test)]
pub(crate) use tests::{
    crowd::{leisurely, slow},
    until::{LIMIT, eventually, retried, until},
};

/// The crate of [`Pool`] and of the configurations in [`Source`], and with it `redis`, in the versions used here.
#[doc(no_inline)]
pub use deadpool_redis;
