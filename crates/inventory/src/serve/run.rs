use std::{io, net::SocketAddr, process::ExitCode, time::Duration};

use axum::{Router, serve::ListenerExt};
use metrics_exporter_prometheus::PrometheusHandle;
use stockade::postgres::Relay;
use tokio::{net::TcpListener, task::JoinSet, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{StartError, build::Service, log, signals::Signals, sweep::sweep, warm::warm};
use crate::{
    app::App,
    config::{Args, Config},
    console, http, metrics,
    ops::{self, Ops},
};

/// The exit status after a second signal: as if the process had not caught it.
const TERMINATED: u8 = 128 + 15;

/// How often old samples of histograms are folded in.
const UPKEEP: Duration = Duration::from_secs(5);

/// What each part of the end may take when nothing of the grace is left.
const LAST: Duration = Duration::from_secs(1);

/// Serves until SIGTERM or SIGINT, then ends what has begun. A second signal ends it at once.
pub async fn run(args: &Args) -> ExitCode {
    match Box::pin(serve(args)).await {
        Ok(code) => code,
        Err(error) => {
            console::error(&error);
            error.exit_code()
        }
    }
}

async fn serve(args: &Args) -> Result<ExitCode, StartError> {
    let config = Config::new(args)?;
    log::install(config.log_format, config.log_filter.clone());
    let mut signals = Signals::listen()?;
    let metrics = metrics::install()?;
    let Service { app, relay, warmup } = Service::build(&config).await?;
    Service::settle(&app).await;
    let public = bind("LISTEN_ADDR", config.listen).await?;
    let operators = bind("OPS_ADDR", config.ops).await?;
    // Whoever started this with port 0 reads the ports here.
    console::out(&format!("listening on http://{}", public.local_addr()?));
    console::out(&format!("ops on http://{}", operators.local_addr()?));

    let stop = CancellationToken::new();
    let background = TaskTracker::new();
    background.spawn(stop.clone().run_until_cancelled_owned(upkeep(metrics.clone())));
    background.spawn(sweep(app.pg.clone(), stop.clone()));
    background.spawn(stop.clone().run_until_cancelled_owned(warm(warmup)));
    background.close();
    let ops = Ops { metrics, admin_token: config.admin_token };
    let mut servers = Servers::start((public, http::app(app.clone())), (operators, ops::app(app.clone(), ops)));

    signals.next().await;
    tracing::info!("ending: not ready any more, requests that have begun go on");
    let end = async {
        end(app, relay, &mut servers, Instant::now() + config.shutdown_grace).await;
        stop.cancel();
        background.wait().await;
    };
    Ok(tokio::select! {
        () = end => {
            tracing::info!("ended");
            ExitCode::SUCCESS
        }
        () = signals.next() => {
            tracing::warn!("ended at once by a second signal");
            ExitCode::from(TERMINATED)
        }
    })
}

/// Lets requests end, then gives back what they and others left.
async fn end(app: App, relay: Relay, servers: &mut Servers, deadline: Instant) {
    app.draining.start();
    if tokio::time::timeout_at(deadline, servers.drain()).await.is_err() {
        tracing::warn!("the time is up: requests that have not ended are cut off");
    }
    let left = || deadline.saturating_duration_since(Instant::now()).max(LAST);
    // Writes go on after their client left; their locks are held until they end.
    app.locks.shutdown(left()).await;
    app.stocks.shutdown(LAST).await;
    relay.shutdown(LAST).await;
    if tokio::time::timeout(LAST, app.pg.close()).await.is_err() {
        tracing::warn!("a database connection was still in use");
    }
}

async fn bind(variable: &'static str, address: SocketAddr) -> Result<TcpListener, StartError> {
    TcpListener::bind(address).await.map_err(|source| StartError::Bind { variable, address, source })
}

async fn upkeep(metrics: PrometheusHandle) {
    let mut ticks = tokio::time::interval(UPKEEP);
    loop {
        ticks.tick().await;
        metrics.run_upkeep();
    }
}

/// Both ports. Dropping it closes them.
struct Servers {
    public: JoinSet<io::Result<()>>,
    /// Stays open to the end, so that somebody can watch it.
    _operators: JoinSet<io::Result<()>>,
    drain: CancellationToken,
}

impl Servers {
    fn start(public: (TcpListener, Router), operators: (TcpListener, Router)) -> Self {
        let drain = CancellationToken::new();
        let mut servers = Self { public: JoinSet::new(), _operators: JoinSet::new(), drain };
        let stopped = servers.drain.clone().cancelled_owned();
        let (listener, router) = public;
        servers.public.spawn(axum::serve(no_delay(listener), router).with_graceful_shutdown(stopped).into_future());
        let (listener, router) = operators;
        servers._operators.spawn(axum::serve(no_delay(listener), router).into_future());
        servers
    }

    /// Closes the public port and waits for the requests on it.
    async fn drain(&mut self) {
        self.drain.cancel();
        while self.public.join_next().await.is_some() {}
    }
}

/// Answers are written in one piece; waiting for more to send only delays them.
fn no_delay(listener: TcpListener) -> impl axum::serve::Listener<Addr = SocketAddr> {
    listener.tap_io(|stream| {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY was not set");
        }
    })
}
