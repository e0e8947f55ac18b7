//! One connection through a proxy.

use std::{io, net::SocketAddr};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    sync::{mpsc, watch},
    time::{Instant, sleep_until},
};

use super::{Fault, Orders};

const CHUNK: usize = 16 * 1024;
/// Chunks under way in each direction while a delay is set.
const IN_FLIGHT: usize = 256;

/// The direction of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Request,
    Reply,
}

/// Bytes, and when they are due on the other side. No bytes mean the end of the stream.
struct Chunk {
    due: Instant,
    bytes: Vec<u8>,
}

/// A client's connection, and the orders for it.
#[derive(Debug)]
pub(super) struct Connection {
    client: TcpStream,
    orders: watch::Receiver<Orders>,
    /// The era it belongs to.
    era: u64,
}

impl Connection {
    pub(super) fn new(client: TcpStream, mut orders: watch::Receiver<Orders>) -> Self {
        let era = orders.borrow_and_update().era;
        Self { client, orders, era }
    }

    /// Forwards until one side is done or the proxy breaks the connection.
    pub(super) async fn run(mut self, upstream: SocketAddr) {
        let era = self.era;
        let connecting = async {
            passable(&mut self.orders.clone()).await;
            TcpStream::connect(upstream).await
        };
        let server = tokio::select! {
            biased;
            () = broken(self.orders.clone(), era) => None,
            server = connecting => server.ok(),
        };
        // Without an upstream the client's connection is reset, since the proxy has already accepted it.
        let Some(mut server) = server else { return reset(&self.client) };
        let _ = (self.client.set_nodelay(true), server.set_nodelay(true));

        let (client_read, client_write) = self.client.split();
        let (server_read, server_write) = server.split();
        let relayed = tokio::select! {
            biased;
            () = broken(self.orders.clone(), era) => Err(io::ErrorKind::ConnectionReset.into()),
            relayed = async {
                tokio::try_join!(
                    relay(client_read, server_write, self.orders.clone(), Direction::Request),
                    relay(server_read, client_write, self.orders.clone(), Direction::Reply),
                )
            } => relayed,
        };
        // A connection that failed must not look to the other side as if it had ended well.
        if relayed.is_err() {
            reset(&self.client);
            reset(&server);
        }
    }
}

/// Makes closing the socket send a reset.
fn reset(stream: &TcpStream) {
    let _ = stream.set_zero_linger();
}

/// Returns when the proxy breaks this connection.
async fn broken(mut orders: watch::Receiver<Orders>, era: u64) {
    // The proxy is gone when this fails, and its tasks with it.
    let _ = orders.wait_for(|orders| orders.era != era || orders.fault == Fault::Reset).await;
}

/// Returns when bytes may pass.
async fn passable(orders: &mut watch::Receiver<Orders>) {
    let _ = orders.wait_for(|orders| orders.fault != Fault::Hole).await;
}

/// Moves one direction's bytes, to its end.
async fn relay(
    from: impl AsyncRead + Unpin,
    to: impl AsyncWrite + Unpin,
    orders: watch::Receiver<Orders>,
    direction: Direction,
) -> io::Result<()> {
    let (queue, due) = mpsc::channel(IN_FLIGHT);
    tokio::try_join!(take(from, queue, orders.clone(), direction), give(to, due, orders)).map(drop)
}

/// Reads, and fails when the proxy has made the connection unusable.
async fn take(
    mut from: impl AsyncRead + Unpin,
    queue: mpsc::Sender<Chunk>,
    mut orders: watch::Receiver<Orders>,
    direction: Direction,
) -> io::Result<()> {
    let mut lost_some = false;
    loop {
        passable(&mut orders).await;
        let mut bytes = vec![0; CHUNK];
        let count = tokio::select! {
            biased;
            // A fault that is set while this waits for bytes applies to the bytes that come next.
            changed = orders.changed() => {
                if changed.is_err() || (lost_some && orders.borrow().fault != Fault::DropReplies) {
                    return Err(io::ErrorKind::ConnectionReset.into());
                }
                continue;
            }
            count = from.read(&mut bytes) => count?,
        };
        bytes.truncate(count);
        let fault = orders.borrow().fault;
        if lost_some && fault != Fault::DropReplies {
            // The fault ended between the check above and this one.
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        if fault == Fault::DropReplies && direction == Direction::Reply && count > 0 {
            lost_some = true;
            continue;
        }
        let due = match fault {
            Fault::Delay(delay) => Instant::now() + delay,
            Fault::None | Fault::Hole | Fault::Reset | Fault::DropReplies => Instant::now(),
        };
        if queue.send(Chunk { due, bytes }).await.is_err() || count == 0 {
            return Ok(());
        }
    }
}

async fn give(
    mut to: impl AsyncWrite + Unpin,
    mut queue: mpsc::Receiver<Chunk>,
    mut orders: watch::Receiver<Orders>,
) -> io::Result<()> {
    while let Some(Chunk { due, bytes }) = queue.recv().await {
        if due > Instant::now() {
            sleep_until(due).await;
        }
        passable(&mut orders).await;
        if bytes.is_empty() {
            return to.shutdown().await;
        }
        to.write_all(&bytes).await?;
    }
    Ok(())
}
