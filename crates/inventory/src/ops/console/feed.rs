use std::{sync::Arc, time::Duration};

use metrics_exporter_prometheus::PrometheusHandle;
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore, watch},
    time::{MissedTickBehavior, interval},
};

use super::snapshot::Snapshot;
use crate::app::App;

/// How many pages may listen at once. The operators' port has other connections to spare for probes and scrapes.
const LISTENERS: usize = 32;

/// From one snapshot to the next.
const PERIOD: Duration = Duration::from_secs(1);

/// The newest snapshot, as JSON; `None` while nobody listens.
type Newest = Option<Arc<str>>;

/// Where listeners get snapshots. Cheap to clone.
#[derive(Clone, Debug)]
pub(in crate::ops) struct Feed {
    newest: watch::Receiver<Newest>,
    places: Arc<Semaphore>,
    wanted: Arc<Notify>,
}

/// Takes the snapshots: one a second for all listeners together, and none while nobody listens.
#[derive(Debug)]
pub struct Sampler {
    newest: watch::Sender<Newest>,
    places: Arc<Semaphore>,
    wanted: Arc<Notify>,
    app: App,
    recorded: PrometheusHandle,
    /// Whether there are admin routes.
    has_admin: bool,
}

impl Feed {
    /// A feed, and what has to run for it.
    pub(in crate::ops) fn new(app: App, recorded: PrometheusHandle, has_admin: bool) -> (Self, Sampler) {
        let (sender, newest) = watch::channel(None);
        let (places, wanted) = (Arc::new(Semaphore::new(LISTENERS)), Arc::new(Notify::new()));
        let sampler = Sampler {
            newest: sender,
            places: Arc::clone(&places),
            wanted: Arc::clone(&wanted),
            app,
            recorded,
            has_admin,
        };
        (Self { newest, places, wanted }, sampler)
    }

    /// Begins to listen; `None` when there is no place left.
    pub(super) fn listen(&self) -> Option<Listener> {
        let place = Arc::clone(&self.places).try_acquire_owned().ok()?;
        let mut newest = self.newest.clone();
        // What is there was not seen yet by this listener.
        newest.mark_changed();
        self.wanted.notify_one();
        Some(Listener { newest, _place: place })
    }
}

/// Somebody who listens. Dropping it frees its place.
#[derive(Debug)]
pub(super) struct Listener {
    newest: watch::Receiver<Newest>,
    _place: OwnedSemaphorePermit,
}

impl Listener {
    /// The next snapshot; `None` once the sampler has ended. A listener that is slow misses some and gets the newest.
    pub(super) async fn next(&mut self) -> Newest {
        loop {
            self.newest.changed().await.ok()?;
            let newest = self.newest.borrow_and_update().clone();
            if newest.is_some() {
                return newest;
            }
        }
    }
}

impl Sampler {
    /// Takes snapshots until it is dropped, which ends every listener's stream.
    pub async fn run(self) {
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            while self.places.available_permits() == LISTENERS {
                self.newest.send_replace(None);
                // A listener that came before this line left its mark.
                self.wanted.notified().await;
                ticks.reset_immediately();
            }
            ticks.tick().await;
            match serde_json::to_string(&Snapshot::take(&self.app, &self.recorded, self.has_admin).await) {
                Ok(snapshot) => drop(self.newest.send_replace(Some(snapshot.into()))),
                Err(error) => tracing::error!(%error, "a snapshot for the console was not written"),
            }
        }
    }
}
