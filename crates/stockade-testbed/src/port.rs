//! Free TCP ports.

use std::net::{Ipv4Addr, TcpListener};

use rand::Rng;

use crate::{Error, Result};

/// How often a server is started on another port before giving up.
pub(crate) const ATTEMPTS: u32 = 5;

/// A port of 127.0.0.1 that was free a moment ago.
///
/// Drawn from below the range that systems hand out to clients, so that a killed server finds its port free again:
/// in that range a client's own end could take it meanwhile. Another process may still be quicker; whoever starts a
/// server here tries again with another port when told so.
pub(crate) fn free() -> Result<u16> {
    let mut random = rand::rng();
    for _ in 0..64 {
        let port = random.random_range(20_000..30_000);
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    let any = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    any.map(|addr| addr.port()).map_err(Error::io("find a free port on 127.0.0.1"))
}
