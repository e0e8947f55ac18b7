use std::{
    process::ExitCode,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use axum::Router;
use metrics_exporter_prometheus::PrometheusHandle;
use stockade::postgres::Relay;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    StartError,
    build::Service,
    database, log, open_files,
    port::{Port, bind},
    sweep::{prune, sweep},
    warm::warm,
};
use crate::{
    app::App,
    config::{Args, Config, Connections},
    console, flash, fleet, http, metrics,
    ops::{self, Ops},
    signals::Signals,
    traces::Exporter,
};

/// The exit status after a second signal: as if the process had not caught it.
const TERMINATED: u8 = 128 + 15;

/// How often old samples of histograms are folded in.
const UPKEEP: Duration = Duration::from_secs(5);

/// How many connections the operators' port takes: probes, a scrape, and some people.
const OPERATORS: usize = 256;

/// The time for each step of the shutdown when nothing of the grace is left.
const LAST: Duration = Duration::from_secs(1);

/// Serves until SIGTERM or SIGINT, then ends the requests that have begun. A second signal ends the process at once.
pub async fn run(args: &Args) -> ExitCode {
    run_with(args, async |app| Ok(http::app(app))).await
}

/// [`run`] with other routes on the public port. Public, so that handlers that do less can be measured in a process
/// that has the recorder, the log, the connections and the background work of the service.
pub async fn run_with(args: &Args, routes: impl AsyncFnOnce(App) -> Result<Router, StartError>) -> ExitCode {
    match Box::pin(serve(args, routes)).await {
        Ok(code) => code,
        Err(error) => {
            console::error(&error);
            error.exit_code()
        }
    }
}

async fn serve(
    args: &Args,
    routes: impl AsyncFnOnce(App) -> Result<Router, StartError>,
) -> Result<ExitCode, StartError> {
    let config = Config::new(args)?;
    let exporter = Exporter::from_env().map_err(StartError::Traces)?;
    log::install(config.log_format, config.log_filter.clone(), &exporter);
    warn_of_loads(&config);
    open_files::allow_for(config.connections.max.saturating_add(OPERATORS), config.database.max_connections);
    let mut signals = Signals::listen()?;
    let metrics = metrics::install()?;
    let Service { app, relay, warmup, loads, lock_log, fleet_redis } = Service::build(&config).await?;
    Service::settle(&app).await;
    let public = bind("LISTEN_ADDR", config.listen).await?;
    let operators = bind("OPS_ADDR", config.ops).await?;
    // A program that set port 0 reads the ports here.
    console::out(&format!("listening on http://{}", public.local_addr()?));
    console::out(&format!("ops on http://{}", operators.local_addr()?));

    let background = Background::default();
    background.spawn(upkeep(metrics.clone()));
    background.spawn(database::watch(config.database.clone(), app.pg.clone(), loads));
    background.spawn(sweep(app.pg.clone()));
    background.spawn(prune(app.pg.clone()));
    background.spawn(warm(warmup, app.stocks.clone()));
    let (fleet, announcer) =
        fleet::join(&fleet_redis, config.redis_timeout, config.advertise.as_deref(), operators.local_addr()?);
    background.spawn(announcer.run());
    background.spawn(lock_log.clone().publish(fleet.clone()));
    let (ops, sampler) = Ops::new(app.clone(), metrics, config.admin_token, lock_log, fleet);
    background.spawn(sampler.run());
    // Ends by itself when it is told to, and before the locks do.
    let keeper = Background::default();
    keeper.tasks.spawn(flash::keep(app.clone(), keeper.stop.clone()));
    let limits = config.connections;
    let clients = Background::default();
    let port =
        Port { listener: public, router: routes(app.clone()).await?, limits, draining: Arc::clone(&app.draining) };
    clients.tasks.spawn(port.serve(clients.stop.clone()));
    // Stays open until the locks are released, so that operators can watch the shutdown.
    let port = Port {
        listener: operators,
        router: ops::app(app.clone(), ops),
        limits: Connections { max: OPERATORS, ..limits },
        draining: Default::default(),
    };
    background.spawn(port.serve(CancellationToken::new()));

    signals.next().await;
    let deadline = Instant::now() + config.shutdown_grace;
    app.draining.store(true, Ordering::Release);
    tracing::info!(delay = ?config.shutdown_delay, "ending: not ready any more; after the delay the port is closed");
    let end = async {
        // Requests are answered until balancers have seen that the instance is going away.
        sleep(config.shutdown_delay).await;
        end(app, relay, keeper, clients, deadline).await;
        background.end().await;
        if !exporter.shutdown(LAST).await {
            tracing::warn!("the last spans were not sent to the collector");
        }
    };
    Ok(unless_signalled_again(end, &mut signals).await)
}

/// Warns of settings under which reads alone can use every connection to the database.
fn warn_of_loads(config: &Config) {
    let (loads, connections) = (config.cache.max_loads, config.database.max_connections);
    if u32::try_from(loads).is_ok_and(|loads| loads < connections) {
        return;
    }
    tracing::warn!(
        DB_MAX_LOADS = loads,
        DATABASE_MAX_CONNECTIONS = connections,
        "loads can take every connection to the database, and then no write gets one: lower DB_MAX_LOADS below \
         DATABASE_MAX_CONNECTIONS, or raise the latter"
    );
}

/// Waits for the end of the service, or for a second signal.
async fn unless_signalled_again(end: impl Future<Output = ()>, signals: &mut Signals) -> ExitCode {
    tokio::select! {
        () = end => {
            tracing::info!("ended");
            ExitCode::SUCCESS
        }
        () = signals.next() => {
            tracing::warn!("ended at once by a second signal");
            ExitCode::from(TERMINATED)
        }
    }
}

/// Lets requests end, then releases locks and closes connections.
async fn end(app: App, relay: Relay, keeper: Background, clients: Background, deadline: Instant) {
    if timeout_at(deadline, clients.end()).await.is_err() {
        tracing::warn!("the time is up: requests that have not ended are cut off");
    }
    let left = || deadline.saturating_duration_since(Instant::now()).max(LAST);
    // Another instance, or the next one, stores the flash reservations that are left.
    if tokio::time::timeout(LAST, keeper.end()).await.is_err() {
        tracing::warn!("flash reservations were still being stored");
    }
    if let Some(lab) = &app.lab {
        lab.shutdown(LAST).await;
    }
    if let Some(attacks) = &app.attacks {
        attacks.shutdown(LAST).await;
    }
    // Writes go on after their client left, and hold their locks until they end.
    app.locks.shutdown(left()).await;
    app.stocks.shutdown(LAST).await;
    if let Some(filter) = &app.filter {
        filter.shutdown(LAST).await;
    }
    relay.shutdown(LAST).await;
    if tokio::time::timeout(LAST, app.pg.close()).await.is_err() {
        tracing::warn!("a database connection was still in use");
    }
}

/// Tasks that run until they are stopped.
#[derive(Default)]
struct Background {
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Background {
    /// The task is dropped wherever it waits when it is to stop.
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(self.stop.clone().run_until_cancelled_owned(task));
    }

    async fn end(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

async fn upkeep(metrics: PrometheusHandle) {
    let mut ticks = tokio::time::interval(UPKEEP);
    loop {
        ticks.tick().await;
        metrics.run_upkeep();
    }
}
