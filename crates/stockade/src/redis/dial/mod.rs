//! Makes connections, and checks that the server at the other end is fit to be used.

mod backoff;
mod dialer;
mod handshake_error;
mod outage;
pub(super) mod permissions;
mod sentinel;
mod server_info;
mod succession;

pub(super) use backoff::Backoff;
pub(super) use dialer::{Dialer, HANDSHAKE, Opened, Place, PushFn, dial};
pub(super) use handshake_error::HandshakeError;
pub(super) use outage::News;
#[cfg(test)]
pub(super) use sentinel::LookError;
pub(super) use server_info::Expected;
pub(crate) use succession::Succession;
