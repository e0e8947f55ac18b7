//! Makes connections, and checks that the server at the other end is fit to be used.

mod backoff;
mod check;
mod connect;
mod dialer;
mod handshake_error;
mod look_error;
mod outage;
pub(super) mod permissions;
mod sentinel;
mod server_info;
mod succession;

pub(super) use backoff::Backoff;
pub(super) use connect::{HANDSHAKE, MAX_IN_FLIGHT, PushFn, dial};
pub(super) use dialer::{Dialer, Opened, Place};
pub(super) use handshake_error::HandshakeError;
#[cfg(test)]
pub(super) use look_error::LookError;
pub(super) use outage::News;
pub(crate) use server_info::process_of;
pub(super) use server_info::run_of;
pub(crate) use succession::Succession;
