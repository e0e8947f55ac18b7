//! The connections of one role to one server: ordered commands with time-outs, typed script calls, pushes.

mod attempt;
mod connection;
mod events;
mod flight;
mod handle;
mod handshake;
mod ledger;
mod pending;
mod replicas;
mod supervisor;
mod wire;

pub(crate) use attempt::{Attempt, Receipt};
pub(crate) use connection::{evalsha, evalsha_of};
pub(crate) use events::{LinkEvents, Up};
pub(super) use flight::MAX_IN_FLIGHT;
pub(crate) use handle::Link;
pub(crate) use handshake::Handshake;
pub(crate) use replicas::Replicas;
