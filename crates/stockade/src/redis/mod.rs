//! The link to Redis: where it is, the connections of one role, typed script calls with time-outs, pushes.
//!
//! Commands of one connection are sent in the order of the calls, and only a window of them has no reply yet, see `wire`: a
//! burst waits in the process, where its commands can still be taken back, and not at the server. A command's time-out
//! counts from its sending. A caller that gives up leaves its command in its place, unless it is an attempt that was not
//! sent yet, which is taken back: what compensates for a command that was sent always comes after it. Commands that undo
//! others go ahead of those that begin something, renewals ahead of all.
//!
//! A connection that delivers replies is alive, however long a command takes: only one that owes an answer and has
//! delivered none for a command time-out counts as failed, see `pending`.
//!
//! redis-rs keeps the order of commands only without its own response time-out, see `dialer`, and starts a command when
//! its future is first polled, which `flight` does at once.
//!
#![doc = include_str!("failover.md")]
#![doc = include_str!("access.md")]

mod attempt;
mod backoff;
mod claims;
mod connection;
mod dialer;
mod error;
mod events;
mod fleet;
mod flight;
mod handle;
mod handshake;
mod handshake_error;
mod ledger;
mod link;
mod outage;
mod pending;
mod permissions;
mod pool;
mod replicas;
mod script;
mod sentinel;
mod server_info;
mod slot_map;
mod source;
mod succession;
mod supervisor;
#[cfg(test)]
mod tests;
mod tls;
mod topology;
mod url;
mod wire;

pub(crate) use attempt::{Attempt, Receipt};
pub(crate) use claims::Claim;
pub(crate) use connection::{evalsha, evalsha_of};
pub use error::ConnectError;
pub(crate) use error::LinkError;
pub(crate) use events::{LinkEvents, Up};
pub(crate) use fleet::{Fleet, FleetEvents};
pub use handle::{Redis, RedisBuilder};
pub(crate) use handshake::Handshake;
pub(crate) use link::Link;
pub use pool::Pool;
pub(crate) use replicas::Replicas;
pub(crate) use script::Script;
pub(crate) use slot_map::Node;
pub use source::Source;
pub(crate) use succession::Succession;
#[cfg(test)]
pub(crate) use tests::crowd::{leisurely, slow};
#[cfg(feature = "tls")]
pub use tls::TlsOptions;
