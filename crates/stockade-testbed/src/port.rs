//! TCP ports of 127.0.0.1 for servers.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
};

use rand::Rng;
use tokio::net::TcpSocket;

use crate::{Error, Result};

/// How often a server is started on another port before giving up.
pub(crate) const ATTEMPTS: u32 = 5;

/// How far above a node's port its bus listens.
pub(crate) const BUS: u16 = 10_000;

/// The range that a server's port is drawn from: always below the range that systems hand out to clients. In that range
/// a client's own end could take the port of a server that is down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Range {
    #[default]
    Single,
    /// The node's bus listens [`BUS`] above.
    WithBus,
}

/// A port that is kept for one server, also while that server is down.
///
/// Sockets are bound to it that never listen. So no other `Port` gets it, in whatever process, and whoever connects is
/// refused unless the server listens. Only Linux lets a server listen on a port that another socket is bound to.
/// Elsewhere nothing keeps the port, and another server may take it while this one is down.
#[derive(Debug, Default)]
pub(crate) struct Port {
    number: u16,
    _sockets: Vec<TcpSocket>,
}

impl Port {
    /// Takes a port that nobody has.
    ///
    /// A program that looks for ports in another way may still take it before the server does. Then the server is
    /// started again on another port.
    pub(crate) fn take(range: Range) -> Result<Self> {
        let mut random = rand::rng();
        let numbers = if range == Range::WithBus { 20_000..22_700 } else { 22_700..30_000 };
        for _ in 0..64 {
            let number = random.random_range(numbers.clone());
            let of_bus = (range == Range::WithBus).then_some(number + BUS);
            if let Ok(sockets) = [number].into_iter().chain(of_bus).map(bound).collect::<io::Result<Vec<_>>>() {
                let is_kept = cfg!(target_os = "linux");
                return Ok(Self { number, _sockets: if is_kept { sockets } else { Vec::new() } });
            }
        }
        Err(Error::io("find a free port on 127.0.0.1")(io::ErrorKind::AddrInUse.into()))
    }

    pub(crate) fn number(&self) -> u16 {
        self.number
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.number).into()
    }
}

/// A socket that is bound where no other one is. Afterwards it lets a server bind there.
fn bound(port: u16) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((Ipv4Addr::LOCALHOST, port).into())?;
    socket.set_reuseaddr(true)?;
    Ok(socket)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_port_is_kept_while_its_server_is_down() {
        let port = Port::take(Range::WithBus).unwrap();
        let is_kept = || bound(port.number()).is_err() && bound(port.number() + BUS).is_err();
        assert!(is_kept());
        let server = TcpListener::bind(port.addr()).unwrap();
        assert!(is_kept());
        drop(server);
        assert!(is_kept());
    }
}
