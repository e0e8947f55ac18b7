use std::{process::ExitCode, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use tokio::{task::JoinSet, time::Instant};

use super::{
    Failure,
    dialogue::{READY, REPORT, told, told_to_go},
    sale::Sale,
    scheme::Scheme,
    setting::Setting,
    world::World,
};
use crate::console;

/// The settings of a process of buyers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Settings {
    pub(super) scheme: Scheme,
    pub(super) limit: Duration,
    pub(super) world: Setting,
}

/// The results of the buyers of a process.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Report {
    /// How long each sale took, in µs.
    pub(super) waits: Vec<u64>,
    /// When the last unit was sold, in µs from the start.
    pub(super) last: u64,
    /// How often a holder was stopped. The processes of the buyers leave it at 0.
    pub(super) stopped: u32,
    /// Attempts that were refused or broke off. None of them was told that it has a unit.
    pub(super) refused: u64,
    /// The error of one of these attempts.
    pub(super) refusal: Option<String>,
}

/// A process of buyers: reads its settings from standard input and prints the results of its buyers.
pub async fn work() -> ExitCode {
    match buy().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => console::failed(&*error),
    }
}

async fn buy() -> Result<(), Failure> {
    let settings: Settings = serde_json::from_str(&told().await?)?;
    let world = Arc::new(settings.world.connect().await?);
    console::out(READY);
    told_to_go().await?;
    let begun = Instant::now();
    let buyers: JoinSet<_> =
        (0..settings.world.workers).map(|_| buyer(Arc::clone(&world), settings.clone(), begun)).collect();
    let mut report = Report::default();
    for seen in buyers.join_all().await {
        report.add(seen);
    }
    console::out(&format!("{REPORT}{}", serde_json::to_string(&report)?));
    Ok(())
}

/// Buys until the time is up or nothing is left.
async fn buyer(world: Arc<World>, settings: Settings, begun: Instant) -> Report {
    let mut report = Report::default();
    while begun.elapsed() < settings.limit {
        let asked = Instant::now();
        match settings.scheme.sell(&world).await {
            Ok(Sale::Sold) => {
                report.waits.push(micros(asked));
                report.last = micros(begun);
            }
            Ok(Sale::SoldOut) => break,
            Err(error) => {
                report.refused += 1;
                report.refusal = Some(console::chain(&error));
            }
        }
    }
    report
}

impl Report {
    /// Adds the results of other buyers.
    pub(super) fn add(&mut self, other: Self) {
        self.waits.extend(other.waits);
        self.last = self.last.max(other.last);
        self.stopped += other.stopped;
        self.refused += other.refused;
        self.refusal = self.refusal.take().or(other.refusal);
    }
}

fn micros(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX)
}
