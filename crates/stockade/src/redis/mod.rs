//! The link to Redis: where it is, the connections of one role, typed script calls with time-outs, pushes.
//!
//! Commands of one connection are sent in the order of the calls, and only a window of them has no reply yet, see
//! `wire`: a burst waits in the process, where its commands can still be taken back, and not at the server. A command's
//! time-out counts from its sending. A caller that gives up leaves its command in its place, unless it is an attempt
//! that was not sent yet, which is taken back: what compensates for a command that was sent always comes after it.
//! Commands that undo others go ahead of those that begin something, renewals ahead of all.
//!
//! A connection that delivers replies is alive, however long a command takes: only one that owes an answer and has
//! delivered none for a command time-out counts as failed, see `pending`.
//!
//! redis-rs keeps the order of commands only without its own response time-out, see `dialer`, and starts a command when
//! its future is first polled, which `flight` does at once.
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
pub use error::ConnectError;
pub(crate) use error::LinkError;
pub use handle::{Redis, RedisBuilder};
pub(crate) use link::{Attempt, Handshake, Link, LinkEvents, Receipt, Replicas, Up, evalsha, evalsha_of};
pub(crate) use routed::{Carrier, Redirects, RoutedEvents, RoutedLink, Run, Server, ServerState};
pub(crate) use script::Script;
pub(crate) use server_clock::{ServerClock, believed, believed_until};
#[cfg(test)]
pub(crate) use tests::crowd::{leisurely, slow};
