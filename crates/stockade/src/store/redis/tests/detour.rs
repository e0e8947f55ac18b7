use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use stockade_testbed::{Fault, Proxy, RedisServer};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};

use super::until;

/// A proxy that makes a command arrive after commands that were sent later. It closes the connections of its clients,
/// holds the bytes that they sent, and delivers them when the test says so. Later clients go straight to the server.
pub(in crate::store) struct Detour {
    addr: SocketAddr,
    server: SocketAddr,
    way: Proxy,
    route: watch::Sender<SocketAddr>,
    sent: Arc<AtomicU64>,
    _tasks: JoinSet<()>,
}

impl Detour {
    pub(in crate::store) async fn start(server: &RedisServer) -> Self {
        let way = Proxy::start(server.addr()).await.unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (route, watching) = watch::channel(way.addr());
        let sent = Arc::new(AtomicU64::new(0));
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, watching, Arc::clone(&sent)));
        Self { addr, server: server.addr(), way, route, sent, _tasks: tasks }
    }

    pub(in crate::store) fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub(in crate::store) fn url(&self) -> String {
        format!("redis://{}", self.addr)
    }

    /// Holds all bytes from now on.
    pub(in crate::store) fn hold(&self) {
        self.way.set(Fault::Hole);
    }

    /// How many bytes clients have sent so far.
    pub(in crate::store) fn sent(&self) -> u64 {
        self.sent.load(Ordering::SeqCst)
    }

    /// Returns once clients have sent more bytes than this.
    pub(in crate::store) async fn until_sent(&self, before: u64) {
        until("a command on its way", || self.sent() > before).await;
    }

    /// Closes the clients' connections. New connections go straight to the server.
    pub(in crate::store) fn leave(&self) {
        self.route.send_replace(self.server);
    }

    /// Delivers the held bytes.
    pub(in crate::store) fn let_go(&self) {
        self.way.set(Fault::None);
    }
}

async fn accept(listener: TcpListener, mut route: watch::Receiver<SocketAddr>, sent: Arc<AtomicU64>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let to = *route.borrow_and_update();
        let (mut changed, sent) = (route.clone(), Arc::clone(&sent));
        connections.spawn(async move {
            tokio::select! {
                _ = changed.wait_for(|now| *now != to) => {}
                _ = relay(client, to, &sent) => {}
            }
        });
    }
}

async fn relay(mut client: TcpStream, to: SocketAddr, sent: &AtomicU64) -> io::Result<()> {
    let mut server = TcpStream::connect(to).await?;
    let (mut requests, mut replies) = client.split();
    let (mut answers, mut onwards) = server.split();
    let forward = async {
        let mut bytes = vec![0; 16 * 1024];
        loop {
            let count = requests.read(&mut bytes).await?;
            if count == 0 {
                return onwards.shutdown().await;
            }
            onwards.write_all(&bytes[..count]).await?;
            sent.fetch_add(count as u64, Ordering::SeqCst);
        }
    };
    tokio::try_join!(forward, copy(&mut answers, &mut replies)).map(drop)
}
