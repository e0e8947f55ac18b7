//! A TCP proxy that breaks connections on purpose.

mod connection;
mod fault;

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::{net::TcpListener, sync::watch, task::JoinSet};

use self::connection::Connection;
pub use self::fault::Fault;
use crate::{Error, Result};

/// The settings of every connection.
#[derive(Debug, Clone, Copy, Default)]
struct Orders {
    fault: Fault,
    /// Connections of an earlier era are reset.
    era: u64,
}

/// A TCP proxy in front of one address, with a fault that can be switched while connections are open.
///
/// The proxy runs on the runtime that it was started on and ends, with its connections, when dropped.
#[derive(Debug)]
pub struct Proxy {
    addr: SocketAddr,
    orders: watch::Sender<Orders>,
    accepted: Arc<AtomicU64>,
    _tasks: JoinSet<()>,
}

impl Proxy {
    /// Starts a proxy on a free port of 127.0.0.1. The upstream need not be there yet.
    ///
    /// # Errors
    ///
    /// When no port can be bound.
    pub async fn start(upstream: SocketAddr) -> Result<Self> {
        let doing = || Error::io("bind a proxy to 127.0.0.1");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(doing())?;
        let addr = listener.local_addr().map_err(doing())?;
        let (orders, watching) = watch::channel(Orders::default());
        let accepted = Arc::new(AtomicU64::new(0));
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, upstream, watching, Arc::clone(&accepted)));
        Ok(Self { addr, orders, accepted, _tasks: tasks })
    }

    /// The address that it listens on.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// `url` with host and port of the proxy.
    #[must_use]
    pub fn url_for(&self, url: &str) -> String {
        let (scheme, rest) = url.split_once("://").unwrap_or(("redis", url));
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let login = authority.rsplit_once('@').map(|(login, _)| format!("{login}@")).unwrap_or_default();
        format!("{scheme}://{login}{}{path}", self.addr)
    }

    /// Sets what happens to open and new connections from now on.
    pub fn set(&self, fault: Fault) {
        self.orders.send_modify(|orders| orders.fault = fault);
    }

    /// Breaks every open connection with a TCP reset; new ones are served as before.
    pub fn reset_connections(&self) {
        self.orders.send_modify(|orders| orders.era += 1);
    }

    /// How many connections were accepted so far.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }
}

async fn accept(
    listener: TcpListener,
    upstream: SocketAddr,
    orders: watch::Receiver<Orders>,
    accepted: Arc<AtomicU64>,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Some(_) = connections.join_next() => {}
            client = listener.accept() => match client {
                Ok((client, _)) => {
                    accepted.fetch_add(1, Ordering::Relaxed);
                    connections.spawn(Connection::new(client, orders.clone()).run(upstream));
                }
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => return,
                // Out of file descriptors, or the client was gone already: the listener itself is still good.
                Err(_) => tokio::task::yield_now().await,
            }
        }
    }
}
