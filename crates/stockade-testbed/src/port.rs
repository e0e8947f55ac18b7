//! Free TCP ports.

use std::{
    io,
    net::{Ipv4Addr, TcpListener},
};

use rand::Rng;

use crate::{Error, Result};

/// How often a server is started on another port before giving up.
pub(crate) const ATTEMPTS: u32 = 5;

/// The range that a server's port is drawn from: always below the range that systems hand out to clients, so that a
/// killed server finds its port free again. In that range a client's own end could take it meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Range {
    #[default]
    Single,
    /// The node's bus listens 10,000 above and must find that port free too, after restarts as well.
    WithBus,
}

/// How far above a node's port its bus listens.
pub(crate) const BUS: u16 = 10_000;

impl Range {
    /// A port of 127.0.0.1 that was free a moment ago.
    ///
    /// Another process may still take the port first. A server that finds its port taken is started again on another.
    pub(crate) fn free(self) -> Result<u16> {
        let mut random = rand::rng();
        let range = if self == Self::WithBus { 20_000..22_700 } else { 22_700..30_000 };
        for _ in 0..64 {
            let port = random.random_range(range.clone());
            if is_free(port) && (self == Self::Single || is_free(port + BUS)) {
                return Ok(port);
            }
        }
        Err(Error::io("find a free port on 127.0.0.1")(io::ErrorKind::AddrInUse.into()))
    }
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}
