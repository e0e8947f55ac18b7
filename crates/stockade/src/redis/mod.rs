//! The link to Redis: where it is, the connections of one role, typed script calls with time-outs, pushes.
//!
//! Commands of one connection are written in the order of the calls, and a caller that gives up leaves its command in its
//! place: what compensates for a command always comes after it. redis-rs gives that order only without its own response
//! time-out, see `dialer`, and starts a command when its future is first polled, which `flight` does at once.
//!
#![doc = include_str!("failover.md")]
#![doc = include_str!("access.md")]

mod backoff;
mod claims;
mod connection;
mod dialer;
mod error;
mod events;
#[cfg(feature = "cluster")]
mod fleet;
mod flight;
mod handle;
mod handshake;
mod handshake_error;
mod link;
mod pending;
mod permissions;
mod pool;
mod replicas;
mod script;
#[cfg(feature = "sentinel")]
mod sentinel;
mod server_info;
#[cfg(feature = "cluster")]
mod slot_map;
mod source;
mod succession;
mod supervisor;
#[cfg(test)]
mod tests;
mod tls;
mod topology;
mod url;

pub(crate) use claims::Claim;
pub use error::ConnectError;
pub(crate) use error::LinkError;
pub(crate) use events::{LinkEvents, Up};
#[cfg(feature = "cluster")]
pub(crate) use fleet::{Fleet, FleetEvents};
pub use handle::{Redis, RedisBuilder};
pub(crate) use handshake::Handshake;
pub(crate) use link::Link;
pub use pool::Pool;
pub(crate) use replicas::Replicas;
pub(crate) use script::Script;
#[cfg(feature = "cluster")]
pub(crate) use slot_map::Node;
pub use source::Source;
pub(crate) use succession::Succession;
#[cfg(feature = "tls")]
pub use tls::TlsOptions;
