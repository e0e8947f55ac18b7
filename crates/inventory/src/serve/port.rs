use std::{
    io,
    net::SocketAddr,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    extract::Request,
    http::{HeaderValue, header::CONNECTION},
    response::Response,
};
use futures_util::FutureExt;
use hyper::{body::Incoming, server::conn::http1::Builder};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use tokio_io_timeout::TimeoutStream;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::{config::Connections, console::chain, trouble::REMINDER};

/// The longest request head, in bytes; 431 beyond it. Bodies have a limit of their own.
const HEAD: usize = 32 * 1024;

/// The largest buffer of a connection, in bytes. With the default, 400 KiB, a client with many connections could take
/// all memory. It holds more than the longest head: a client that is reset, since some of its head was not read, may
/// not see the answer 431.
const BUFFER: usize = 48 * 1024;

/// How long a connection without a request so far may stay open once its port is closed.
const LAST_HEAD: Duration = Duration::from_millis(500);

/// The pause after the system had no connection to give, as when all file descriptors are in use.
const PAUSE: Duration = Duration::from_secs(1);

/// One port of an instance.
pub(super) struct Port {
    pub(super) listener: TcpListener,
    pub(super) router: Router,
    pub(super) limits: Connections,
    /// Whether answers ask their clients to come back on another connection.
    pub(super) draining: Arc<AtomicBool>,
}

impl Port {
    /// Answers until `stop`, and ends once no request is under way. It does not wait for an idle connection or for half
    /// a request head. Dropping the future cuts everybody off.
    pub(super) async fn serve(self, stop: CancellationToken) {
        let mut connections = JoinSet::new();
        let mut reminded: Option<Instant> = None;
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                Some(_) = connections.join_next() => {}
                stream = accept(&self.listener), if connections.len() < self.limits.max => {
                    connections.spawn(self.converse(stream, stop.clone()));
                    let is_full = connections.len() == self.limits.max;
                    if is_full && reminded.is_none_or(|last| last.elapsed() > REMINDER) {
                        reminded = Some(Instant::now());
                        tracing::warn!(
                            connections = self.limits.max,
                            "no more connections are taken until some have ended: raise MAX_CONNECTIONS, or find out who keeps them"
                        );
                    }
                }
            }
        }
        // Clients in the system's queue believe that they are connected.
        while let Some(Ok((stream, _))) = self.listener.accept().now_or_never()
            && connections.len() < self.limits.max
        {
            connections.spawn(self.converse(stream, stop.clone()));
        }
        drop(self);
        while connections.join_next().await.is_some() {}
    }

    /// Answers the requests of one connection. After `stop` the request under way is the last.
    fn converse(&self, stream: TcpStream, stop: CancellationToken) -> impl Future<Output = ()> + Send + use<> {
        // Answers are written in one piece; waiting for more to send only delays them.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY was not set");
        }
        let mut stream = TimeoutStream::new(stream);
        // A client that never reads its answers would keep its connection for ever, also from the end of the service.
        stream.set_write_timeout(Some(self.limits.header_timeout));
        let http = http(self.limits);
        let asked = Arc::new(AtomicBool::new(false));
        let (begun, draining) = (Arc::clone(&asked), Arc::clone(&self.draining));
        let service = self
            .router
            .clone()
            .map_request(move |request: Request<Incoming>| {
                begun.store(true, Ordering::Relaxed);
                request
            })
            .map_response(move |response| if draining.load(Ordering::Acquire) { last(response) } else { response });
        async move {
            let mut connection =
                pin!(http.serve_connection(TokioIo::new(Box::pin(stream)), TowerToHyperService::new(service)));
            tokio::select! {
                _ = connection.as_mut() => return,
                () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
            }
            // Idle connections end at once. A connection without a request so far counts as busy: it gets a moment.
            if timeout(LAST_HEAD, connection.as_mut()).await.is_err() && asked.load(Ordering::Relaxed) {
                let _ = connection.await;
            }
        }
    }
}

/// A server of HTTP/1.1, the only protocol here.
fn http(limits: Connections) -> Builder {
    let mut builder = Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_header_size(HEAD)
        .max_buf_size(BUFFER);
    builder
}

/// The next connection.
async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                tracing::error!(error = %chain(&error), "no connection can be taken");
                sleep(PAUSE).await;
            }
        }
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// After this answer the client comes back on another connection, and so to another instance.
fn last(mut response: Response) -> Response {
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// Binds a port.
pub(super) async fn bind(variable: &'static str, address: SocketAddr) -> Result<TcpListener, super::StartError> {
    TcpListener::bind(address).await.map_err(|source| super::StartError::Bind { variable, address, source })
}
