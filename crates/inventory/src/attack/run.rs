use std::{sync::OnceLock, time::Duration};

use parking_lot::Mutex;
use serde::Serialize;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::{
    Attack, AttackError,
    ground::Ground,
    meter::{Figures, Meter, Sample, SoldBy},
    verdict::verdict,
};
use crate::millis::millis;

/// The time between two samples.
const EVERY: Duration = Duration::from_millis(100);

/// One run of an attack, now or in the past.
#[derive(Debug)]
pub(super) struct Run {
    attack: Attack,
    began: Instant,
    moments: Mutex<Vec<Moment>>,
    /// Once both sides are done, while something else goes on.
    so_far: Mutex<Option<Report>>,
    end: OnceLock<Report>,
}

/// Both sides at a moment of the run.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Moment {
    /// The time since the attack began.
    at_ms: u64,
    on: Sample,
    off: Sample,
}

/// The state of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum How {
    Running,
    Ended,
    Stopped,
    CutOff,
    Failed,
}

/// A run, as the page shows it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    attack: Attack,
    state: How,
    /// The time since the run began, with its preparation.
    elapsed_ms: u64,
    /// With the defences, since the attack began.
    on: Figures,
    /// Without the defences, since the attack began.
    off: Figures,
    /// The result in a sentence, or why there is none. Empty until both sides are done.
    verdict: String,
    /// What other schemes of the lab made of the same sale.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    schemes: Vec<SoldBy>,
}

/// Ends its run when dropped, unless the run has ended: a run that panicked ends too.
pub(super) struct Ending<'a>(pub(super) &'a Run);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.end(How::Failed, None, None);
    }
}

impl Run {
    pub(super) fn begin(attack: Attack) -> Self {
        Self {
            attack,
            began: Instant::now(),
            moments: Mutex::default(),
            so_far: Mutex::default(),
            end: OnceLock::new(),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.end.get().is_some()
    }

    /// Takes samples until the future is dropped.
    pub(super) async fn sample(&self, ground: &Ground) {
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            ticks.tick().await;
            self.note(ground);
        }
    }

    fn note(&self, ground: &Ground) {
        let Some(attacked) = ground.attacked() else { return };
        let [on, off] = ground.meters().map(Meter::sample);
        let moment = Moment { at_ms: millis(attacked), on, off };
        self.moments.lock().push(moment);
        if ground.has_sold() {
            let sides = ground.figures();
            let told = verdict(self.attack, &sides[0], &sides[1]);
            let report = self.told(How::Running, sides, told, ground.schemes());
            *self.so_far.lock() = Some(report);
        }
    }

    /// Ends the run in `state`. `why` is the error that ended it, if one did.
    pub(super) fn end(&self, state: How, ground: Option<&Ground>, why: Option<AttackError>) {
        let figures = |ground: &Ground| {
            self.note(ground);
            ground.attacked().map(|_| ground.figures())
        };
        let sides = ground.and_then(figures).unwrap_or_default();
        if let Some(ground) = ground {
            ground.not_sold("no result: the attack ended before", |_| true);
        }
        let is_done = state == How::Ended || ground.is_some_and(Ground::has_sold);
        let verdict = match (state, why) {
            (_, None) if is_done => verdict(self.attack, &sides[0], &sides[1]),
            (_, Some(error)) => format!("The attack broke off: {}.", crate::console::chain(&error)),
            (How::CutOff, None) => "The attack was cut off after 30 s, before both sides were done.".to_owned(),
            _ => "The attack was stopped before both sides were done.".to_owned(),
        };
        // The first end counts; a later one changes nothing.
        let _ = self.end.set(self.told(state, sides, verdict, ground.map(Ground::schemes).unwrap_or_default()));
    }

    pub(super) fn report(&self) -> Report {
        if let Some(report) = self.end.get() {
            return report.clone();
        }
        let so_far = self.so_far.lock().clone();
        so_far.unwrap_or_else(|| self.told(How::Running, <[Figures; 2]>::default(), String::new(), Vec::new()))
    }

    fn told(&self, state: How, [on, off]: [Figures; 2], verdict: String, schemes: Vec<SoldBy>) -> Report {
        Report { attack: self.attack, state, elapsed_ms: self.elapsed_ms(), on, off, verdict, schemes }
    }

    pub(super) fn moments(&self) -> Vec<Moment> {
        self.moments.lock().clone()
    }

    fn elapsed_ms(&self) -> u64 {
        millis(self.began.elapsed())
    }
}
