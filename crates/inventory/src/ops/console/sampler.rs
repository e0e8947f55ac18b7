use std::{sync::Arc, time::Duration};

use metrics_exporter_prometheus::PrometheusHandle;
use tokio::{
    sync::Notify,
    time::{MissedTickBehavior, interval},
};

use super::{
    feed::{Feed, Feeds, Source},
    fleet_page,
    relay::Relay,
    snapshot::Snapshot,
};
use crate::{app::App, fleet::Fleet};

/// The time between two snapshots.
const PERIOD: Duration = Duration::from_secs(1);

/// Takes the snapshots: one a second for all listeners together, and none while nobody listens. It listens to the other
/// instances while the feed of all instances has a listener.
#[derive(Debug)]
pub struct Sampler {
    own: Source,
    all: Source,
    wanted: Arc<Notify>,
    app: App,
    recorded: PrometheusHandle,
    fleet: Fleet,
    /// Whether there are admin routes.
    has_admin: bool,
}

impl Sampler {
    /// The feeds, and the sampler, which has to run for them.
    pub(in crate::ops) fn new(app: App, recorded: PrometheusHandle, fleet: Fleet, has_admin: bool) -> (Feeds, Self) {
        let wanted = Arc::<Notify>::default();
        let ((own, own_source), (all, all_source)) = (Feed::new(&wanted), Feed::new(&wanted));
        let sampler = Self { own: own_source, all: all_source, wanted, app, recorded, fleet, has_admin };
        (Feeds { own, all }, sampler)
    }

    /// Takes snapshots until it is dropped, which ends every listener's stream.
    pub async fn run(self) {
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut relay = None;
        loop {
            while !self.own.is_wanted() && !self.all.is_wanted() {
                relay = None;
                self.own.tell(None);
                self.all.tell(None);
                // A listener that came before this line has already notified.
                self.wanted.notified().await;
                ticks.reset_immediately();
            }
            ticks.tick().await;
            let snapshot = Snapshot::take(&self.app, &self.recorded, self.fleet.id(), self.has_admin).await;
            let own: Arc<str> = match serde_json::to_string(&snapshot) {
                Ok(text) => text.into(),
                Err(error) => {
                    tracing::error!(%error, "a snapshot for the console was not written");
                    continue;
                }
            };
            if self.all.is_wanted() {
                let others = relay.get_or_insert_with(Relay::new).look(&self.fleet);
                self.all.tell(Some(fleet_page::page(&self.fleet, &own, &others).into()));
            } else {
                relay = None;
                self.all.tell(None);
            }
            self.own.tell(Some(own));
        }
    }
}
