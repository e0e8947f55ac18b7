//! The connections of one role to one server: ordered commands with time-outs, typed script calls, pushes.

mod attempt;
mod calls;
mod connection;
mod events;
mod flight;
mod handle;
mod handshake;
mod joined;
mod ledger;
mod look_around;
mod notice;
mod opening;
mod pending;
mod refusals;
mod scripts;
mod self_test;
mod sending;
mod shared;
mod supervisor;
mod up;
mod window;
mod wire;

pub(crate) use attempt::{Attempt, Receipt};
pub(crate) use events::LinkEvents;
pub(crate) use handle::Link;
pub(crate) use handshake::Handshake;
pub(crate) use joined::Joins;
pub(crate) use scripts::{evalsha, evalsha_of};
pub(crate) use up::Up;
