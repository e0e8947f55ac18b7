//! The tasks that keep a link's connections up.

use std::{
    future::pending,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use rand::Rng;
use tokio::time::{Instant, sleep, timeout};

use super::{connection::Connection, events::LinkEvents, handshake::Handshake, shared::Shared, up::Up};
use crate::{
    metrics::{self, REDIS_RECONNECTS},
    redis::{
        LinkError,
        dial::{Backoff, HANDSHAKE, HandshakeError, News, run_of},
    },
    resource::Namespace,
};

/// How often the name of the run is looked at.
const LOOK: Duration = Duration::from_secs(5);

const RUNTIME_ENDED: &str = "the tokio runtime in which it was connected has ended: connect in a runtime that lasts";

/// Shows the count of reconnects as zero before the first.
pub(super) fn announce() {
    metrics::announce(REDIS_RECONNECTS, &[]);
}

pub(super) async fn keep_commands(shared: Arc<Shared>) {
    for script in shared.scripts {
        metrics::announce_times(metrics::REDIS_COMMAND, &[metrics::tag("op", script.name)]);
    }
    let closing = shared.closing.clone();
    let mut kept = Kept { shared, ended: false };
    let shared = &kept.shared;
    let keeping = async { tokio::join!(commands(shared), shared.redis.dialer().watch()) };
    let _ = closing.run_until_cancelled(keeping).await;
    kept.ended = true;
}

/// Closes the link when its task ends. A task that is dropped with its runtime leaves the reason behind: no other task
/// will connect again.
struct Kept {
    shared: Arc<Shared>,
    ended: bool,
}

impl Drop for Kept {
    fn drop(&mut self) {
        if !self.ended {
            self.shared.set_unfit(Some(RUNTIME_ENDED.into()));
            self.shared.attempted.cancel();
        }
        self.shared.commands.set(None);
        self.shared.events.closed();
    }
}

async fn commands(shared: &Arc<Shared>) {
    let mut backoff = Backoff::new();
    let mut last_run = None;
    loop {
        let name = format!("stockade:{}", shared.role);
        let attempt = async {
            let (channels, namespace) = (&shared.channels, asked_about(shared));
            let connection =
                Connection::establish(shared, &name, channels, &shared.events, last_run.as_ref(), namespace).await?;
            let mut handshake = Handshake(Arc::clone(&connection));
            shared.events.prepare(&connection.up, &mut handshake).await?;
            // The replies during `prepare` may have been wrong.
            if connection.is_shifted() { Err(LinkError::Lost.into()) } else { Ok(connection) }
        };
        match within_limit(shared, attempt).await {
            Ok(connection) => {
                if last_run.replace(Arc::clone(&connection.up.run_id)).is_some() {
                    metrics::count(REDIS_RECONNECTS, &[]);
                }
                report_connected(shared, &connection.up);
                backoff.reset();
                // Counted first, so that no command goes out on this connection under the previous number.
                shared.generation.fetch_add(1, Ordering::AcqRel);
                shared.set_unfit(None);
                shared.commands.set(Some(Arc::clone(&connection)));
                shared.breaker.close();
                shared.events.opened(&connection.up);
                shared.attempted.cancel();
                let ended = until_ended(shared, &connection).await;
                *shared.ended.lock() = Some(Instant::now());
                shared.commands.set(None);
                shared.events.closed();
                tracing::debug!(role = shared.role, server = %shared.redis.dialer(), "the connection to Redis ended");
                if ended == Ended::Renamed {
                    continue;
                }
            }
            Err(error) => {
                report(shared, &error);
                shared.set_unfit(error.said());
                shared.attempted.cancel();
                if matches!(error, HandshakeError::Moved) {
                    backoff.reset();
                }
            }
        }
        shared.redis.dialer().pause(backoff.next()).await;
    }
}

pub(super) async fn keep_renewals(shared: Arc<Shared>) {
    let closing = shared.closing.clone();
    let _ = closing.run_until_cancelled(renewals(&shared)).await;
    shared.renewals.set(None);
}

async fn renewals(shared: &Arc<Shared>) {
    let mut backoff = Backoff::new();
    let name = format!("stockade:{}-renewal", shared.role);
    let deaf: Arc<dyn LinkEvents> = Arc::new(());
    loop {
        shared.renewals_wanted.notified().await;
        match within_limit(shared, Connection::establish(shared, &name, &[], &deaf, None, None)).await {
            Ok(connection) => {
                report_connected(shared, &connection.up);
                backoff.reset();
                shared.renewals.set(Some(Arc::clone(&connection)));
                until_ended(shared, &connection).await;
                shared.renewals.set(None);
                metrics::count(REDIS_RECONNECTS, &[]);
            }
            Err(error) => {
                report(shared, &error);
                // The second connection is still wanted.
                shared.renewals_wanted.notify_one();
            }
        }
        shared.redis.dialer().pause(backoff.next()).await;
    }
}

/// The keys for which permissions are checked. The keys of classic locks have names that only the application knows.
fn asked_about(shared: &Shared) -> Option<&Namespace> {
    let is_known = shared.role == "lock" || !shared.channels.is_empty();
    is_known.then(|| shared.redis.key_prefix())
}

#[derive(PartialEq)]
enum Ended {
    /// The server does not answer, or is not the one to use.
    Gone,
    /// The server is there, under another name.
    Renamed,
}

/// Leaves a primary that another one has replaced, even if it still answers. It may not know of its successor yet, and
/// what it grants or renews counts for nothing.
async fn until_ended(shared: &Shared, connection: &Arc<Connection>) -> Ended {
    let mut ended = Ended::Gone;
    tokio::select! {
        () = connection.ended.cancelled() => {}
        () = connection.wire.gather() => {}
        () = connection.wire.watch() => {}
        () = shared.redis.dialer().moved(&connection.place) => {
            let (server, primary) = (shared.redis.dialer(), shared.redis.dialer().primary());
            tracing::warn!(role = shared.role, %server, primary, "the sentinels made another server the primary");
            connection.ended.cancel();
        }
        () = renamed(shared, connection) => {
            tracing::info!(server = %shared.redis.dialer(), "Redis began a new replication history, perhaps for a backup: connecting again");
            connection.ended.cancel();
            ended = Ended::Renamed;
        }
    }
    ended
}

/// Returns once the run of the server has another name, which also happens without a restart: when a first replica
/// connects, and an hour after the last one left. A cache names what it stores by the run, so processes that connected
/// before and after would not believe one another. Locks name nothing by it.
async fn renamed(shared: &Shared, connection: &Arc<Connection>) {
    if shared.role != "cache" {
        return pending().await;
    }
    loop {
        let pause = LOOK.mul_f64(rand::rng().random_range(0.75..1.25));
        sleep(pause).await;
        let mut question = redis::cmd("INFO");
        question.arg("server").arg("replication");
        let Ok(info) = Handshake(Arc::clone(connection)).command(question).await else { continue };
        let run = redis::from_redis_value::<String>(info).ok().and_then(|info| run_of(&info));
        if run.is_some_and(|run| run != connection.up.run_id) {
            return;
        }
    }
}

/// An attempt takes about ten round trips. A server that takes nearly a command time-out for each is slow, and can be
/// used all the same.
async fn within_limit<T>(
    shared: &Shared,
    attempt: impl Future<Output = Result<T, HandshakeError>>,
) -> Result<T, HandshakeError> {
    let limit = HANDSHAKE.max(shared.redis.timeout() * 10);
    timeout(limit, attempt).await.unwrap_or(Err(HandshakeError::Timeout))
}

fn report(shared: &Shared, error: &HandshakeError) {
    let (role, server) = (shared.role, shared.redis.dialer());
    let primary = server.primary();
    if !server.outage.failed(error.is_final()) {
        tracing::debug!(role, %server, primary, %error, "still no connection to Redis");
    } else if error.is_final() {
        tracing::error!(role, %server, primary, %error, "Redis can't be used until its configuration is changed");
    } else {
        tracing::warn!(role, %server, primary, %error, "can't connect to Redis; trying on");
    }
}

fn report_connected(shared: &Shared, up: &Up) {
    let (role, server, new_run) = (shared.role, shared.redis.dialer(), up.new_run);
    let primary = server.primary();
    match server.outage.connected() {
        News::First => tracing::info!(%server, primary, "connected to Redis"),
        News::Back(away) => tracing::info!(%server, primary, new_run, ?away, "connected to Redis again"),
        News::None => tracing::debug!(role, %server, new_run, "one more connection to Redis"),
    }
}
