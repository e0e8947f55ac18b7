use std::{
    collections::BTreeMap,
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use rand::{Rng, SeedableRng, rngs::SmallRng};
use reqwest::Url;
use tokio::{
    task::{JoinError, JoinSet},
    time::{Instant, sleep_until},
};

use super::{
    AuditError, Journal, JournalError, Report, RetryLimits, Verdict,
    client::ShopClient,
    progress::Progress,
    scrape::{Counters, ScrapeError},
    tally::Tally,
};
use crate::{
    config::ConfigError,
    console,
    orders::{OrderLine, OrdersError, Skip},
};

/// The lines of a replay, and how to send them.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The lines, in their order.
    pub lines: Arc<[OrderLine]>,
    /// Lines left out of the file, for the report.
    pub skipped: BTreeMap<Skip, u64>,
    /// Base URLs of the instances; at least one.
    pub targets: Vec<Url>,
    /// Ops URLs of the instances.
    pub ops: Vec<Url>,
    /// How many lines are under way at once.
    pub concurrency: NonZeroUsize,
    /// Lines begun per second.
    pub rate: Option<f64>,
    /// Reads for each line.
    pub browse: f64,
    /// How often a line is tried.
    pub limits: RetryLimits,
    /// The name of the run.
    pub run: String,
    /// The journal in which the outcomes of lines are written down.
    pub journal: Option<Arc<Journal>>,
}

/// A finished replay.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Replay {
    /// The outcome of each line of the plan, in its order.
    pub verdicts: Vec<Verdict>,
    /// The figures.
    pub report: Report,
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The order lines can't be read.
    #[error(transparent)]
    Orders(#[from] OrdersError),
    /// No line moves stock.
    #[error("no order line moves stock, so there is nothing to send: name another file, or take more of its lines")]
    Empty,
    /// No HTTP client.
    #[error("can't set up the HTTP client")]
    Client(#[source] reqwest::Error),
    /// The instances' own figures can't be read.
    #[error("can't read /metrics of an instance: check the ops URLs")]
    Metrics(#[source] ScrapeError),
    /// The state file can't be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The ledger could not be checked.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// The variables for traces can't be used.
    #[error(transparent)]
    Traces(ConfigError),
    /// A worker ended early.
    #[error("a worker of the replay failed")]
    Worker(#[source] JoinError),
}

struct Shared {
    plan: Plan,
    client: ShopClient,
    next: AtomicUsize,
    begun: Instant,
    progress: Progress,
}

/// Sends every line of the plan until its final answer. Dropping the future stops the replay: lines under way then may
/// or may not have been applied.
///
/// # Errors
///
/// [`ReplayError`]. Lines that the service refuses or does not answer are no error: see [`Replay::verdicts`].
pub async fn replay(plan: Plan) -> Result<Replay, ReplayError> {
    if plan.lines.is_empty() || plan.targets.is_empty() {
        return Err(ReplayError::Empty);
    }
    let http =
        ShopClient::http(plan.concurrency.get(), plan.targets.iter().chain(&plan.ops)).map_err(ReplayError::Client)?;
    let before = Counters::scrape(&http, &plan.ops).await.map_err(ReplayError::Metrics)?;
    let shared = Arc::new(Shared {
        client: ShopClient::new(http.clone(), plan.targets.as_slice().into(), plan.run.as_str().into(), plan.limits),
        next: AtomicUsize::new(0),
        begun: Instant::now(),
        progress: Progress::new(plan.lines.len() as u64),
        plan,
    });
    let plan = &shared.plan;

    let mut workers = JoinSet::new();
    for _ in 0..plan.concurrency.get() {
        workers.spawn(Arc::clone(&shared).work());
    }
    let mut verdicts = vec![Verdict::Unknown; plan.lines.len()];
    let mut tally = Tally::default();
    while let Some(worker) = workers.join_next().await {
        let (reached, seen) = worker.map_err(ReplayError::Worker)??;
        for (index, verdict) in reached {
            verdicts[index] = verdict;
        }
        tally.add(&seen);
    }
    let elapsed = shared.begun.elapsed();
    shared.progress.finish();

    let counters = if plan.ops.is_empty() {
        None
    } else {
        // An instance may be gone by now, or restarted, which is no reason to keep the figures of the lines back.
        let after = Counters::scrape(&http, &plan.ops).await;
        match after.and_then(|after| Counters::between(&before, &after)) {
            Ok(counted) => Some(counted),
            Err(error) => {
                console::note(&format!("the counts of the instances are left out: {}", console::chain(&error)));
                None
            }
        }
    };
    let report = Report::new(&verdicts, &tally, plan.skipped.clone(), counters, elapsed);
    Ok(Replay { verdicts, report })
}

impl Shared {
    /// Takes the next line until there is none.
    async fn work(self: Arc<Self>) -> Result<(Vec<(usize, Verdict)>, Tally), JournalError> {
        let mut rng = SmallRng::from_os_rng();
        let mut tally = Tally::default();
        let mut reached = Vec::new();
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(line) = self.plan.lines.get(index) else {
                return Ok((reached, tally));
            };
            let since = self.due(index).await;
            let verdict = self.client.adjust(index, line, since, &mut rng, &mut tally).await;
            reached.push((index, verdict));
            if let Some(journal) = &self.plan.journal {
                journal.settle(line, verdict).await?;
            }
            for turn in 0..reads(self.plan.browse, &mut rng) {
                let popular = &self.plan.lines[rng.random_range(0..self.plan.lines.len())];
                self.client.browse(index + turn, &popular.sku, &mut tally).await;
            }
            self.progress.advance();
        }
    }

    /// Waits until the line is due. Returns the instant from which its latency counts.
    async fn due(&self, index: usize) -> Instant {
        let Some(rate) = self.plan.rate else {
            return Instant::now();
        };
        #[expect(clippy::cast_precision_loss, reason = "a file has far fewer than 2^53 lines")]
        let due = self.begun + Duration::from_secs_f64(index as f64 / rate);
        sleep_until(due).await;
        due
    }
}

/// How many reads follow one line, so that the ratio holds on average.
fn reads(ratio: f64, rng: &mut SmallRng) -> usize {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the ratio is 0 to 1000")]
    let whole = ratio as usize;
    whole + usize::from(rng.random_bool(ratio.fract()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reads_keep_their_ratio_on_average() {
        let mut rng = SmallRng::seed_from_u64(1);
        let total: usize = (0..10_000).map(|_| reads(1.5, &mut rng)).sum();
        assert!((14_700..15_300).contains(&total), "{total}");
        assert_eq!(reads(0.0, &mut rng), 0);
        assert_eq!(reads(3.0, &mut rng), 3);
    }
}
